"""Pictures that look like what another shows inside a window of its preview: crops, borders, tilted and turned copies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup import crops
from shardkit.prepare.dedup.buckets import PairSet
from shardkit.prepare.dedup.edges import Indices
from shardkit.prepare.dedup.hashes import (
    FINE_BITS,
    HALF,
    ONE,
    PAIRS_AT_A_TIME,
    THRESHOLD,
    Edges,
    ImageHashes,
    differing,
    edges_of,
    joined_edges,
    may_meet,
    most,
    salted,
    samples,
)
from shardkit.prepare.dedup.keys import Keys, group_starts

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
_BANDS, _BITS, _FLIPS = 16, 20, 2
"""Each code is also looked for with its most doubtful bits the other way: _FLIPS of each band, in all ways."""
_CODE_DISTANCE = 10
"""Bits of 64 between a picture's code and that of the nearest window, before the window is fitted."""
_CORRELATION = 0.95
"""Of the greys in the window: crops have .98 and more, other photographs of one thing have less."""
_TURNED = 3
"""A bit of a mirrored or turned picture counts three times: the same thing lies on many tables, one way round or another."""
PER_KEY = 16
"""Windows of a key that a picture is compared with: linear, however many look alike."""
NEAREST = 32
"""Others that a picture is fitted to, of those that it met."""
_LOWER = np.uint64(0xFFFFFFFF)
_FITS = int((1 - THRESHOLD) * crops.FINE_BITS)
"""Bits inside a window that may differ between copies."""
_ALIKE = int((1 - THRESHOLD) * FINE_BITS)
"""Bits of the fine hash that may differ between copies."""


def variants_of(transforms: frozenset[str]) -> tuple[int, ...]:
    """What is looked for: pictures as they are and tilted, and those that `transforms` (mirror, rotate) make."""
    return _ALWAYS + _OF_TRANSFORMS[transforms]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shown:
    """n pictures that have previews, as they are searched."""

    images: ImageHashes
    units: Indices
    """[n] which of the images."""
    codes: Keys
    """[n, WINDOWS]"""

    @classmethod
    def of(cls, images: ImageHashes, units: Indices) -> Shown:
        own = units[images.previewed[units]]
        return cls(images=images, units=own, codes=crops.codes_of(images.preview[own]))

    def place(self, units: Indices) -> Indices:
        """Places of units that are all among them; they ascend."""
        return np.searchsorted(self.units, units)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sought:
    """How pictures meet: m keys, of one picture or more each."""

    of: Indices
    """[m] place in `Shown`"""
    salt: Keys | None = None
    """[m] they meet only where it is equal"""
    pictures: npt.NDArray[np.bool_] | None = None
    """[m] where given, of two that meet one is a picture at least: pages among themselves would fill every key"""
    per_key: int = PER_KEY
    crowd: npt.NDArray[np.bool_] | None = None
    """[U] where given, units of larger buckets are marked in it"""
    sides: npt.NDArray[np.bool_] | None = None
    """[U] where given, only pairs with one unit on each side are answered"""


def find(shown: Shown, ways: Sequence[Sought], variant: int, *, known: Indices) -> Edges:
    """Pairs where one picture, or a variant of it, is what a window of the other shows.

    Args:
        ways: how they meet; a pair that meets in one of them is compared.
        known: pairs that are not compared again, see key_of.
    """
    own = shown.units
    turned = _variant(shown.images.preview[own], variant)
    wanted, doubtful = crops.margins_of(turned)
    pairs, alike = PairSet(), PairSet()
    bands = samples(64, _BANDS, _BITS)
    for sought, chosen in itertools.product(ways, bands):
        for query, other in _meetings(shown, sought, wanted, doubtful, chosen):
            meet = (query != other) & may_meet(shown.images, own[query], own[other], silent=False)
            query, other = query[meet], other[meet]
            near = np.flatnonzero(_nearest(shown.codes, wanted, query, other)[1] <= _CODE_DISTANCE)
            query, other = query[near], other[near]
            fresh = ~_among(key_of(own[query], own[other]), known)
            one, two = np.minimum(query, other)[fresh], np.maximum(query, other)[fresh]
            # Where the whole is near enough no window need be fitted: that costs a thousand times as much.
            whole = differing(shown.images.fine, own[one], own[two]) <= _ALIKE
            alike.add(one[whole], two[whole])
            pairs.add(one[~whole], two[~whole])
    one, two = alike.result()
    one, two = own[one], own[two]
    asked = _begun(shown, (turned, wanted), *pairs.result())
    # Of two sides each sees all of the other.
    if all(sought.sides is None for sought in ways):
        kept = asked.nearest()
        for sought in ways:
            if sought.crowd is not None:
                sought.crowd[own[np.concatenate([asked.one[~kept], asked.two[~kept]])]] = True
        asked = asked.take(kept)
    return joined_edges(
        edges_of(one, two, FINE_BITS, differing(shown.images.fine, one, two), 0),
        _measured(shown, variant, turned, asked),
    )


