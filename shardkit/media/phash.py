"""What a picture looks like, from the one decode: two perceptual hashes, a preview and a class, so that dedup need not
decode again.

    RGB -> grey -> 128 x 128 cells -> 32 x 32 lowest frequencies -> phash: 16 x 16 of them, phash_fine: all
                                   -> preview: 32 x 32 greys without the border

A bit is set where the frequency is above the median of its square, as in the classic pHash; bits go row by row, first bit
highest. The cosines are whole numbers, so every sum is a whole number that 64-bit floats hold exactly: in whatever order a
machine adds, the bits are the same. Grey and cells come from Pillow's fixed-point arithmetic.

`picture_class` says which rules of dedup hold for the picture:

    blank     next to no cell differs from its neighbours: the hashes are of noise and prove nothing
    page      light paper with strokes of ink on it, or a drawing of few greys with sharp edges (a screen, a diagram, a
              chart): two of them may look alike and say something else
    picture   anything else

In doubt it is a page, for a page is never removed for its looks alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from shardkit.media.preview import previews_of

LOOKS = "dct-phash/2"
"""Name and version of the rules above. Hashes or classes that come out otherwise are a new version."""

CLASSES = ("picture", "page", "blank")

_CELLS = 128
_FINE = 32
_COARSE = 16
_SCALE = 2**14
"""2**14 a cosine, twice, 2**8 greys and 2**14 cells make sums below 2**50, which float64 holds exactly."""

_STEP = 10
"""Greys between two cells: more than the noise of a scanner leaves, less than one thin line of print."""
_FEW_STEPS = 16
"""Of 32,512 neighbours; a word in the middle of a page makes more."""

_ROWS = 64
"""Rows of the whole picture that are looked at for paper and ink, at their full width: strokes are lost in the cells."""
_PAPER_GREYS = 32
_PAPER_FROM = 112
"""Paper: the 32 greys in a row that most pixels have, none darker than 112; ink: darker than that by 32 and more."""
_STROKE = 48
"""Greys between two pixels side by side, one of paper and one of ink."""
_TONE = 8
_TONES = 4
"""A drawing: four tones of 8 greys have 17 of 20 pixels, and 1 pixel of 200 is at an edge. Photographs that have so few
tones (bare sky, a fork on a table) have no edges."""


_BATCH = 32
"""Sketches that are worked out together: their sums take 4 MB."""

_Sums = npt.NDArray[np.float64]
"""Whole numbers, all of them."""
_Greys = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """How a picture looks; equal on every platform."""

    phash: str
    """256 bits, 64 hex digits."""
    phash_fine: str
    """1,024 bits, 256 hex digits."""
    preview: bytes
    """1,024 greys, see `preview`."""
    picture_class: str
    """One of CLASSES."""

    def columns(self) -> dict[str, object]:
        """As tables/assets names them."""
        return {
            "phash": self.phash,
            "phash_fine": self.phash_fine,
            "preview": self.preview,
            "class": self.picture_class,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Sketch:
    """What is left of a picture when its pixels are gone, enough for its looks; tens of kilobytes."""

    cells: bytes
    """128 x 128 greys, row by row."""
    lines: Image.Image
    """Up to 64 of its rows, in grey."""


def sketch(image: Image.Image, grey: Image.Image | None = None) -> Sketch:
    """The sketch of a canonical picture (RGB, upright).

    Args:
        grey: the same in greys, where it has nothing else: what it would be converted to.
    """
    grey = grey or image.convert("L")
    return Sketch(
        cells=grey.resize((_CELLS, _CELLS), Image.Resampling.BILINEAR, reducing_gap=1.0).tobytes(),
        lines=grey.resize((grey.width, min(_ROWS, grey.height)), Image.Resampling.NEAREST),
    )


def looks(image: Image.Image) -> Looks:
    """Hashes and class of a canonical picture (RGB, upright)."""
    return looks_of([sketch(image)])[0]


def looks_of(sketches: Sequence[Sketch]) -> list[Looks]:
    """The looks of many pictures at once, for half of what one by one costs: each sum is small beside the call for it."""
    return [look for first in range(0, len(sketches), _BATCH) for look in _batch(sketches[first : first + _BATCH])]


def _batch(sketches: Sequence[Sketch]) -> list[Looks]:
    cells = np.frombuffer(b"".join(one.cells for one in sketches), np.uint8).reshape(-1, _CELLS, _CELLS)
    frequencies = _lowest_frequencies(cells)
    coarse = np.ascontiguousarray(frequencies[:, :_COARSE, :_COARSE])
    return [
        Looks(phash=phash, phash_fine=fine, preview=preview, picture_class=picture_class)
        for phash, fine, preview, picture_class in zip(
            _bits(coarse), _bits(frequencies), previews_of(cells), _classes(cells, sketches), strict=True
        )
    ]


def _cosines() -> _Sums:
    """Rows: the lowest frequencies of a DCT-II over the cells, as whole numbers."""
    frequency, cell = np.ogrid[:_FINE, :_CELLS]
    cosines: _Sums = np.rint(np.cos(np.pi * frequency * (2 * cell + 1) / (2 * _CELLS)) * _SCALE)
    return cosines


_COSINES = _cosines()
_EVEN, _ODD = _COSINES[0::2, : _CELLS // 2], _COSINES[1::2, : _CELLS // 2]


def _lowest_frequencies(cells: _Greys) -> _Sums:
    """[n, 128, 128] greys -> [n, 32, 32] frequencies, down then across."""
    down = _fold(cells.astype(np.float64))
    across: _Sums = _fold(down.transpose(0, 2, 1)).transpose(0, 2, 1)
    return across


def _fold(values: _Sums) -> _Sums:
    """The frequencies down the columns. Even ones are alike in both halves of the picture, odd ones opposite: half the work."""
    top, bottom = values[:, : _CELLS // 2], values[:, : _CELLS // 2 - 1 : -1]
    out: _Sums = np.empty((len(values), _FINE, values.shape[2]))
    out[:, 0::2] = _EVEN @ (top + bottom)
    out[:, 1::2] = _ODD @ (top - bottom)
    return out


def _bits(frequencies: _Sums) -> list[str]:
    """Above the median or not, in hex. The median of an even number is halfway between two: compared twice as large, exactly."""
    flat = frequencies.reshape(len(frequencies), -1)
    half = flat.shape[1] // 2
    middle = np.partition(flat, (half - 1, half), axis=1)[:, half - 1 : half + 1].sum(1, keepdims=True)
    packed = np.packbits(2 * flat > middle, axis=1)
    return [row.tobytes().hex() for row in packed]


def _classes(cells: _Greys, sketches: Sequence[Sketch]) -> list[str]:
    """The class of each picture; see the head of this file. Only whole numbers are compared."""
    steps = _count_steps(cells[:, :, :-1], cells[:, :, 1:], _STEP) + _count_steps(cells[:, :-1], cells[:, 1:], _STEP)
    counts = np.array([one.lines.histogram() for one in sketches])
    num_pixels = counts.sum(1)
    up_to = np.cumsum(np.pad(counts, ((0, 0), (1, 0))), axis=1)
    paper_of = up_to[:, _PAPER_GREYS:] - up_to[:, :-_PAPER_GREYS]
    first = paper_of.argmax(1)
    row = np.arange(len(sketches))
    num_ink = up_to[row, np.maximum(0, first - _PAPER_GREYS)]
    is_paper = (first >= _PAPER_FROM) & (100 * paper_of[row, first] >= 55 * num_pixels) & (500 * num_ink >= num_pixels)
    tones = np.sort(counts.reshape(len(sketches), -1, _TONE).sum(2), axis=1)
    is_flat = 20 * tones[:, -_TONES:].sum(1) >= 17 * num_pixels
    classes = np.where(steps < _FEW_STEPS, "blank", "picture")
    for place in np.flatnonzero((steps >= _FEW_STEPS) & (is_paper | is_flat)).tolist():
        greys = np.asarray(sketches[place].lines)
        strokes = _count_steps(greys[None, :, :-1], greys[None, :, 1:], _STROKE)[0]
        written = is_paper[place] and 10 * strokes >= num_ink[place]
        if written or (is_flat[place] and 200 * strokes >= num_pixels[place]):
            classes[place] = "page"
    found: list[str] = classes.tolist()
    return found


def _count_steps(one: _Greys, two: _Greys, least: int) -> npt.NDArray[np.int64]:
    """[n, ...] twice -> [n] how many pairs are more than `least` greys apart."""
    steps: npt.NDArray[np.int64] = np.count_nonzero(np.maximum(one, two) - np.minimum(one, two) > least, axis=(1, 2))
    return steps
