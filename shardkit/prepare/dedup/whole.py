"""Images that look alike as a whole: equal bits of a hash find a pair, the fine hash decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.buckets import FULL, PairSet, across, bucket_pairs
from shardkit.prepare.dedup.edges import Indices
from shardkit.prepare.dedup.hashes import (
    COARSE_BITS,
    FINE_BITS,
    ONE,
    Edges,
    ImageHashes,
    differing,
    edges_of,
    may_meet,
    most,
    salted,
    samples,
)
from shardkit.prepare.dedup.keys import Keys

_PAGE_BANDS, _PAGE_BITS = 32, 24
_PICTURE_BANDS, _PICTURE_BITS = 16, 20
ACROSS = 256
"""Images of one side that one of the other is compared with, of those with its key."""


def fine_bands(images: ImageHashes, units: Indices, salt: Keys) -> Iterator[Keys]:
    """For pages: [n] keys of each band."""
    bands = _banded(images.fine[units], FINE_BITS, _PAGE_BANDS, _PAGE_BITS)
    return (salted(keys, salt) for keys in bands)


def coarse_bands(images: ImageHashes, units: Indices, salt: Keys | np.uint64) -> Iterator[Keys]:
    """For everything: [n] keys of each band."""
    bands = _banded(images.coarse[units], COARSE_BITS, _PICTURE_BANDS, _PICTURE_BITS)
    return (salted(keys, salt) for keys in bands)


def find(
    images: ImageHashes,
    units: Indices,
    bands: Iterable[Keys],
    *,
    full: int = FULL,
    crowd: npt.NDArray[np.bool_] | None = None,
    sides: npt.NDArray[np.bool_] | None = None,
) -> Edges:
    """Pairs of units by the fine hash of the whole image.

    Args:
        units: [n] image of each key.
        bands: [n] keys each.
        full: see bucket_pairs.
        crowd: [U] where given, units of larger buckets are marked in it.
        sides: [U] where given, only pairs with one unit on each side are answered.
    """
    pairs = PairSet()
    large = None if crowd is None else np.zeros(len(units), np.bool_)
    for keys in bands:
        one, two = _paired(keys, units, full, large, sides)
        one, two = np.minimum(one, two), np.maximum(one, two)
        near = (one != two) & (differing(images.fine, one, two) <= most(FINE_BITS))
        one, two = one[near], two[near]
        meet = may_meet(images, one, two, silent=True)
        pairs.add(one[meet], two[meet])
    if crowd is not None and large is not None:
        crowd[units[large]] = True
    return measured(images, *pairs.result())


def measured(images: ImageHashes, one: Indices, two: Indices) -> Edges:
    """Pairs with the bits of the fine hash that differ."""
    return edges_of(one, two, FINE_BITS, differing(images.fine, one, two), 0)


def _paired(
    keys: Keys,
    units: Indices,
    full: int,
    large: npt.NDArray[np.bool_] | None,
    sides: npt.NDArray[np.bool_] | None,
) -> tuple[Indices, Indices]:
    if sides is None:
        one, two, _ = bucket_pairs(keys, full=full, crowd=large)
        return units[one], units[two]
    here, there = np.flatnonzero(sides[units]), np.flatnonzero(~sides[units])
    one, two = across(keys[here], keys[there], full=ACROSS)
    return units[here[one]], units[there[two]]


def _banded(words: Keys, bits: int, bands: int, width: int) -> Iterator[Keys]:
    """For each band [n] keys of `width` bits, the same ones at every call."""
    for chosen in samples(bits, bands, width):
        keys = np.zeros(len(words), np.uint64)
        for bit in chosen.tolist():
            keys = (keys << ONE) | ((words[:, bit // 64] >> np.uint64(63 - bit % 64)) & ONE)
        yield keys
