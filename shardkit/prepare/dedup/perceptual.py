"""Images that look alike, from what ingest stored of them: no image is opened.

    pages     equal bits of the fine hash (and equal figures in the text) -> at most 120 of its 1,024 bits differ
    pictures  equal bits of the hash                                      -> the same
              a code like that of a window of another's preview           -> at most 30 of 256 bits differ in the window
                                                                             that fits best

Candidates come from bands of sampled bits, so nothing is compared all against all. Pages and pictures never meet, and blank
images meet nobody: their hashes are of noise. Mirrored and turned pictures are looked for on request, by mirrored and
turned previews; pages never.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.media.phash import CLASSES
from shardkit.media.preview import SIDE
from shardkit.prepare.dedup import crops
from shardkit.prepare.dedup.buckets import PairSet, bucket_pairs
from shardkit.prepare.dedup.edges import Indices, NearEdges
from shardkit.prepare.dedup.keys import Keys

VERSION = 1
THRESHOLD = 1 - 120 / 1024
"""The share of bits that agree; 120 of 1,024 may differ, or 30 of 256."""
FLOOR = 1 - 160 / 1024
THRESHOLDS = (FLOOR, 0.86, 0.87, THRESHOLD, 0.9, 0.93, 0.97)
DETAILS = 3
"""bits compared, bits that differ, place in VARIANTS"""
TRANSFORMS = ("mirror", "rotate")
VARIANTS = (
    "as it is", "turned by 90 degrees", "turned by 180 degrees", "turned by 270 degrees",
    "mirrored", "mirrored and turned by 90 degrees", "mirrored top to bottom", "mirrored and turned by 270 degrees",
    "tilted", "tilted", "tilted", "tilted",
)  # fmt: skip
_TILTS = ((5, 4 / 3), (-5, 4 / 3), (5, 3 / 4), (-5, 3 / 4))
"""Degrees, and width : height that a preview is taken to be of: those of most photographs."""
_QUARTERS = 8
"""Variants that a square has; the tilted ones follow them."""
_ALWAYS = (0, *range(_QUARTERS, len(VARIANTS)))
_OF_TRANSFORMS = {
    frozenset(): (),
    frozenset({"mirror"}): (4, 6),
    frozenset({"rotate"}): (1, 2, 3),
    frozenset({"mirror", "rotate"}): tuple(range(1, _QUARTERS)),
}

_COARSE_BITS, _FINE_BITS = 256, 1024
_PAGE_BANDS, _PAGE_BITS = 32, 24
_PICTURE_BANDS, _PICTURE_BITS = 16, 20
_CODE_BANDS, _CODE_BITS, _FLIPS = 16, 20, 2
"""Each code is also looked for with its most doubtful bits the other way: _FLIPS of each band, in all ways."""
_CODE_DISTANCE = 10
"""Bits of 64 between a picture's code and that of the nearest window, before the window is fitted."""
_CORRELATION = 0.95
"""Of the greys in the window: crops have .98 and more, other photographs of one thing have less."""
_TURNED = 3
"""A bit of a mirrored or turned picture counts three times: the same thing lies on many tables, one way round or another."""
_PER_KEY = 16
"""Windows of a key that a picture is compared with: linear, however many look alike."""
_PAIRS_AT_A_TIME = 1 << 18
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_HALF = np.uint64(32)

