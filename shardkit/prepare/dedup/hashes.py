"""What is known of images that are compared, and how far two of them are apart: the pieces that both searches share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.media.phash import CLASSES
from shardkit.media.preview import SIDE
from shardkit.prepare.dedup.edges import Indices
from shardkit.prepare.dedup.keys import Keys

COARSE_BITS, FINE_BITS = 256, 1024
THRESHOLD = 1 - 120 / FINE_BITS
"""The share of bits that agree; 120 of 1,024 may differ, or 30 of 256."""
FLOOR = 1 - 160 / FINE_BITS
PICTURE, PAGE = CLASSES.index("picture"), CLASSES.index("page")
PAIRS_AT_A_TIME = 1 << 18
ONE, HALF = np.uint64(1), np.uint64(32)
_ODD = np.uint64(0x9E3779B97F4A7C15)

Edges = tuple[Indices, Indices, npt.NDArray[np.float64], npt.NDArray[np.int32]]
"""one, two, score, detail"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ImageHashes:
    """What is known of U images, each once."""

    coarse: Keys
    """[U, 4] 256 bits"""
    fine: Keys
    """[U, 16] 1,024 bits"""
    preview: npt.NDArray[np.uint8]
    """[U, SIDE, SIDE] greys"""
    previewed: npt.NDArray[np.bool_]
    """[U] whether there is one; datasets of older versions have none"""
    classes: npt.NDArray[np.int8]
    """[U] place in CLASSES"""
    salt: Keys
    """[U] pages are compared only where it is equal; 0 for pictures"""

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, places: Indices, *, salt: Keys | None = None) -> ImageHashes:
        return ImageHashes(
            coarse=self.coarse[places],
            fine=self.fine[places],
            preview=self.preview[places],
            previewed=self.previewed[places],
            classes=self.classes[places],
            salt=self.salt[places] if salt is None else salt,
        )


def read_hashes(table: pa.Table) -> ImageHashes:
    """The hashes of rows of tables/assets, with salt 0. An image without hashes counts as blank, which meets nobody."""
    size = len(table)
    known = pc.and_(pc.is_valid(table["phash"]), pc.is_valid(table["phash_fine"]))
    places = pc.index_in(table["class"], pa.array(CLASSES)).fill_null(CLASSES.index("blank"))
    classes = pc.if_else(known, places, CLASSES.index("blank")).to_numpy().astype(np.int8)
    preview, previewed = np.zeros((size, SIDE, SIDE), np.uint8), np.zeros(size, np.bool_)
    if "preview" in table.column_names:
        previewed = np.asarray(pc.is_valid(table["preview"]).to_numpy())
        preview[previewed] = _bytes(table["preview"].drop_null(), SIDE * SIDE).reshape(-1, SIDE, SIDE)
    return ImageHashes(
        coarse=_words(table["phash"], COARSE_BITS // 64),
        fine=_words(table["phash_fine"], FINE_BITS // 64),
        preview=preview,
        previewed=previewed,
        classes=classes,
        salt=np.zeros(size, np.uint64),
    )


def joined(parts: Sequence[ImageHashes]) -> ImageHashes:
    parts = parts or [read_hashes(_NOTHING)]
    names = ("coarse", "fine", "preview", "previewed", "classes", "salt")
    return ImageHashes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


_NOTHING = pa.schema([(name, pa.string()) for name in ("phash", "phash_fine", "class")]).empty_table()


def _bytes(column: pa.ChunkedArray, width: int) -> npt.NDArray[np.uint8]:
    """[n, width] of strings or binaries of one length, none of them null."""
    whole = pc.cast(column, pa.large_binary()).combine_chunks()
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    values = np.frombuffer(whole.buffers()[2] or b"", np.uint8)
    return values[offsets[0] : offsets[-1]].reshape(-1, width)


def _words(column: pa.ChunkedArray, width: int) -> Keys:
    """[n, width] of hex strings, the first digit highest; zeros where there is none."""
    digits = _bytes(pc.fill_null(column, "0" * (16 * width)), 16 * width)
    values = np.where(digits >= ord("a"), digits - (ord("a") - 10), digits - ord("0"))
    octets = (values[:, 0::2] << 4) | values[:, 1::2]
    return np.ascontiguousarray(octets).view(">u8").astype(np.uint64)


# ---------------------------------------------------------------------- distances
def most(bits: int) -> int:
    """Bits that may differ down to FLOOR."""
    return int((1 - FLOOR) * bits)


def differing(words: Keys, one: Indices, two: Indices) -> Indices:
    """[P] bits that differ between rows of words."""
    out = np.empty(len(one), np.int64)
    for start in range(0, len(one), PAIRS_AT_A_TIME):
        part = slice(start, start + PAIRS_AT_A_TIME)
        out[part] = np.bitwise_count(words[one[part]] ^ words[two[part]]).sum(1, dtype=np.int64)
    return out


def may_meet(images: ImageHashes, one: Indices, two: Indices, *, silent: bool) -> npt.NDArray[np.bool_]:
    """[P] whether one of them is a picture, or both are pages of texts with the same figures.

    Args:
        silent: whether two pages without text may meet.
    """
    picture = (images.classes[one] == PICTURE) | (images.classes[two] == PICTURE)
    same = images.salt[one] == images.salt[two]
    meet: npt.NDArray[np.bool_] = picture | (same if silent else same & (images.salt[one] != 0))
    return meet


def edges_of(one: Indices, two: Indices, bits: int, differ: Indices, variant: int) -> Edges:
    detail = np.stack([np.full(len(one), bits), differ, np.full(len(one), variant)], axis=1).astype(np.int32)
    return one, two, 1 - differ / bits, detail


def joined_edges(*parts: Edges) -> Edges:
    one, two, score, detail = (np.concatenate(column) for column in zip(*parts, strict=True))
    return one, two, score, detail


# ---------------------------------------------------------------------- keys
def samples(bits: int, bands: int, width: int) -> Indices:
    """[bands, width] bits of each band; the first bit, which only says how light a picture is, in none.

    A multiplicative generator of our own: a library's may answer otherwise in its next version.
    """
    state, chosen = 1, []
    for _ in range(bands):
        rest = list(range(1, bits))
        band = []
        for _ in range(width):
            state = state * 48271 % 0x7FFFFFFF
            band.append(rest.pop(state % len(rest)))
        chosen.append(band)
    return np.array(chosen, np.int64)


def salted(keys: Keys, salt: Keys | np.uint64) -> Keys:
    mixed = ((keys + ONE) ^ salt) * _ODD
    salted: Keys = (mixed ^ (mixed >> HALF)) | ONE
    return salted
