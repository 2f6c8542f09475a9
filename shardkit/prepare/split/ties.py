"""What a worker reads of the rows of one shard for a split: the declared key, what ties the row to others, sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from shardkit.digest import mix64
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import Positions, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.names import Codes, coded
from shardkit.prepare.dedup.signatures import languages_of, spoken_in
from shardkit.prepare.ingest.group import field_of
from shardkit.prepare.split.declared import Key, by_path, fact_key
from shardkit.prepare.split.times import time_of
from shardkit.sequence.plan.mixer import mix64_array

KINDS = {"exact": "asset", "pixel": "pixel", "text": "text"}
"""Level of a matcher -> what its ties are called in reports."""
NEAR_KINDS = {"pixel": "near_pixel", "text": "near_text", "vector": "near_vector"}
"""What is near to another -> what it is called where it is near to too many."""
LEVELS = (*KINDS, "vector")
"""Codes of the levels of values. The value of `vector` is an example's id; it equals nothing and may be near."""
NOBODY = 1
"""Key of a parent that is none."""
_ID = re.compile(r"[0-9a-f]{32}")
_OF_IDS = frozenset({"exact", "pixel", "vector"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What is looked at in each row."""

    group_by: str | None
    time_field: str | None = None
    """The metadata field of --split-by-time."""
    parent_field: str | None = None
    """The metadata field that names what a row was made from."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tied:
    """n rows of a slice, and the M values that tie them."""

    positions: Positions
    declared: tuple[list[str], Codes]
    """Names, and which of them each row has; -1 for none, as always where the key comes from the path."""
    sources: tuple[list[str], Codes]
    languages: tuple[list[str], Codes]
    sizes: npt.NDArray[np.int64]
    """[n] payload bytes."""
    times: npt.NDArray[np.int64]
    """[n] microseconds since 1970, or one of times.UNKNOWN; empty where no time is asked for."""
    value_rows: Positions
    """[M] number of the row."""
    values: Keys
    """[M] 64 bits; a collision ties two rows too many and leaks nothing."""
    levels: npt.NDArray[np.int8]
    """[M] place in LEVELS."""
    several: Positions
    """Rows that show several images, be they one and the same."""
    children: Positions
    parents: Keys
    """[P] each: a row, and the first 64 bits of the example id that its metadata names as its parent."""


def tie_values(facts: Facts) -> list[tuple[str, str, int]]:
    """(level, value, its 64 bits) of everything that may not stand on two sides of a split."""
    return [
        (level, value, tie_bits(level, value))
        for level, matcher in MATCHERS.items()
        for value in dict.fromkeys(matcher.ties(facts))
    ]


def tie_bits(level: str, value: str) -> int:
    """64 bits of a value, never 0."""
    if level in _OF_IDS:
        return mix64(level, int(value[:16], 16)) or 1
    return xxhash.xxh3_64_intdigest(level.encode() + b"\0" + value.encode()) or 1


def id_bits(level: str, leading: Keys) -> Keys:
    """`tie_bits` of hex ids of which the first 64 bits are known."""
    bits: Keys = np.maximum(mix64_array(mix64(level), leading), np.uint64(1))
    return bits


def tie_slice(reading: Reading, piece: Slice) -> Tied:
    """Read the rows of a slice; run by a worker."""
    key = _key(reading.group_by)
    declared, sources, sizes, spoken = [], [], [], []
    times, value_rows, values, levels, several, children, parents = [], [], [], [], [], [], []
    place = {level: number for number, level in enumerate(LEVELS)}
    for position, facts in zip(piece.positions.tolist(), facts_of(piece), strict=True):
        declared.append(key(facts))
        sources.append(facts.source)
        sizes.append(facts.num_bytes)
        spoken.append(spoken_in(facts))
        if len(facts.assets) > 1:
            several.append(position)
        if reading.time_field is not None:
            times.append(time_of(facts.metadata, reading.time_field))
        if reading.parent_field is not None:
            own = parents_of(facts.metadata, reading.parent_field)
            children += [position] * len(own)
            parents += own
        for level, _, bits in tie_values(facts):
            value_rows.append(position)
            values.append(bits)
            levels.append(place[level])
    return Tied(
        positions=piece.positions,
        declared=coded(declared),
        sources=coded(sources),
        languages=coded(languages_of(spoken)),
        sizes=np.array(sizes, np.int64),
        times=np.array(times, np.int64),
        value_rows=np.array(value_rows, np.int64),
        values=np.array(values, np.uint64),
        levels=np.array(levels, np.int8),
        several=np.array(several, np.int64),
        children=np.array(children, np.int64),
        parents=np.array(parents, np.uint64),
    )


def parents_of(metadata: str, field: str) -> list[int]:
    """The first 64 bits of each example id that a field of the metadata names: one, or a list of them.

    What is no id is NOBODY: the row's lineage is missing.
    """
    value = field_of(orjson.loads(metadata), field)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    return [int(one[:16], 16) if isinstance(one, str) and _ID.fullmatch(one) else NOBODY for one in ids] or [NOBODY]


@lru_cache(maxsize=4)
def _key(group_by: str | None) -> Key:
    return (lambda _facts: None) if by_path(group_by) else fact_key(group_by)
