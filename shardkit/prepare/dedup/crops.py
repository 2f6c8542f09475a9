"""Previews compared through windows: whether one picture is what another shows inside a rectangle.

    preview [32, 32] -> window (top, height) x (left, width) -> lowest frequencies of it -> above their median or not

A frequency of a window is a sum of greys times the integrals of a cosine over their cells. The integrals are rounded to
whole numbers, so every sum is a whole number that 64-bit floats hold exactly, in whatever order a machine adds.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from shardkit.media.preview import SIDE

Previews = npt.NDArray[np.uint8]
"""[n, SIDE, SIDE] greys"""
Codes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
_Sums = npt.NDArray[np.float64]

STEPS = 128
"""Windows begin and end at multiples of one STEPS-th of the side."""
LEAST = 108
"""No window is narrower: 15% may be gone."""
FINE = 16
"""Frequencies each way of the hash that decides."""
COARSE = 8
"""Frequencies each way of the code that is searched by: what changes little where a window is a little off."""
FINE_BITS = FINE * FINE
_SCALE = 2**16
"""Greys below 2**8 times twice 2**16, in integrals that sum to at most 1: sums below 2**40."""
_PART = 64
"""Parts of a cell that a tilted preview is read at."""
_LEVEL = 2.0**20
"""Sums are rounded down to multiples of it before they are multiplied: products of 2**40, of which 255 stay exact."""
_ROUNDS = (2, 2, 1)
"""Steps that a window is moved, widened or narrowed by while it fits better."""
_AT_FIRST = (96, 0.8)
_AFTER_ONE_ROUND = (64, 0.9)
"""What may still fit: bits that differ at most, and the least correlation of the greys, in the window that it begins with
and in the best one after a round. Copies are well inside, nine in ten others of a crowd are not."""
_AT_A_TIME = 64
_FITS_AT_A_TIME = 2048
_BEGUN_AT_A_TIME = 1 << 14
_PREVIEWS_AT_A_TIME = 16
"""Around one window of each: 2.7 MB of sums, which stay in the cache of a core."""


def _integrals(begin: int, length: int, frequencies: int) -> _Sums:
    """[frequencies, SIDE] what each cell adds to the cosines over begin .. begin + length."""
    edges = np.clip(np.arange(SIDE + 1) * (STEPS // SIDE), begin, begin + length) - begin
    waves = np.arange(1, frequencies)[:, None] * np.pi
    sines = np.sin(waves * edges / length) / waves
    whole: _Sums = np.rint(np.concatenate([np.diff(edges / length)[None], np.diff(sines)]) * _SCALE)
    return whole


_SPANS = [(begin, length) for length in range(STEPS, LEAST - 1, -1) for begin in range(STEPS - length + 1)]
_NUMBER = np.zeros((STEPS + 1, STEPS + 1), np.int64)
for _place, _span in enumerate(_SPANS):
    _NUMBER[_span] = _place
_FINE_OF = np.stack([_integrals(*span, FINE) for span in _SPANS])

_GRID = tuple((round(shift * cut), STEPS - cut) for cut in (6, 13) for shift in (0, 0.5, 1))
_ROWS = ((0, STEPS), *_GRID)
WINDOWS = (
    (_ROWS[0], _ROWS[0]),
    *(
        pair
        for size in (STEPS - 6, STEPS - 13)
        for pair in itertools.product(_ROWS, _ROWS)
        if {size} == {pair[0][1], pair[1][1]}
    ),
    *((_ROWS[0], span) for span in _GRID),
    *((span, _ROWS[0]) for span in _GRID),
)
"""The whole and 30 windows ((top, height), (left, width)) of 5% and 10% less: any window that cuts up to 12% is near one."""
_COARSE_OF = np.concatenate([_integrals(*span, COARSE) for span in _ROWS])
_ROW_OF = np.array([[_ROWS.index(rows), _ROWS.index(columns)] for rows, columns in WINDOWS])
_START = np.array(WINDOWS, np.int64).reshape(len(WINDOWS), 4)
_BIT = np.uint64(1) << np.arange(COARSE * COARSE, dtype=np.uint64)[::-1]


def tilted(previews: Previews, degrees: int, aspect: float) -> Previews:
    """[n, SIDE, SIDE] previews of pictures of width : height = aspect, turned about their middle; the sides are drawn out."""
    down, across = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    middle, last = (SIDE - 1) / 2, (SIDE - 1) * _PART
    right = np.clip(np.rint((cosine * across + sine / aspect * down + middle) * _PART), 0, last).astype(np.int64)
    below = np.clip(np.rint((cosine * down - sine * aspect * across + middle) * _PART), 0, last).astype(np.int64)
    column, row = np.minimum(right // _PART, SIDE - 2), np.minimum(below // _PART, SIDE - 2)
    x, y = right - column * _PART, below - row * _PART
    weights = [
        (row + dy, column + dx, (y if dy else _PART - y) * (x if dx else _PART - x))
        for dy, dx in itertools.product((0, 1), repeat=2)
    ]
    out = np.empty_like(previews)
    for start in range(0, len(previews), _AT_A_TIME):
        part = previews[start : start + _AT_A_TIME]
        sums = sum(part[:, rows, columns] * weight for rows, columns, weight in weights)
        out[start : start + len(part)] = sums // _PART**2
    return out


def _above(sums: _Sums) -> npt.NDArray[np.bool_]:
    """[..., n] which are above the median of the last axis; halfway between two, compared twice as large."""
    half = sums.shape[-1] // 2
    # Sorting whole rows is vectorized in numpy, finding two places of them is not: a sixth of the time.
    middle = np.sort(sums, axis=-1)[..., half - 1 : half + 1].sum(-1, keepdims=True)
    above: npt.NDArray[np.bool_] = 2 * sums > middle
    return above


def codes_of(previews: Previews) -> Codes:
    """[n, WINDOWS] 64-bit code of what each window shows."""
    out = np.empty((len(previews), len(WINDOWS)), np.uint64)
    for start in range(0, len(previews), _AT_A_TIME):
        part = previews[start : start + _AT_A_TIME].astype(np.float64)
        sums = _COARSE_OF @ part @ _COARSE_OF.T
        sums = sums.reshape(len(part), len(_ROWS), COARSE, len(_ROWS), COARSE)
        for place, (rows, columns) in enumerate(_ROW_OF):
            bits = _above(sums[:, rows, :, columns].reshape(len(part), -1))
            out[start : start + len(part), place] = bits.astype(np.uint64) @ _BIT
    return out


def margins_of(previews: Previews) -> tuple[Codes, npt.NDArray[np.int8]]:
    """[n] code of the whole, and [n, 64] its bits from the one nearest to the median, which is the first to flip, on."""
    codes, order = np.empty(len(previews), np.uint64), np.empty((len(previews), COARSE * COARSE), np.int8)
    whole = _COARSE_OF[:COARSE]
    for start in range(0, len(previews), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        sums = (whole @ previews[part].astype(np.float64) @ whole.T).reshape(-1, COARSE * COARSE)
        codes[part] = _above(sums).astype(np.uint64) @ _BIT
        middle = np.median(sums, axis=1, keepdims=True)
        order[part] = np.argsort(np.abs(sums - middle), axis=1, kind="stable")
    return codes, order


def begin(queries: Previews, others: Previews, query: Numbers, other: Numbers, windows: Numbers) -> Numbers:
    """[n] bits that differ in the windows that a fit would begin with; see fit."""
    whole, out = _FINE_OF[0], np.empty(len(query), np.int64)
    bits = np.empty((len(queries), FINE_BITS // 64), np.uint64)
    for start in range(0, len(queries), _AT_A_TIME):
        block = slice(start, start + _AT_A_TIME)
        bits[block] = _packed((whole @ queries[block].astype(np.float64) @ whole.T).reshape(-1, FINE_BITS))
    order = np.lexsort((windows, other))
    for start in range(0, len(order), _BEGUN_AT_A_TIME):
        part = order[start : start + _BEGUN_AT_A_TIME]
        shown, which = np.unique(other[part], return_inverse=True)
        there, window = _shown_in(others[shown].astype(np.float64), which, _START[windows[part]])
        out[part] = np.bitwise_count(_packed(there)[window] ^ bits[query[part]]).sum(1, dtype=np.int64)
    return out


def fit(
    queries: Previews, others: Previews, query: Numbers, other: Numbers, windows: Numbers
) -> tuple[Numbers, npt.NDArray[np.float64]]:
    """How far each query is what the other shows in the window that fits it best.

    Args:
        query: [n] which of the queries; and other.
        windows: [n] which of WINDOWS is looked around.

    Returns:
        differ: [n] of FINE_BITS, how many differ; all of them where there was no hope.
        correlation: [n] of their greys, -1 to 1.
    """
    differ, correlation = np.empty(len(query), np.int64), np.empty(len(query))
    # What many look for in one window of one picture is worked out once.
    order = np.lexsort((windows, other))
    for start in range(0, len(order), _FITS_AT_A_TIME):
        part = order[start : start + _FITS_AT_A_TIME]
        shown, which = np.unique(other[part], return_inverse=True)
        found = _fit(queries[query[part]], others[shown].astype(np.float64), which, _START[windows[part]])
        differ[part], correlation[part] = found
    return differ, correlation


def _fit(queries: Previews, others: _Sums, of: Numbers, window: Numbers) -> tuple[Numbers, npt.NDArray[np.float64]]:
    whole, size = _FINE_OF[0], len(queries)
    wanted = (whole @ queries.astype(np.float64) @ whole.T).reshape(size, FINE_BITS)
    bits, window = _packed(wanted), window.copy()
    best, correlation = np.full(size, FINE_BITS), np.zeros(size)

    def hopeful(some: Numbers, hope: tuple[int, float]) -> Numbers:
        """Those that may still fit, by the windows where they are."""
        there, which = _shown_in(others, of[some], window[some])
        best[some] = np.bitwise_count(_packed(there)[which] ^ bits[some]).sum(1, dtype=np.int64)
        near = np.flatnonzero(best[some] <= hope[0])
        some, which = some[near], which[near]
        correlation[some] = _correlation(wanted[some, 1:], there[which, 1:])
        return some[correlation[some] >= hope[1]]

    hoped = moved = hopeful(np.arange(size), _AT_FIRST)
    last = 0
    for step in _ROUNDS:
        # Around a window that did not move lies what was tried already.
        going = moved if step == last else hoped
        if not len(going):
            break
        shown, first, which = np.unique(_names(of[going], window[going]), return_index=True, return_inverse=True)
        rows, columns = (_around(window[going[first]][:, axis], step) for axis in (slice(0, 2), slice(2, 4)))
        codes = np.empty((len(shown), rows.shape[1] * columns.shape[1], FINE_BITS // 64), np.uint64)
        for start in range(0, len(shown), _PREVIEWS_AT_A_TIME):
            part = slice(start, start + _PREVIEWS_AT_A_TIME)
            codes[part] = _packed(_sums_of(others[of[going[first[part]]]], rows[part], columns[part]))
        distances = np.bitwise_count(codes[which] ^ bits[going, None]).sum(2, dtype=np.int64)
        place = distances.argmin(1)
        better = np.flatnonzero(distances[np.arange(len(going)), place] < best[going])
        place, moved, which = place[better], going[better], which[better]
        row, column = np.divmod(place, columns.shape[1])
        window[moved] = np.concatenate([rows[which, row], columns[which, column]], axis=1)
        if last == 0:
            hoped = hopeful(going, _AFTER_ONE_ROUND)
            moved = np.intersect1d(moved, hoped)
        else:
            best[moved] = distances[better, place]
        last = step
    hoped = hopeful(hoped, (FINE_BITS, -1.0))
    gone = np.ones(size, np.bool_)
    gone[hoped] = False
    best[gone], correlation[gone] = FINE_BITS, 0.0
    return best, correlation


def _shown_in(others: _Sums, of: Numbers, window: Numbers) -> tuple[_Sums, Numbers]:
    """[m, FINE_BITS] frequencies of the distinct windows of previews, and [n] which of them each is."""
    _, first, which = np.unique(_names(of, window), return_index=True, return_inverse=True)
    window = window[first]
    return _sums_of(others[of[first]], window[:, None, :2], window[:, None, 2:])[:, 0], which


def _names(of: Numbers, window: Numbers) -> Numbers:
    """[n] one number for a window of a preview."""
    names: Numbers = of * len(_SPANS) ** 2 + _NUMBER[window[:, 0], window[:, 1]] * len(_SPANS)
    return names + _NUMBER[window[:, 2], window[:, 3]]


def _sums_of(others: _Sums, rows: Numbers, columns: Numbers) -> _Sums:
    """[n, R x C, FINE_BITS] frequencies of the windows of R spans of rows and C of columns each."""
    size, num_rows, num_columns = len(others), rows.shape[1], columns.shape[1]
    down = _FINE_OF[_NUMBER[rows[..., 0], rows[..., 1]]]
    across = _FINE_OF[_NUMBER[columns[..., 0], columns[..., 1]]].reshape(size, 1, num_columns * FINE, SIDE)
    # One small product for each span of rows: over a larger one BLAS wakes threads, which cost more than they give.
    sums: _Sums = down @ others[:, None] @ across.transpose(0, 1, 3, 2)
    sums = sums.reshape(size, num_rows, FINE, num_columns, FINE).transpose(0, 1, 3, 2, 4)
    return sums.reshape(size, num_rows * num_columns, FINE_BITS)


def _packed(sums: _Sums) -> Codes:
    """[..., FINE_BITS] -> [..., FINE_BITS / 64] which are above their median."""
    codes: Codes = np.packbits(_above(sums), axis=-1).view(np.uint64)
    return codes


def _correlation(one: _Sums, two: _Sums) -> npt.NDArray[np.float64]:
    """[n] cosine of the rows; without their first frequency, which is the mean, that is the correlation of the greys."""
    one, two = np.floor(one / _LEVEL), np.floor(two / _LEVEL)
    product, squares = (one * two).sum(1), (one * one).sum(1) * (two * two).sum(1)
    cosine: npt.NDArray[np.float64] = product / np.sqrt(np.maximum(squares, 1))
    return cosine


def _around(spans: Numbers, step: int) -> Numbers:
    """[n, 2] begin and length -> [n, 9, 2] those that begin and end up to a step earlier or later, inside the side."""
    shifts = np.array(list(itertools.product((0, -step, step), repeat=2)))
    begin = np.clip(spans[:, None, 0] + shifts[:, 0], 0, STEPS - LEAST)
    end = np.clip(spans[:, None, 0] + spans[:, None, 1] + shifts[:, 1], begin + LEAST, STEPS)
    return np.stack([begin, end - begin], axis=2)