def measured(shown: Shown, variant: int, one: Indices, two: Indices) -> Edges:
    """Of some pairs of units those that are near.

    Args:
        one: [P] units of `shown`; and two.
    """
    turned = _variant(shown.images.preview[shown.units], variant)
    wanted, _ = crops.margins_of(turned)
    meet = may_meet(shown.images, one, two, silent=False)
    asked = _begun(shown, (turned, wanted), shown.place(one[meet]), shown.place(two[meet]))
    return _measured(shown, variant, turned, asked)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Asked:
    """P pairs of which one may be what a window of the other shows."""

    one: Indices
    two: Indices
    """[P] place in `Shown`"""
    windows: Indices
    """[P, 2] the window of the second, and of the first, whose code is nearest to that of the other"""
    begin: Indices
    """[P, 2] bits that differ there; all of them where the codes are far"""

    def take(self, chosen: npt.NDArray[np.bool_]) -> _Asked:
        return _Asked(
            one=self.one[chosen], two=self.two[chosen], windows=self.windows[chosen], begin=self.begin[chosen]
        )

    def nearest(self) -> npt.NDArray[np.bool_]:
        """[P] which pairs are among the NEAREST nearest of one of both, by the window that they begin with."""
        ends, other = np.concatenate([self.one, self.two]), np.concatenate([self.two, self.one])
        order = np.lexsort((other, np.tile(self.begin.min(1), 2), ends))
        starts = group_starts(ends[order])
        rank = np.empty(len(ends), np.int64)
        rank[order] = np.arange(len(ends)) - np.repeat(starts, np.diff(np.append(starts, len(ends))))
        one, two = (rank < NEAREST).reshape(2, -1)
        kept: npt.NDArray[np.bool_] = one | two
        return kept


def _begun(shown: Shown, asked: tuple[crops.Previews, Keys], one: Indices, two: Indices) -> _Asked:
    turned, wanted = asked
    windows, begin = np.empty((len(one), 2), np.int64), np.full((len(one), 2), crops.FINE_BITS)
    for way, (query, other) in enumerate(((one, two), (two, one))):
        windows[:, way], distance = _nearest(shown.codes, wanted, query, other)
        near = np.flatnonzero(distance <= _CODE_DISTANCE)
        begin[near, way] = crops.begin(
            turned, shown.images.preview[shown.units], query[near], other[near], windows[near, way]
        )
    return _Asked(one=one, two=two, windows=windows, begin=begin)


def _measured(shown: Shown, variant: int, turned: crops.Previews, asked: _Asked) -> Edges:
    both = turned, shown.images.preview[shown.units]
    # The way that begins nearer proves most pairs; where it does, the other is not gone.
    sooner = asked.begin.argmin(1)
    times = _TURNED if 0 < variant < _QUARTERS else 1
    differ = _fitted(both, asked, sooner)
    open_ = (differ * times > _FITS) | (asked.begin[:, 0] == asked.begin[:, 1])
    differ[open_] = np.minimum(differ[open_], _fitted(both, asked.take(open_), 1 - sooner[open_]))
    differ *= times
    keep = np.flatnonzero(differ <= most(crops.FINE_BITS))
    one, two = asked.one[keep], asked.two[keep]
    return edges_of(shown.units[one], shown.units[two], crops.FINE_BITS, differ[keep], variant)


def key_of(one: Indices, two: Indices) -> Indices:
    """[P] one number a pair, whichever comes first."""
    return (np.minimum(one, two) << 32) | np.maximum(one, two)


def _among(keys: Indices, known: Indices) -> npt.NDArray[np.bool_]:
    """[n] whether each key is one of `known`, which ascend."""
    if not len(known):
        return np.zeros(len(keys), np.bool_)
    found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys
    return found


def _fitted(both: tuple[crops.Previews, crops.Previews], asked: _Asked, way: Indices) -> Indices:
    """[P] bits that differ in the best window, one way or the other; all of them where the greys do not go together."""
    each = np.arange(len(way))
    begun = np.flatnonzero(asked.begin[each, way] < crops.FINE_BITS)
    query, other = (np.where(way == side, asked.one, asked.two)[begun] for side in (0, 1))
    differ, correlation = crops.fit(*both, query, other, asked.windows[begun, way[begun]])
    out = np.full(len(way), crops.FINE_BITS)
    out[begun] = np.where(correlation >= _CORRELATION, differ, crops.FINE_BITS)
    return out


def _variant(previews: crops.Previews, variant: int) -> crops.Previews:
    if variant >= _QUARTERS:
        return crops.tilted(previews, *_TILTS[variant - _QUARTERS])
    mirrored = previews[:, :, ::-1] if variant >= 4 else previews
    return np.ascontiguousarray(np.rot90(mirrored, variant % 4, axes=(1, 2)))


