"""Texts as sets of 64-bit hashes of their tokens in a row, many texts at a time.

    texts -> code points in one array -> kind and value of each -> tokens -> `width` tokens in a row

A token is one character of a script without spaces between words (Han, kana, Hangul, Bopomofo), else a run of letters,
digits and combining marks. Everything else parts tokens. Tokens are those of the compared form (text.normalize): case,
width and composition do not count, digits and marks do. What a letter is, `unicodedata` says: with another version of
Unicode only characters that one of the two does not know may fall differently.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.prepare.dedup.keys import Keys
from shardkit.text.normalize import normalize

Indices = npt.NDArray[np.int64]

_SEPARATOR, _LETTER, _SINGLE = 0, 1, 2
_BY_HAND = 4
"""Added to the kind of a character whose compared form its neighbours or several characters make."""
_UNKNOWN = 255
_CODE_POINTS = 0x110000
_SINGLES = (
    (0x3005, 0x3007),
    (0x3021, 0x3029),
    (0x3031, 0x3035),
    (0x3041, 0x312F),
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)
_PLAIN = ((0x4E00, 0x9FFF), (0xAC00, 0xD7A3))
"""Single tokens that are their own compared form, in every version of Unicode since the first that knows them."""
_VOWELS_AND_TAILS = range(0x1160, 0x1200)
"""Jamo that compose with the syllable before them."""
_VARIATIONS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
"""Marks that choose a glyph; they stand after pictographs and ideographs, not in words."""
_BASE = 0x9E3779B97F4A7C15 & ~7 | 5
"""Of the token hash: 5 modulo 8 has the longest period among powers modulo 2 ** 64."""
_BLOCK_CHARACTERS = 1 << 16
"""So that the arrays of a block stay in the cache of a core."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ragged:
    """n lists of hashes in one array."""

    values: Keys
    starts: Indices
    """[n + 1]"""

    @property
    def sizes(self) -> Indices:
        return np.diff(self.starts)


def tokens(texts: Sequence[str]) -> Ragged:
    """[n] texts as hashes of their tokens, in order.

    A token's hash is a polynomial over its code points modulo 2 ** 64, mixed: read off prefix sums, so that its cost is
    a few array operations a character. About 60 bytes a character of the longest text are held.
    """
    parts = [_block(texts[begin:end]) for begin, end in _blocks(texts)]
    sizes = np.concatenate([np.zeros(1, np.int64), *(part.sizes for part in parts)])
    values = np.concatenate([np.empty(0, np.uint64), *(part.values for part in parts)])
    return Ragged(values=values, starts=np.cumsum(sizes))


def shingles(words: Ragged, width: int) -> Ragged:
    """Hashes of every `width` tokens in a row, as they come; a text of fewer tokens has none."""
    size = max(len(words.values) - width + 1, 0)
    total = np.zeros(size, np.uint64)
    for place in range(width):
        total += words.values[place : place + size] * np.uint64(mix64("shingle", place) | 1)
    within = np.ones(size, np.bool_)
    for back in range(1, width):
        across = words.starts[1:] - back
        within[across[(across >= 0) & (across < size)]] = False
    sizes = np.maximum(words.sizes - width + 1, 0)
    return Ragged(values=mixed(total)[within], starts=np.concatenate([[0], np.cumsum(sizes)]))


def distinct(lists: Ragged) -> Ragged:
    """Each list ascending and without repetition."""
    values = lists.values.copy()
    for begin, end in pairwise(lists.starts.tolist()):
        values[begin:end].sort()
    fresh = np.ones(len(values), np.bool_)
    fresh[1:] = values[1:] != values[:-1]
    fresh[lists.starts[:-1][lists.sizes > 0]] = True
    before = np.concatenate([[0], np.cumsum(fresh)])
    return Ragged(values=values[fresh], starts=before[lists.starts])


