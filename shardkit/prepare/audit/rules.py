"""By which rules a dataset is audited: those that its split recorded, or what is asked for, or the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardkit.errors import IntegrityError
from shardkit.prepare.dedup import near_text
from shardkit.prepare.dedup.config import DEFAULT_LEVELS
from shardkit.prepare.dedup.levels import LEVELS
from shardkit.prepare.dedup.matchers import NEAR
from shardkit.store.dataset import Dataset

DEFAULT_PRESET = "web"
_NO_VECTORS = "no vectors are named: give their files with --embeddings, or the metadata field that holds them with --embedding-field"
_NOT_ASKED = "not named with --level"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    levels: tuple[str, ...]
    """Of LEVELS: those that are looked at, near ones only where they are. Equality is always looked at."""
    preset: str
    """Key of near_text.PRESETS."""
    thresholds: Mapping[str, float]
    """Near level -> score from which two are near."""
    transforms: frozenset[str]
    """mirror, rotate: how else pictures are looked for."""
    both_listed: bool
    """Whether near values are permitted where both are listed as near boilerplate; else where one is any boilerplate."""
    left_out: Mapping[str, str]
    """Near level -> why it is not looked at."""
    notes: tuple[str, ...]

    def looks_for(self, level: str) -> bool:
        """Whether near ones of a level are looked for."""
        return level in self.levels and level in NEAR


def origins(dataset: Dataset) -> tuple[Dataset, ...]:
    """The splits that the dataset is, or is a view of, or was made from; none where they are not at hand."""
    if dataset.stage == "split":
        return (dataset,)
    holders = {shard.holder.id: shard.holder for shard in dataset.shards}
    found = {holder.id: holder for holder in holders.values() if holder.stage == "split"}
    if not found:
        found = {split.id: split for made_from in _inputs(dataset) for split in origins(made_from)}
    return tuple(found.values())


def _inputs(dataset: Dataset) -> Iterator[Dataset]:
    """The inputs of a stage that wrote shards of its own, where they can be found."""
    if not dataset.is_split or dataset.stage == "ingest":
        return
    for dataset_id in dataset.manifest.inputs:
        try:
            yield dataset.holder(dataset_id)
        except IntegrityError:
            continue


def rules_of(splits: Sequence[Dataset], *, asked: Sequence[str], with_vectors: bool) -> Rules:
    """What is looked at, and how near is near.

    Args:
        asked: levels that the caller names; none leaves it to the record.
        with_vectors: whether files of vectors are given.
    """
    notes = []
    records = [_near_of(split.recipe) for split in splits]
    known: list[Mapping[str, Any]] = [record for record in records if record is not None]
    if not records:
        notes.append("the split that it was made from is not at hand: default matchers and thresholds, no declared key")
    elif len(known) < len(records):
        notes.append("the split is of a version that recorded no near matchers: their default thresholds")
    recorded = {level for record in known for level in record}
    if len(known) < max(len(records), 1):
        recorded |= {level for level in DEFAULT_LEVELS if level in NEAR}
    wanted = set(asked) or recorded
    if with_vectors:
        wanted.add("semantic")
    left_out = {}
    for level in NEAR:
        if level == "semantic" and not with_vectors:
            if level in wanted | recorded:
                left_out[level] = _NO_VECTORS
                wanted.discard(level)
        elif level not in wanted:
            left_out[level] = _NOT_ASKED if asked else "the split kept only equal ones together (--edges exact)"
        elif known and level not in recorded:
            notes.append(f"the split kept together nothing by level {level}: its default threshold")
    presets = sorted({record["text"]["preset"] for record in known if "text" in record} & set(near_text.PRESETS))
    # Of several splits the widest net: fewer tokens a shingle find more.
    preset = min(presets, key=lambda name: near_text.PRESETS[name].threshold) if presets else DEFAULT_PRESET
    for record in known:
        for level, one in record.items():
            if level in NEAR and one.get("version") != NEAR[level].VERSION:
                notes.append(
                    f"level {level} was recorded as version {one.get('version')}, this is version {NEAR[level].VERSION}"
                )
    return Rules(
        levels=tuple(level for level in LEVELS if level in wanted or level not in NEAR),
        preset=preset,
        thresholds={level: _threshold(level, preset, known) for level in NEAR},
        transforms=frozenset(name for record in known for name in record.get("perceptual", {}).get("transforms", ())),
        both_listed=len(known) == len(records) and bool(records),
        left_out=left_out,
        notes=tuple(dict.fromkeys(notes)),
    )


def _near_of(recipe: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The near matchers of a split; None where it is of a version that knew none."""
    record = recipe.get("near")
    return record if isinstance(record, Mapping) else None


def _threshold(level: str, preset: str, known: Sequence[Mapping[str, Any]]) -> float:
    """The lowest that was recorded, never below what the matcher looks for."""
    own = near_text.PRESETS[preset].threshold if level == "text" else NEAR[level].THRESHOLD
    scores = [float(record[level]["threshold"]) for record in known if level in record]
    return min(scores, default=own)
