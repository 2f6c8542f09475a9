"""MinHash (Broder, 1997) with bands (Leskovec et al., Mining of Massive Datasets, 3.4): one key a band and text.

Two texts share the least value of a permutation with a chance equal to the Jaccard similarity J of their sets, and so a
key of r values with J ** r. With b bands they become candidates with 1 - (1 - J ** r) ** b.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.shingles import Ragged, mixed

_BLOCK_SHINGLES = 1 << 14
"""64 KB of 32-bit values, twice: they stay in the cache of a core while all permutations pass over them."""


def signatures(sets: Ragged, size: int) -> npt.NDArray[np.uint32]:
    """[size, n] the least value of each set under `size` permutations; the largest number where a set is empty.

    A permutation is x -> a * x + b modulo 2 ** 32 with odd a. That is fair only because the x are the upper half of well
    mixed hashes, with no order of their own; repetitions in a set change nothing.
    """
    found = np.full((size, len(sets.starts) - 1), 0xFFFFFFFF, np.uint32)
    filled = np.flatnonzero(sets.sizes)
    starts = sets.starts[filled]
    factors = [np.uint32((mix64("minhash", place) >> 32) | 1) for place in range(size)]
    offsets = [np.uint32(mix64("minhash", place) & 0xFFFFFFFF) for place in range(size)]
    begin = 0
    while begin < len(filled):
        end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + _BLOCK_SHINGLES)))
        limit = starts[end] if end < len(starts) else len(sets.values)
        values = (sets.values[starts[begin] : limit] >> np.uint64(32)).astype(np.uint32)
        own, columns = starts[begin:end] - starts[begin], filled[begin:end]
        under = np.empty_like(values)
        for place in range(size):
            np.multiply(values, factors[place], out=under)
            under += offsets[place]
            found[place, columns] = np.minimum.reduceat(under, own)
        begin = end
    return found


def band_keys(sets: Ragged, *, bands: int, rows: int) -> Keys:
    """[bands, n] keys, each of `rows` values of the signature; 0 where a set is empty, and only there."""
    found = signatures(sets, bands * rows).reshape(bands, rows, -1)
    total = np.zeros((bands, found.shape[2]), np.uint64)
    for row in range(rows):
        total += found[:, row].astype(np.uint64) * np.uint64(mix64("band", row) | 1)
    keys = mixed(total)
    keys[keys == 0] = 1
    keys[:, sets.sizes == 0] = 0
    return keys
