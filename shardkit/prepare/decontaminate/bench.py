"""Reading benchmarks: a committed dataset, a table, or a folder of tables with pictures beside them.

A benchmark is checked against whole: a row that cannot be read is an error and not an exclusion, for what it holds
could stand in the training data unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from shardkit.engine import map_ordered
from shardkit.errors import ConfigError, SourceError
from shardkit.media.limits import MediaLimits
from shardkit.media.load import Media, load
from shardkit.media.reasons import BadMedia
from shardkit.prepare.decontaminate.config import Benchmark
from shardkit.prepare.decontaminate.fields import PARTS, Fields, fields_of
from shardkit.prepare.decontaminate.items import Bench, Item, Picture, digest_of
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import lines, parquet, tables
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.draft import ImageRef
from shardkit.prepare.ingest.listing import files_below
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.prepare.ingest.roots import Roots
from shardkit.prepare.ingest.units import InputFile
from shardkit.records import Example, Exclusion, Segment
from shardkit.store.dataset import Dataset
from shardkit.store.manifest_file import MANIFEST

PLANTED_PICTURES = 20
"""Pictures of a benchmark whose bytes are kept for a self-test."""

_CONTAINERS: Mapping[str, ModuleType] = {
    ".jsonl": lines, ".ndjson": lines, ".parquet": parquet, ".csv": tables, ".tsv": tables,
}  # fmt: skip
_COMPRESSED = (".gz", ".zst", ".bz2")
_UNIT = 256_000_000


def read(benchmark: Benchmark, *, fields: Mapping[str, str], bases: Sequence[Path] = (), workers: int = 1) -> Bench:
    """All items of a benchmark.

    Args:
        fields: part of an item -> column, from --bench-field.

    Raises:
        ConfigError: where `fields` names no part of an item.
        SourceError: where the benchmark cannot be read whole, or holds no item; naming file and row.
        IntegrityError: where it is a damaged dataset.
    """
    for part in fields:
        if part not in PARTS:
            raise ConfigError(
                f"--bench-field {part}=... : an item has no {part!r}", hint=f"use one of {', '.join(PARTS)}"
            )
    if (benchmark.path / MANIFEST).is_file():
        items = tuple(_of_dataset(Dataset.open(benchmark.path, base=bases)))
    else:
        items = tuple(_of_tables(benchmark.path, fields, workers))
    if not items:
        raise SourceError(
            "the benchmark holds no item", where=str(benchmark.path), hint="give a table with rows, or leave it out"
        )
    return Bench(name=benchmark.name, digest=digest_of(items), items=items)


# ---------------------------------------------------------------------- datasets
def _of_dataset(dataset: Dataset) -> Iterator[Item]:
    looks = {
        (row["asset_id"], row["frame"]): row
        for row in dataset.table("assets", ["asset_id", "frame", "phash", "phash_fine", "preview", "class"]).to_pylist()
    }
    kept = 0
    for _, _, example in dataset.examples():
        pictures = []
        for image in example.images:
            known = looks.get((image.asset_id, image.frame), {})
            if known.get("phash_fine") is None:
                known = load(image.data, frame=image.frame).looks.columns()
            pictures.append(
                Picture(
                    asset_id=image.asset_id,
                    frame=image.frame,
                    pixel_id=image.pixel_id,
                    phash=known["phash"],
                    phash_fine=known["phash_fine"],
                    preview=known["preview"],
                    picture_class=known["class"],
                    data=image.data if kept < PLANTED_PICTURES else None,
                )
            )
            kept += 1
        yield from _of_example(example, tuple(pictures))


def _of_example(example: Example, pictures: tuple[Picture, ...]) -> Iterator[Item]:
    """One item for each question and answer of a dialogue; any other example is one item."""
    spoken = [segment for segment in example.segments if segment.text and segment.role in ("user", "assistant")]
    turns = list(_turns(spoken))
    if turns:
        for number, (question, answers) in enumerate(turns, 1):
            label = example.example_id if len(turns) == 1 else f"{example.example_id}:{number}"
            yield Item(label=label, question=question, answers=answers, pictures=pictures)
    else:
        context = "\n\n".join(segment.text for segment in example.segments if segment.text)
        yield Item(label=example.example_id, context=context, pictures=pictures)


def _turns(spoken: Sequence[Segment]) -> Iterator[tuple[str, tuple[str, ...]]]:
    merged: list[tuple[str, list[str]]] = []
    for segment in spoken:
        if merged and merged[-1][0] == segment.role:
            merged[-1][1].append(segment.text or "")
        else:
            merged.append((segment.role or "", [segment.text or ""]))
    for (role, said), (next_role, answer) in pairwise([*merged, ("", [])]):
        if role == "user":
            # Several texts of one turn of the assistant are answers to choose from (chosen, rejected).
            yield "\n\n".join(said), tuple(answer) if next_role == "assistant" else ()


# ---------------------------------------------------------------------- tables
def _of_tables(path: Path, fields: Mapping[str, str], workers: int) -> Iterator[Item]:
    files = [(file, suffix) for file in files_below([path]) if (suffix := _suffix(file.name)) is not None]
    if not files:
        raise SourceError(
            f"neither a dataset nor a table ({', '.join(_CONTAINERS)}, also compressed)",
            where=str(path),
            hint="give a committed dataset, JSON lines or Parquet; other dumps: `shardkit ingest` them first",
        )
    config = IngestConfig(format="rows", paths=(path,), output=None, fields=fields, unit_size=_UNIT)
    root = str(path.resolve() if path.is_dir() else path.resolve().parent)
    kept = 0
    for file, suffix in files:
        prefix = f"{file.name}:" if path.is_dir() else ""
        chunks = _chunks(file, _CONTAINERS[suffix], config)
        for items in map_ordered(partial(_read_chunk, suffix, config, root, prefix), chunks, workers=workers):
            for item in items:
                kept += len(item.pictures)
                yield item if kept <= PLANTED_PICTURES else _without_bytes(item)


def _without_bytes(item: Item) -> Item:
    return replace(item, pictures=tuple(replace(picture, data=None) for picture in item.pictures))


def _suffix(name: str) -> str | None:
    folded = name.lower()
    for end in _COMPRESSED:
        folded = folded.removesuffix(end)
    return next((suffix for suffix in _CONTAINERS if folded.endswith(suffix)), None)


def _chunks(file: InputFile, module: ModuleType, config: IngestConfig) -> Iterator[Any]:
    opener = Opener()
    try:
        module.check(file, (), config)
        for piece in module.plan(file, config, opener):
            yield from module.chunks(piece, config, opener)
    finally:
        opener.close()


def _read_chunk(suffix: str, config: IngestConfig, root: str, prefix: str, chunk: Any) -> list[Item]:
    """The items of a chunk; run by a worker."""
    reader = Reader(Roots(input_root=root), (), MediaLimits().max_bytes)
    items: list[Item] = []
    for record in _CONTAINERS[suffix].records(chunk, config):
        if isinstance(record, Exclusion):
            raise _unusable(record.input, record.position, record.reason, record.detail)
        if not isinstance(record, Record):
            continue
        try:
            if not isinstance(record.value, dict):
                raise Bad("not_an_object", f"the row is a {type(record.value).__name__}, not an object")
            found = fields_of(record.value, config)
            pictures = tuple(
                _picture(ref, reader, record.folder, keep=len(items) < PLANTED_PICTURES) for ref in found.images
            )
        except (Bad, BadMedia) as bad:
            raise _unusable(record.input, record.position, *bad.args) from None
        items.append(_item(found, pictures, f"{prefix}{record.position}"))
    return items


def _unusable(name: str, position: str, reason: str, detail: str) -> SourceError:
    hint = (
        "name the columns with --bench-field PART=COLUMN"
        if reason == "missing_field"
        else "mend the row or take it out"
    )
    return SourceError(
        f"a row of the benchmark cannot be used: {detail} ({reason})", where=f"{name}:{position}", hint=hint
    )


def _item(found: Fields, pictures: tuple[Picture, ...], place: str) -> Item:
    return Item(
        label=found.label or place,
        question=found.question,
        answers=found.answers,
        context=found.context,
        pictures=pictures,
    )


def _picture(ref: ImageRef, reader: Reader, folder: str, *, keep: bool) -> Picture:
    data = reader.image(ref, folder)
    media: Media = load(data)
    looks = media.looks
    return Picture(
        asset_id=media.asset_id,
        frame=media.frame,
        pixel_id=media.pixel_id,
        phash=looks.phash,
        phash_fine=looks.phash_fine,
        preview=looks.preview,
        picture_class=looks.picture_class,
        data=data if keep else None,
    )
