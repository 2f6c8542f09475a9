"""What a worker process does with a chunk: records, drafts, examples, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shardkit.media.phash import looks_of
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import PairChunk
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.example import Kept, Policy, finish
from shardkit.prepare.ingest.formats import SOURCES
from shardkit.prepare.ingest.group import group_key
from shardkit.prepare.ingest.planning import CONTAINERS, Chunk
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record, exclusion
from shardkit.prepare.ingest.roots import FileRead, Roots, digest_input
from shardkit.prepare.ingest.units import InputFile
from shardkit.records import Exclusion
from shardkit.store.columns import Rows, to_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every worker knows."""

    config: IngestConfig
    source: str
    recipe: str
    """Fingerprint of the recipe."""
    roots: Roots
    url_maps: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A chunk to make examples of, or an input to take the digest of."""

    unit: int
    container: str = ""
    chunk: Chunk | None = None
    weight: int = 0
    """Bytes of the input that the chunk stands for, about."""
    digest: InputFile | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    unit: int
    weight: int = 0
    """That of the task."""
    outcomes: tuple[Exclusion | None, ...] = ()
    """Of each record, in order; None is one that was kept, the next of `rows`."""
    rows: Rows | None = None
    changes: Counter[str] = field(default_factory=Counter)
    files: tuple[FileRead, ...] = ()
    missing: tuple[dict[str, Any], ...] = ()
    """Rows of tables/missing."""

    def inputs(self) -> Iterator[str]:
        """The input of each record."""
        kept = iter([] if self.rows is None else self.rows.places["input"].to_pylist())
        for outcome in self.outcomes:
            yield next(kept) if outcome is None else outcome.input

    def first(self, count: int) -> Done:
        """The same of the first `count` records alone."""
        if count >= len(self.outcomes):
            return self
        outcomes = self.outcomes[:count]
        rows = self.rows and self.rows.slice(0, outcomes.count(None))
        named = {(outcome.input, outcome.position) for outcome in outcomes if outcome is not None}
        if rows is not None:
            named.update(zip(rows.places["input"].to_pylist(), rows.places["position"].to_pylist(), strict=True))
        missing = tuple(row for row in self.missing if (row["input"], row["position"]) in named)
        return replace(self, outcomes=outcomes, rows=rows, missing=missing)


def work(job: Job, task: Task) -> Done:
    """The examples and exclusions of a chunk."""
    if task.digest is not None:
        return Done(unit=task.unit, files=(digest_input(task.digest.path, task.digest.name),))
    assert task.chunk is not None
    changes: Counter[str] = Counter()
    reader = Reader(job.roots, job.url_maps, job.config.limits.max_bytes)
    policy = _policy(job)
    results: list[Kept | Exclusion] = []
    missing: list[dict[str, Any]] = []
    for record in CONTAINERS[task.container].records(task.chunk, job.config):
        if isinstance(record, Counter):
            changes.update(record)
        elif isinstance(record, Exclusion):
            results.append(record)
        else:
            results.extend(_examples(record, job, policy, reader, missing))
    if isinstance(task.chunk, PairChunk):
        for pair in task.chunk.pairs:
            for name in pair.files:
                reader.unread(name)
    kept = [result for result in results if isinstance(result, Kept)]
    for one in kept:
        changes.update(one.changes)
    return Done(
        unit=task.unit,
        weight=task.weight,
        outcomes=tuple(result if isinstance(result, Exclusion) else None for result in results),
        rows=_rows(kept) if kept else None,
        changes=changes,
        files=tuple(reader.files.values()),
        missing=tuple(missing),
    )


def _rows(kept: Sequence[Kept]) -> Rows:
    found = looks_of([sketch for one in kept for sketch in one.sketches])
    assets = [row for one in kept for row in one.assets]
    return to_rows(
        [one.example for one in kept],
        [{"input": one.input, "position": one.position, **one.marks} for one in kept],
        assets=[{**asset, **looks.columns()} for asset, looks in zip(assets, found, strict=True)],
        provenance=[one.provenance for one in kept],
    )


def _policy(job: Job) -> Policy:
    config = job.config
    return Policy(
        source=job.source,
        revision=config.revision,
        retrieved_at=config.retrieved_at,
        licence=config.licence,
        recipe=job.recipe,
        on_missing_image=config.on_missing_image or SOURCES[config.format].on_missing_image,
        keep_metadata=config.keep_metadata,
        limits=config.limits,
        group=None if config.group_by is None else group_key(config.group_by, source=job.source),
        group_by_path=config.group_by is not None and config.group_by.startswith("@path:"),
    )


def _examples(
    record: Record, job: Job, policy: Policy, reader: Reader, missing: list[dict[str, Any]]
) -> Iterator[Kept | Exclusion]:
    """What becomes of one record: an example or exclusion, or one for each of its pages.

    Args:
        missing: takes a row for each address without a file.
    """
    try:
        drafts = list(SOURCES[job.config.format].drafts(record, job.config, reader))
    except Bad as bad:
        yield exclusion(record.input, record.position, bad.reason, bad.detail)
        return
    for draft in drafts:
        if isinstance(draft, Exclusion):
            yield draft
            continue
        try:
            kept = finish(draft, policy, reader)
        except Bad as bad:
            lacking = bad.reason == "asset_missing"
            yield exclusion(draft.input, draft.position, bad.reason, bad.detail)
        else:
            lacking = kept.changes["image_dropped:asset_missing"] > 0
            yield kept
        if lacking:
            missing.extend(_missing(draft, reader))


def _missing(draft: Draft, reader: Reader) -> Iterator[dict[str, Any]]:
    """Rows of tables/missing for a draft that lacks an image."""
    texts = [segment.text for segment in draft.segments if segment.text]
    for address in reader.missing_addresses(draft.images, draft.folder):
        yield {
            "input": draft.input,
            "position": draft.position,
            "url": address,
            "caption": texts[0] if texts and len(draft.images) == 1 else None,
        }
