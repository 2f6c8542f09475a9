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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from shardkit.media.preview import preview_of

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


_Sums = npt.NDArray[np.float64]
"""Whole numbers, all of them."""


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


def looks(image: Image.Image, grey: Image.Image | None = None) -> Looks:
    """Hashes and class of a canonical picture (RGB, upright).

    Args:
        grey: the same in greys, where it has nothing else: what it would be converted to.
    """
    grey = grey or image.convert("L")
    cells = np.asarray(grey.resize((_CELLS, _CELLS), Image.Resampling.BILINEAR, reducing_gap=1.0))
    frequencies = _lowest_frequencies(cells)
    return Looks(
        phash=_bits(frequencies[:_COARSE, :_COARSE]),
        phash_fine=_bits(frequencies),
        preview=preview_of(cells),
        picture_class=_class_of(cells, grey),
    )


def _cosines() -> _Sums:
    """Rows: the lowest frequencies of a DCT-II over the cells, as whole numbers."""
    frequency, cell = np.ogrid[:_FINE, :_CELLS]
    cosines: _Sums = np.rint(np.cos(np.pi * frequency * (2 * cell + 1) / (2 * _CELLS)) * _SCALE)
    return cosines


_COSINES = _cosines()
_EVEN, _ODD = _COSINES[0::2, : _CELLS // 2], _COSINES[1::2, : _CELLS // 2]


def _lowest_frequencies(cells: npt.NDArray[np.uint8]) -> _Sums:
    """[128, 128] greys -> [32, 32] frequencies, down then across."""
    down = _fold(cells.astype(np.float64))
    across: _Sums = _fold(down.T).T
    return across


def _fold(values: _Sums) -> _Sums:
    """The frequencies down the columns. Even ones are alike in both halves of the picture, odd ones opposite: half the work."""
    top, bottom = values[: _CELLS // 2], values[: _CELLS // 2 - 1 : -1]
    out: _Sums = np.empty((_FINE, values.shape[1]))
    out[0::2] = _EVEN @ (top + bottom)
    out[1::2] = _ODD @ (top - bottom)
    return out


def _bits(frequencies: _Sums) -> str:
    """Above the median or not, in hex. The median of an even number is halfway between two: compared twice as large, exactly."""
    flat = frequencies.ravel()
    half = flat.size // 2
    low, high = np.partition(flat, (half - 1, half))[half - 1 : half + 1]
    return np.packbits(2 * flat > low + high).tobytes().hex()


def _class_of(cells: npt.NDArray[np.uint8], grey: Image.Image) -> str:
    """The class of the picture with these cells; see the head of this file. Only whole numbers are compared."""
    if _count_steps(cells[:, :-1], cells[:, 1:], _STEP) + _count_steps(cells[:-1], cells[1:], _STEP) < _FEW_STEPS:
        return "blank"
    lines = grey.resize((grey.width, min(_ROWS, grey.height)), Image.Resampling.NEAREST)
    counts = np.array(lines.histogram())
    num_pixels = int(counts.sum())
    up_to = np.cumsum(np.append(0, counts))
    paper_of = up_to[_PAPER_GREYS:] - up_to[:-_PAPER_GREYS]
    first = int(paper_of.argmax())
    num_paper, num_ink = int(paper_of[first]), int(up_to[max(0, first - _PAPER_GREYS)])
    is_paper = first >= _PAPER_FROM and 100 * num_paper >= 55 * num_pixels and 500 * num_ink >= num_pixels
    tones = np.sort(counts.reshape(-1, _TONE).sum(1))
    is_flat = 20 * int(tones[-_TONES:].sum()) >= 17 * num_pixels
    if not (is_paper or is_flat):
        return "picture"
    greys = np.asarray(lines)
    strokes = _count_steps(greys[:, :-1], greys[:, 1:], _STROKE)
    written = is_paper and 10 * strokes >= num_ink
    return "page" if written or (is_flat and 200 * strokes >= num_pixels) else "picture"


def _count_steps(one: npt.NDArray[np.uint8], two: npt.NDArray[np.uint8], least: int) -> int:
    """How many pairs of neighbours are more than `least` greys apart."""
    return int(np.count_nonzero(np.maximum(one, two) - np.minimum(one, two) > least))