def mixed(words: Keys) -> Keys:
    """Each word through the finalizer of splitmix64, in place."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def _blocks(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    begin, size = 0, 0
    for number, text in enumerate(texts):
        size += len(text) + 1
        if size >= _BLOCK_CHARACTERS:
            yield begin, number + 1
            begin, size = number + 1, 0
    if begin < len(texts):
        yield begin, len(texts)


def _block(texts: Sequence[str]) -> Ragged:
    letters = _letters()
    points, starts = _code_points(texts)
    kinds = letters.kinds_of(points)
    by_hand = np.flatnonzero(kinds >= _BY_HAND)
    if len(by_hand):
        own = set((np.searchsorted(starts, by_hand, side="right") - 1).tolist())
        points, starts = _code_points([normalize(t) if n in own else t for n, t in enumerate(texts)])
        kinds = letters.kinds_of(points) & ~np.uint8(_BY_HAND)
    single, letter = kinds == _SINGLE, kinds == _LETTER
    # The last code point is a separator: the roll below never joins the end to the beginning.
    first = np.flatnonzero(single | (letter & ~np.roll(letter, 1)))
    after = np.flatnonzero(single | (letter & ~np.roll(letter, -1))) + 1
    powers, inverses = _powers(1 << max(len(points) - 1, 2 * _BLOCK_CHARACTERS - 1).bit_length())
    sums = np.zeros(len(points) + 1, np.uint64)
    np.cumsum(letters.values[points] * powers[: len(points)], out=sums[1:])
    values = mixed((sums[after] - sums[first]) * inverses[first])
    return Ragged(values=values, starts=np.searchsorted(first, starts))


def _code_points(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], Indices]:
    """[c] code points of all texts, a line feed after each; [n + 1] where each begins."""
    points = np.frombuffer("\n".join([*texts, ""]).encode("utf-32-le"), "<u4")
    sizes = np.fromiter(map(len, texts), np.int64, len(texts)) + 1
    return points, np.concatenate([[0], np.cumsum(sizes)])


@lru_cache(maxsize=2)
def _powers(size: int) -> tuple[Keys, Keys]:
    """Powers of the base and of its inverse modulo 2 ** 64."""
    inverse = pow(_BASE, -1, 1 << 64)
    both = []
    for base in (_BASE, inverse):
        factors = np.full(size, base, np.uint64)
        factors[0] = 1
        both.append(np.cumprod(factors, dtype=np.uint64))
    return both[0], both[1]


@lru_cache(maxsize=1)
def _letters() -> _Letters:
    return _Letters()


class _Letters:
    """Kind and value of code points, as they are met."""

    def __init__(self) -> None:
        self.values: Keys = np.zeros(_CODE_POINTS, np.uint64)
        """[c] hash of the compared form"""
        self._kinds = np.full(_CODE_POINTS, _UNKNOWN, np.uint8)
        for first, last in _PLAIN:
            self._kinds[first : last + 1] = _SINGLE
            self.values[first : last + 1] = mixed(np.arange(first, last + 1, dtype=np.uint64))

    def kinds_of(self, points: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        kinds = self._kinds[points]
        new = kinds == _UNKNOWN
        if new.any():
            for point in np.unique(points[new]).tolist():
                self._kinds[point], form = _look_up(point)
                self.values[point] = mixed(np.array([form], np.uint64))[0]
            kinds = self._kinds[points]
        return kinds


def _look_up(point: int) -> tuple[int, int]:
    """Kind of a code point, and the one code point that is its compared form.

    Where the form is a single starter that composes with nothing before it, it is the same beside any neighbours: the
    whole text needs no normalization. So it is where the form only parts tokens.
    """
    form = normalize(f".{chr(point)}.")[1:-1]
    if not _joins(chr(point)) and not any(map(_joins, form)):
        kinds = {_kind(sign) for sign in form}
        if kinds <= {_SEPARATOR}:
            return _SEPARATOR, point
        if len(form) == 1:
            return kinds.pop(), ord(form)
    return _BY_HAND | _kind(chr(point)), point


def _joins(sign: str) -> bool:
    return unicodedata.category(sign)[0] == "M" or ord(sign) in _VOWELS_AND_TAILS


def _kind(sign: str) -> int:
    point = ord(sign)
    if unicodedata.category(sign)[0] not in "LMN" or any(point in some for some in _VARIATIONS):
        return _SEPARATOR
    return _SINGLE if any(first <= point <= last for first, last in _SINGLES) else _LETTER