def _nearest(codes: Keys, wanted: Keys, query: Indices, other: Indices) -> tuple[Indices, Indices]:
    """[P] the window of the other whose code is nearest to that of the query, and the bits between them."""
    window, distance = np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    for start in range(0, len(query), PAIRS_AT_A_TIME >> 4):
        part = slice(start, start + (PAIRS_AT_A_TIME >> 4))
        counts = np.bitwise_count(codes[other[part]] ^ wanted[query[part], None])
        window[part] = counts.argmin(1)
        distance[part] = counts.min(1)
    return window, distance


def _meetings(
    shown: Shown, sought: Sought, wanted: Keys, doubtful: npt.NDArray[np.int8], chosen: Indices
) -> Iterator[tuple[Indices, Indices]]:
    """Pictures and others of which a window has the same bits `chosen`, or the same but for doubtful ones.

    Yields places in `shown`.
    """
    shifts = np.uint64(63) - chosen.astype(np.uint64)
    places = np.arange(len(chosen), dtype=np.uint64)[::-1]
    keys, own = np.zeros(shown.codes.shape, np.uint64), np.zeros(len(wanted), np.uint64)
    for shift, place in zip(shifts, places, strict=True):
        keys |= ((shown.codes >> shift) & ONE) << place
        own |= ((wanted >> shift) & ONE) << place
    value_of = np.zeros(64, np.uint64)
    value_of[chosen] = ONE << places
    values = value_of[doubtful]
    first = np.argsort(values == 0, axis=1, kind="stable")[:, :_FLIPS]
    flips = np.take_along_axis(values, first, axis=1)
    for entering, asking, per_key in _rounds(shown, sought):
        entries = _entries(keys, sought, entering)
        for number in range(1 << _FLIPS):
            key = own.copy()
            for flip in range(_FLIPS):
                if number >> flip & 1:
                    key ^= flips[:, flip]
            sought_keys = _key(key[sought.of[asking]], sought, asking)
            query, at = np.arange(len(asking)), np.searchsorted(entries, sought_keys << HALF)
            for _ in range(per_key):
                query, at = _hit(entries, sought_keys, query, at)
                if not len(query):
                    break
                yield sought.of[asking[query]], sought.of[_numbers(entries[at])]
                at = at + 1
            if sought.crowd is not None:
                query, _ = _hit(entries, sought_keys, query, at)
                for crowded in (asking[query], _members(entries, np.unique(sought_keys[query]))):
                    sought.crowd[shown.units[sought.of[crowded]]] = True


def _rounds(shown: Shown, sought: Sought) -> Iterator[tuple[Indices, Indices, int]]:
    """(what is looked at, what is looked for, how many of a key): all and all, or each side in the other."""
    everything = np.arange(len(sought.of))
    kinds = [(everything, everything)]
    if sought.pictures is not None:
        pictures, pages = everything[sought.pictures], everything[~sought.pictures]
        kinds = [(pictures, everything), (pages, pictures)]
    for entering, asking in kinds:
        if not (len(entering) and len(asking)):
            continue
        if sought.sides is None:
            yield entering, asking, sought.per_key
            continue
        here, there = (sought.sides[shown.units[sought.of[some]]] for some in (entering, asking))
        yield entering[here], asking[~there], sought.per_key
        # The first side is the small one: each of its pictures sees all of the other.
        yield entering[~here], asking[there], max(int((~here).sum()) * len(crops.WINDOWS), 1)


def _entries(keys: Keys, sought: Sought, entering: Indices) -> Keys:
    """Key << 32 | number of the meeting, ascending, each once."""
    own = _key(keys[sought.of[entering]], sought, entering)
    entries: Keys = ((own << HALF) | entering.astype(np.uint64)[:, None]).ravel()
    # np.unique looks for equal values in a table first, which takes ten times as long where nearly all differ.
    entries.sort()
    distinct: Keys = entries[np.diff(entries, prepend=~entries[:1]) != 0]
    return distinct


def _key(keys: Keys, sought: Sought, at: Indices) -> Keys:
    """Keys of 32 bits, mixed with the salts where there are some."""
    if sought.salt is None:
        return keys
    salt = sought.salt[at]
    mixed: Keys = salted(keys, salt if keys.ndim == 1 else salt[:, None]) >> HALF
    return mixed


def _numbers(entries: Keys) -> Indices:
    numbers: Indices = (entries & _LOWER).astype(np.int64)
    return numbers


def _members(entries: Keys, keys: Keys) -> Indices:
    """Numbers of all entries of some keys."""
    begin = np.searchsorted(entries, keys << HALF)
    length = np.searchsorted(entries, (keys << HALF) | _LOWER, side="right") - begin
    places = np.arange(int(length.sum())) + np.repeat(begin - (np.cumsum(length) - length), length)
    return np.unique(_numbers(entries[places]))


def _hit(entries: Keys, key: Keys, query: Indices, at: Indices) -> tuple[Indices, Indices]:
    """Those that stand at an entry of their key."""
    hit = at < len(entries)
    hit[hit] = entries[at[hit]] >> HALF == key[query[hit]]
    return query[hit], at[hit]
