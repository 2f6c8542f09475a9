"""64-bit keys in numpy: of ids, and what repeats among them."""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Keys = npt.NDArray[np.uint64]
"""0 is no key."""
_FRAME = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def asset_key(asset_id: str, frame: int) -> int:
    """The key of one image: a digest's first 64 bits are as good as any, the frame is mixed in."""
    return int(asset_id[:16], 16) ^ (frame * _FRAME & _MASK)


def asset_keys(table: pa.Table) -> Keys:
    """`asset_key` for each row of a table with asset_id and frame; 0 where there is none."""
    frames = np.asarray(pc.fill_null(table["frame"], 0).to_numpy(), np.uint64)
    keys: Keys = leading(table["asset_id"]) ^ (frames * np.uint64(_FRAME))
    return keys


def leading(column: pa.ChunkedArray) -> Keys:
    """The first 64 bits of each hex id; 0 for null."""
    keys = [_leading(chunk) for chunk in column.chunks]
    return np.concatenate(keys) if keys else np.empty(0, np.uint64)


def _leading(ids: pa.Array) -> Keys:
    """The digits of all rows at once: there are millions of them, and they lie side by side already."""
    ids = ids.cast(pa.string())
    width = _width(ids)
    if width is None:
        ids = pc.utf8_slice_codeunits(pc.fill_null(ids, "0" * 16), 0, 16)
        width = _width(ids)
    if width is None or width < 16:
        raise ValueError("an id has not the digits of one")
    digits = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[_ends(ids)[0] :][: width * len(ids)]
    return np.frombuffer(unhexlify(digits.reshape(-1, width)[:, :16].tobytes()), ">u8").astype(np.uint64)


def _width(ids: pa.Array) -> int | None:
    """Digits of each id; None where they differ, or an id is null."""
    sizes = np.diff(_ends(ids))
    width = int(sizes[0]) if len(sizes) else 16
    return width if ids.null_count == 0 and (sizes == width).all() else None


def _ends(ids: pa.Array) -> npt.NDArray[np.int32]:
    """[n + 1] where the digits of each row begin and end."""
    return np.frombuffer(ids.buffers()[1] or bytes(4), np.int32)[ids.offset :][: len(ids) + 1]


def place_keys(shards: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]) -> Keys:
    """[n] shard and row as one number; they ascend by shard, then by row."""
    keys: Keys = (shards.astype(np.uint64) << np.uint64(32)) | rows.astype(np.uint64)
    return keys


def words(ids: Sequence[str], width: int) -> Keys:
    """Hex ids of `width` times 16 digits as [n, width] words; their order is that of the ids."""
    return np.frombuffer(bytes.fromhex("".join(ids)), ">u8").astype(np.uint64).reshape(-1, width)


def hex_id(pair: npt.NDArray[np.uint64]) -> str:
    """The id of 32 hex digits that `words` made two words of."""
    return f"{int(pair[0]):016x}{int(pair[1]):016x}"


def look_up(keys: Keys, known: Keys, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[n] the value of each key; -1 where it is not known.

    Args:
        known: [k] ascending; of equal ones the first counts.
        values: [k]
    """
    if not len(known):
        return np.full(len(keys), -1)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[at] == keys, values[at], -1)


def group_starts(values: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Where each run of equal values begins, in a sorted array."""
    if len(values) == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def repeated(keys: Keys, wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which rows share their key with another, in a group that holds at least one wanted row."""
    order = np.argsort(keys, kind="stable")
    order = order[np.searchsorted(keys[order], 1) :]
    starts = group_starts(keys[order])
    sizes = np.diff(np.append(starts, len(order)))
    useful = (sizes > 1) & (np.logical_or.reduceat(wanted[order], starts) if len(starts) else False)
    found = np.zeros(len(keys), np.bool_)
    found[order] = np.repeat(useful, sizes)
    return found


def dense(pairs: Keys) -> npt.NDArray[np.int64]:
    """[k, 2] digests as small numbers, equal where the digests are; -1 where both words are 0."""
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    ordered = pairs[order]
    changed = np.ones(len(pairs), np.bool_)
    changed[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(pairs), np.int64)
    numbers[order] = np.cumsum(changed) - 1
    numbers[~pairs.any(axis=1)] = -1
    return numbers