_PICTURE, _PAGE = CLASSES.index("picture"), CLASSES.index("page")


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
        coarse=_words(table["phash"], _COARSE_BITS // 64),
        fine=_words(table["phash_fine"], _FINE_BITS // 64),
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


def find(images: ImageHashes, *, transforms: frozenset[str] = frozenset()) -> NearEdges:
    """Pairs of images that look alike, down to FLOOR.

    Args:
        transforms: of TRANSFORMS, what is looked for beside pictures as they are.
    """
    # Which members of a large bucket are compared depends on their places: their order is that of the hashes, and
    # pictures come before pages, of which there may be many of one form.
    order = np.lexsort((*images.fine.T, images.salt, images.classes))
    placed = images.take(order)
    pages = np.flatnonzero(placed.classes == _PAGE)
    seen = np.flatnonzero((placed.classes == _PAGE) | (placed.classes == _PICTURE))
    by_fine = _banded(placed.fine[pages], _FINE_BITS, _PAGE_BANDS, _PAGE_BITS)
    by_coarse = _banded(placed.coarse[seen], _COARSE_BITS, _PICTURE_BANDS, _PICTURE_BITS)
    parts = [
        _whole(placed, pages, (_salted(keys, placed.salt[pages]) for keys in by_fine)),
        _whole(placed, seen, (_salted(keys, np.uint64(0)) for keys in by_coarse)),
    ]
    previewed = seen[placed.previewed[seen]]
    codes = crops.codes_of(placed.preview[previewed])
    for variant in _ALWAYS + _OF_TRANSFORMS[transforms]:
        parts.append(_windowed(placed, previewed, codes, variant, known=_keys_of(parts)))
    return _best(parts, order)


def evidence(score: float, detail: Sequence[int]) -> str:  # noqa: ARG001 - one call for all near matchers
    """What was compared, and how much of it differs."""
    bits, differ, variant = detail[:DETAILS]
    what = "of the fine hash" if bits == _FINE_BITS else "inside the best window"
    turned = f", {VARIANTS[variant]}" if variant else ""
    return f"{differ} of {bits} bits {what} differ{turned}"


_Edges = tuple[Indices, Indices, npt.NDArray[np.float64], npt.NDArray[np.int32]]
"""one, two, score, detail"""


def _banded(words: Keys, bits: int, bands: int, width: int) -> Iterator[Keys]:
    """For each band [n] keys of `width` bits, the same ones at every call."""
    for chosen in _samples(bits, bands, width):
        keys = np.zeros(len(words), np.uint64)
        for bit in chosen.tolist():
            keys = (keys << _ONE) | ((words[:, bit // 64] >> np.uint64(63 - bit % 64)) & _ONE)
        yield keys


def _samples(bits: int, bands: int, width: int) -> Indices:
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


def _salted(keys: Keys, salt: Keys | np.uint64) -> Keys:
    mixed = ((keys + _ONE) ^ salt) * _ODD
    salted: Keys = (mixed ^ (mixed >> _HALF)) | _ONE
    return salted


def _whole(images: ImageHashes, own: Indices, bands: Iterator[Keys]) -> _Edges:
    """Pairs by the fine hash of the whole image."""
    pairs = PairSet()
    for keys in bands:
        one, two, _ = bucket_pairs(keys)
        near = _differing(images.fine, own[one], own[two]) <= _most(_FINE_BITS)
        one, two = one[near], two[near]
        meet = _may_meet(images, own[one], own[two], silent=True)
        pairs.add(one[meet], two[meet])
    one, two = pairs.result()
    one, two = own[one], own[two]
    return _edges(one, two, _FINE_BITS, _differing(images.fine, one, two), 0)


def _may_meet(images: ImageHashes, one: Indices, two: Indices, *, silent: bool) -> npt.NDArray[np.bool_]:
    """[P] whether one of them is a picture, or both are pages of texts with the same figures.

    Args:
        silent: whether two pages without text may meet.
    """
    picture = (images.classes[one] == _PICTURE) | (images.classes[two] == _PICTURE)
    same = images.salt[one] == images.salt[two]
    meet: npt.NDArray[np.bool_] = picture | (same if silent else same & (images.salt[one] != 0))
    return meet


def _most(bits: int) -> int:
    return int((1 - FLOOR) * bits)


def _edges(one: Indices, two: Indices, bits: int, differ: Indices, variant: int) -> _Edges:
    detail = np.stack([np.full(len(one), bits), differ, np.full(len(one), variant)], axis=1).astype(np.int32)
    return one, two, 1 - differ / bits, detail


def _differing(words: Keys, one: Indices, two: Indices) -> Indices:
    """[P] bits that differ between rows of words."""
    out = np.empty(len(one), np.int64)
    for start in range(0, len(one), _PAIRS_AT_A_TIME):
        part = slice(start, start + _PAIRS_AT_A_TIME)
        out[part] = _count(words[one[part]] ^ words[two[part]]).sum(1)
    return out


_ONES = np.array([number.bit_count() for number in range(1 << 16)], np.uint8)


def _count(words: Keys) -> Indices:
    """Set bits of each word."""
    parts = np.ascontiguousarray(words).view(np.uint16).reshape(*words.shape, 4)
    counts: Indices = _ONES[parts].sum(-1, dtype=np.int64)
    return counts


def _keys_of(parts: Sequence[_Edges]) -> Indices:
    """Pairs that need no other proof, ascending: one << 32 | two."""
    return np.unique(np.concatenate([_key(one, two)[score >= THRESHOLD] for one, two, score, _ in parts]))


def _key(one: Indices, two: Indices) -> Indices:
    return (np.minimum(one, two) << 32) | np.maximum(one, two)


def _windowed(images: ImageHashes, own: Indices, codes: Keys, variant: int, *, known: Indices) -> _Edges:
    """Pairs where one picture, or a variant of it, is what a window of the other shows.

    Args:
        codes: [own, WINDOWS]
        known: pairs that are not compared again.
    """
    previews = images.preview[own]
    turned = _variant(previews, variant)
    wanted, doubtful = crops.margins_of(turned)
    pairs = PairSet()
    for chosen in _samples(64, _CODE_BANDS, _CODE_BITS):
        for query, other in _meetings(codes, wanted, doubtful, chosen):
            meet = _may_meet(images, own[query], own[other], silent=False)
            query, other = query[meet], other[meet]
            near = np.flatnonzero(_nearest(codes, wanted, query, other)[1] <= _CODE_DISTANCE)
            query, other = query[near], other[near]
            fresh = ~_among(_key(own[query], own[other]), known)
            pairs.add(np.minimum(query, other)[fresh], np.maximum(query, other)[fresh])
    one, two = pairs.result()
    forth = _fitted(codes, wanted, (turned, previews), one, two)
    back = _fitted(codes, wanted, (turned, previews), two, one)
    differ = np.minimum(forth, back) * (_TURNED if 0 < variant < _QUARTERS else 1)
    keep = np.flatnonzero(differ <= _most(crops.FINE_BITS))
    low, high = own[one[keep]], own[two[keep]]
    return _edges(low, high, crops.FINE_BITS, differ[keep], variant)


def _among(keys: Indices, known: Indices) -> npt.NDArray[np.bool_]:
    """[n] whether each key is one of `known`, which ascend."""
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys
    return found


def _fitted(
    codes: Keys, wanted: Keys, both: tuple[crops.Previews, crops.Previews], query: Indices, other: Indices
) -> Indices:
    """[P] bits that differ in the best window of the other; all of them where the greys do not go together."""
    window, distance = _nearest(codes, wanted, query, other)
    near = np.flatnonzero(distance <= _CODE_DISTANCE)
    differ, correlation = crops.fit(both[0][query[near]], both[1][other[near]], window[near])
    out = np.full(len(query), crops.FINE_BITS)
    out[near] = np.where(correlation >= _CORRELATION, differ, crops.FINE_BITS)
    return out


def _variant(previews: npt.NDArray[np.uint8], variant: int) -> npt.NDArray[np.uint8]:
    if variant >= _QUARTERS:
        return crops.tilted(previews, *_TILTS[variant - _QUARTERS])
    mirrored = previews[:, :, ::-1] if variant >= 4 else previews
    return np.ascontiguousarray(np.rot90(mirrored, variant % 4, axes=(1, 2)))


def _nearest(codes: Keys, wanted: Keys, query: Indices, other: Indices) -> tuple[Indices, Indices]:
    """[P] the window of the other whose code is nearest to that of the query, and the bits between them."""
    window, distance = np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    for start in range(0, len(query), _PAIRS_AT_A_TIME >> 4):
        part = slice(start, start + (_PAIRS_AT_A_TIME >> 4))
        counts = _count(codes[other[part]] ^ wanted[query[part], None])
        window[part] = counts.argmin(1)
        distance[part] = counts.min(1)
    return window, distance


def _meetings(
    codes: Keys, wanted: Keys, doubtful: npt.NDArray[np.int8], chosen: Indices
) -> Iterator[tuple[Indices, Indices]]:
    """Pictures and others of which a window has the same bits `chosen`, or the same but for doubtful ones."""
    shifts = np.uint64(63) - chosen.astype(np.uint64)
    places = np.arange(len(chosen), dtype=np.uint64)[::-1]
    keys = np.zeros(codes.shape, np.uint64)
    own = np.zeros(len(wanted), np.uint64)
    for shift, place in zip(shifts, places, strict=True):
        keys |= ((codes >> shift) & _ONE) << place
        own |= ((wanted >> shift) & _ONE) << place
    entries = np.unique((keys << _HALF) | np.arange(len(codes), dtype=np.uint64)[:, None])
    value_of = np.zeros(64, np.uint64)
    value_of[chosen] = _ONE << places
    values = value_of[doubtful]
    first = np.argsort(values == 0, axis=1, kind="stable")[:, :_FLIPS]
    flips = np.take_along_axis(values, first, axis=1)
    for number in range(1 << _FLIPS):
        key = own.copy()
        for flip in range(_FLIPS):
            if number >> flip & 1:
                key ^= flips[:, flip]
        query = np.arange(len(own))
        at = np.searchsorted(entries, key << _HALF)
        for _ in range(_PER_KEY):
            hit = at < len(entries)
            hit[hit] = entries[at[hit]] >> _HALF == key[query[hit]]
            query, at = query[hit], at[hit]
            other = (entries[at] & np.uint64(0xFFFFFFFF)).astype(np.int64)
            apart = other != query
            yield query[apart], other[apart]
            at = at + 1


def _best(parts: Sequence[_Edges], order: Indices) -> NearEdges:
    """All edges under the callers' numbers; of several between two images the nearest stays."""
    first, second, score, detail = (np.concatenate(column) for column in zip(*parts, strict=True))
    one, two = np.minimum(order[first], order[second]), np.maximum(order[first], order[second])
    ranked = np.lexsort((detail[:, 2], detail[:, 0], -score, two, one))
    new = np.ones(len(ranked), np.bool_)
    new[1:] = (np.diff(one[ranked]) != 0) | (np.diff(two[ranked]) != 0)
    kept = ranked[new]
    return NearEdges(one=one[kept], two=two[kept], score=score[kept], detail=detail[kept])
