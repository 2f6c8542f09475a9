"""What a worker reads of the rows of one shard for a split: the declared key, what ties the row to others, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import xxhash

from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import Positions, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.names import Codes, coded
from shardkit.prepare.split.declared import Key, by_path, fact_key

KINDS = {"exact": "asset", "pixel": "pixel", "text": "text"}
"""Level of a matcher -> what its ties are called in reports."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tied:
    """n rows of a slice, and the M values that tie them."""

    positions: Positions
    declared: tuple[list[str], Codes]
    """Names, and which of them each row has; -1 for none, as always where the key comes from the path."""
    sources: tuple[list[str], Codes]
    sizes: npt.NDArray[np.int64]
    """[n] payload bytes."""
    value_rows: Positions
    """[M] number of the row."""
    values: Keys
    """[M] 64 bits; a collision ties two rows too many and leaks nothing."""


def tie_values(facts: Facts) -> list[tuple[str, str, int]]:
    """(level, value, its 64 bits) of everything that may not stand on two sides of a split."""
    return [
        (level, value, tie_bits(level, value))
        for level, matcher in MATCHERS.items()
        for value in dict.fromkeys(matcher.ties(facts))
    ]


def tie_bits(level: str, value: str) -> int:
    """64 bits of a value, never 0."""
    return xxhash.xxh3_64_intdigest(level.encode() + b"\0" + value.encode()) or 1


def tie_slice(group_by: str | None, piece: Slice) -> Tied:
    """Read the rows of a slice; run by a worker."""
    key = _key(group_by)
    declared, sources, sizes, value_rows, values = [], [], [], [], []
    for position, facts in zip(piece.positions.tolist(), facts_of(piece), strict=True):
        declared.append(key(facts))
        sources.append(facts.source)
        sizes.append(facts.num_bytes)
        own = [bits for _, _, bits in tie_values(facts)]
        value_rows += [position] * len(own)
        values += own
    return Tied(
        positions=piece.positions,
        declared=coded(declared),
        sources=coded(sources),
        sizes=np.array(sizes, np.int64),
        value_rows=np.array(value_rows, np.int64),
        values=np.array(values, np.uint64),
    )


@lru_cache(maxsize=4)
def _key(group_by: str | None) -> Key:
    return (lambda _facts: None) if by_path(group_by) else fact_key(group_by)
