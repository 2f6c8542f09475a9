"""`shardkit audit`: proves from the shards, not from the tables, that no two splits share anything.

    each shard, whole file against the manifest -> values and looks from its bytes -> values on two sides
                                                                                   -> near pairs on two sides
                                                                                   -> what a digest denies

It trusts the manifest's list of shards and nothing else; tables say only where a raw row came from (--group-by @path),
which example was made from which, and which images and texts the split declared boilerplate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError
from shardkit.prepare.audit.config import AuditConfig, AuditResult
from shardkit.prepare.audit.jobs import Jobs
from shardkit.prepare.audit.leaks import Found, among, by_side, evidence, of_kind, on_two_sides
from shardkit.prepare.audit.near import NEAR_KINDS, Ground, Pairs, near_pictures, near_texts, near_vectors
from shardkit.prepare.audit.parents import inherited, parents_of
from shardkit.prepare.audit.removal import unexplained
from shardkit.prepare.audit.rules import origins, rules_of
from shardkit.prepare.audit.sequences import examine_sequences
from shardkit.prepare.audit.sides import KINDS, Side, examine, forget, groups_of, value_bits
from shardkit.prepare.dedup import inputs as dedup_inputs
from shardkit.prepare.dedup.facts import read_facts
from shardkit.prepare.dedup.field_vectors import write_vectors
from shardkit.prepare.dedup.inputs import Inputs
from shardkit.prepare.dedup.keys import Keys, hex_id
from shardkit.prepare.dedup.matchers import NEAR
from shardkit.store.dataset import Dataset
from shardkit.store.manifest_file import MANIFEST
from shardkit.store.whole import open_whole
from shardkit.text.excerpt import excerpt

_ALONE = "every declared group has one example; where pages of one document must not be divided, name their key with --group-by"


def run(config: AuditConfig, on_progress: Progress = silent) -> AuditResult:
    """Audit a dataset that was split, or a view of one.

    Raises:
        ConfigError: where no example has the key that is asked for.
        IntegrityError: where a file is not the one that the manifest names.
        SourceError: where no dataset is.
    """
    dataset = Dataset.open(config.dataset, base=config.bases, check_id=False)
    if len(dataset.splits) < 2:
        return AuditResult(
            path=config.dataset, splits=dataset.splits, examples=0, sequences=0, leaks={}, permitted={}, evidence=(),
            boilerplate=(), faults=(), identity=_identity(dataset),
        )  # fmt: skip
    try:
        return _Audit(config, dataset).result(on_progress)
    finally:
        forget()
        dedup_inputs.forget()


class _Audit:
    """One audit: what was read, and what was found in it."""

    def __init__(self, config: AuditConfig, dataset: Dataset) -> None:
        self._config = config
        self._dataset = dataset
        self._refs = (*dataset.shards, *dataset.sequence_shards)
        self._splits = origins(dataset)
        self._rules = rules_of(
            self._splits, asked=config.levels, with_vectors=bool(config.embeddings or config.embedding_field)
        )
        self._jobs = Jobs(config, dataset, self._splits, with_looks=self._rules.looks_for("perceptual"))
        # Also its own: a stage that changes images lists them under their new names.
        self._boilerplate = _boilerplate((*self._splits, dataset))
        number = {split: place for place, split in enumerate(dataset.splits)}
        self._side_of = np.array([number[ref.split] for ref in self._refs] or [0], np.int64)
        self._leaks: dict[str, int] = {}
        self._permitted: dict[str, int] = {}
        self._evidence: list[dict[str, Any]] = []
        self._allowed: list[dict[str, Any]] = []

    def result(self, on_progress: Progress) -> AuditResult:
        sides = list(self._read(on_progress))
        examples = [side for side in sides if side.shard < len(self._dataset.shards)]
        self._check_key(examples)
        parents, lost = parents_of(self._splits)
        notes = [*self._rules.notes, *lost]
        of_parents = inherited(
            parents, sides, keys=self._jobs.keys, bases=self._config.bases, workers=self._config.workers
        )
        everything = [*sides, *of_parents]
        for kind in KINDS:
            found = self._of_kind(kind, everything)
            if kind == "group" and found.num_values == len(found.values) > 1:
                notes.append(_ALONE)
            self._count(kind, on_two_sides(found, self._side_of))
        with TemporaryDirectory(prefix="shardkit-") as scratch:
            for pairs in self._near(examples, Path(scratch), on_progress):
                self._count_pairs(pairs)
        changed = {key: where for side in examples for key, where in side.changed}
        return AuditResult(
            path=self._config.dataset,
            splits=self._dataset.splits,
            examples=sum(side.num_rows for side in examples),
            sequences=sum(ref.num_rows for ref in self._dataset.sequence_shards),
            leaks=self._leaks,
            permitted=self._permitted,
            evidence=tuple(self._evidence),
            boilerplate=tuple(self._allowed),
            faults=(*(fault for side in sides for fault in side.faults), *unexplained(self._dataset, changed)),
            identity=_identity(self._dataset),
            rules=self._described(),
            left_out=self._rules.left_out,
            notes=tuple(notes),
        )

    # ------------------------------------------------------------------ reading
    def _read(self, on_progress: Progress) -> Iterator[Side]:
        """What is in each shard of examples, then of sequences."""
        done, total, workers = 0, len(self._jobs), self._config.workers
        for work, jobs in ((examine, self._jobs.examples()), (examine_sequences, self._jobs.sequences())):
            for side in map_ordered(work, jobs, workers=workers):
                done += 1
                on_progress(done, total, "reading")
                yield side

    def _check_key(self, sides: Sequence[Side]) -> None:
        key = self._config.group_by
        if key is not None and any(side.num_rows for side in sides) and not any(side.num_keyed for side in sides):
            raise ConfigError(
                f"no example has the key {key!r}",
                where=str(self._config.dataset),
                hint="name another with --group-by; `shardkit head` shows the fields",
            )

    # ------------------------------------------------------------------ equal values
    def _of_kind(self, kind: str, sides: Sequence[Side]) -> Found:
        """All occurrences; of ids those that something was made from: an example or a sequence."""
        found = of_kind(sides, kind)
        if kind != "parent":
            return found
        made = np.concatenate([np.empty((0, 2), np.uint64), *(side.made for side in sides)])
        return found.take(among(found.values, np.unique(made, axis=0)))

    def _count(self, kind: str, found: Found) -> None:
        listed = self._boilerplate.get(kind)
        free = np.zeros(len(found.values), np.bool_) if listed is None else among(found.values, listed)
        for some, counts, shown in (
            (found.take(~free), self._leaks, self._evidence),
            (found.take(free), self._permitted, self._allowed),
        ):
            counts[kind] = some.num_values
            shown += evidence(self._refs, kind, some, partial(self._named, kind, some), listed=self._config.listed)

    def _named(self, kind: str, found: Found, index: int) -> str:
        """The value in words: ids as they are, texts and groups read from a row that has them."""
        if kind in ("pixel", "parent"):
            return hex_id(found.values[index])
        shard, row = int(found.shards[index]), int(found.rows[index])
        reader = open_whole(self._dataset.shards[shard], compare=False)
        facts = next(iter(read_facts(reader, np.array([row], np.int32), with_gaps=True)))
        reader.close()
        job = self._jobs.of(shard, np.array([row], np.int32))
        candidates = {
            "asset": facts.assets,
            "text": (facts.text,),
            "group": groups_of(job, facts, job.place_of(job.rows).get(row, {})),
        }[kind]
        wanted = tuple(found.values[index].tolist())
        named = (value for value in candidates if value_bits(kind, value) == wanted)
        return excerpt(next(named, hex_id(found.values[index])))

    # ------------------------------------------------------------------ near ones
    def _near(self, sides: Sequence[Side], scratch: Path, on_progress: Progress) -> Iterator[Pairs]:
        rules, config = self._rules, self._config
        if not any(rules.looks_for(level) for level in NEAR):
            return
        ground = self._ground(sides)
        texts = of_kind(sides, "text")
        if rules.looks_for("perceptual"):
            yield from near_pictures(ground, texts)
        if rules.looks_for("text"):
            yield near_texts(ground, texts, workers=config.workers, scratch=scratch, on_progress=on_progress)
        if rules.looks_for("semantic"):
            files = list(config.embeddings)
            if config.embedding_field is not None:
                file = scratch / "field-vectors.arrow"
                files.append(write_vectors(ground.inputs, config.embedding_field, file, workers=config.workers))
            yield from near_vectors(ground, files, column=config.embedding_column, scratch=scratch)

    def _ground(self, sides: Sequence[Side]) -> Ground:
        chosen = [self._jobs.rows_of(shard) for shard in range(len(self._dataset.shards))]
        sizes = np.array([len(rows) for rows in chosen], np.int64)
        shards = np.repeat(np.arange(len(sizes)), sizes)
        inputs = Inputs(
            datasets=(self._dataset,),
            num_datasets=1,
            bases=self._config.bases,
            starts=(0, int(sizes.sum())),
            shards=shards.astype(np.int32),
            rows=np.concatenate([np.empty(0, np.int32), *chosen]),
            splits=self._dataset.splits,
            by_manifest=True,
        )
        return Ground(
            inputs=inputs,
            sides=sides,
            side_of=self._side_of[shards],
            boilerplate=self._boilerplate,
            rules=self._rules,
        )

    def _count_pairs(self, pairs: Pairs) -> None:
        for free, counts, shown in ((False, self._leaks, self._evidence), (True, self._permitted, self._allowed)):
            some = pairs.edges.take(np.flatnonzero(pairs.permitted == free))
            counts[pairs.kind] = counts.get(pairs.kind, 0) + len(some)
            for at in range(min(len(some), self._config.listed)):
                one, two = int(some.one[at]), int(some.two[at])
                rows = np.union1d(pairs.units.rows(one), pairs.units.rows(two))
                shown.append(
                    {
                        "kind": pairs.kind,
                        "value": NEAR[pairs.level].evidence(float(some.score[at]), some.detail[at].tolist()),
                        "score": round(float(some.score[at]), 6),
                        "sides": by_side(self._refs, self._jobs.places(rows)),
                    }
                )

    def _described(self) -> dict[str, Any]:
        near: dict[str, dict[str, Any]] = {}
        for level in NEAR:
            if self._rules.looks_for(level):
                near[level] = {"version": NEAR[level].VERSION, "threshold": self._rules.thresholds[level]}
        if "text" in near:
            near["text"]["preset"] = self._rules.preset
        if "perceptual" in near:
            near["perceptual"]["transforms"] = sorted(self._rules.transforms)
        kinds = [*KINDS, *(kind for level in near for kind in NEAR_KINDS[level])]
        return {"kinds": kinds, "near": near, "group_by": [key for key in self._jobs.keys if key is not None]}


def _boilerplate(splits: Sequence[Dataset]) -> dict[str, Keys]:
    """Kind of tables/boilerplate -> [P, 2] bits of the values that the splits declared so."""
    pairs: dict[str, list[tuple[int, int]]] = {}
    for split in splits:
        if split.has_table("boilerplate"):
            for row in split.table("boilerplate", ["kind", "value"]).to_pylist():
                kind = "text" if row["kind"].endswith("text") else row["kind"]
                pairs.setdefault(row["kind"], []).append(value_bits(kind, row["value"]))
    return {kind: np.array(values, np.uint64) for kind, values in pairs.items()}


def _identity(dataset: Dataset) -> str:
    """What is wrong with the manifest as a whole."""
    stated, found = dataset.id, dataset.manifest.dataset_id
    if stated != found:
        return f"the manifest gives the dataset id {found}, but says {stated}; it was changed after the commit"
    if dataset.manifest.to_json() != (dataset.path / MANIFEST).read_bytes():
        return "the manifest was changed after the commit"
    return ""
