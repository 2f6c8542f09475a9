"""Which images a text token attends to, in models that look at images by cross-attention.

    tokens      I  I  t  t  t  t  t  I  t  t  t  t          I: an image token
    intervals   0..7, 1..7, 7..12                           tokens that attend to image 0, 1, 2
    lo          0  0  0  0  0  0  0  2  2  2  2  2          token q attends to the images k with lo[q] <= k < hi[q]
    hi          1  2  2  2  2  2  2  3  3  3  3  3

An image is seen from its own token to the next image; images of one run, which follow one another, are all seen to the
end of the run. A token before the first image sees none: lo = hi. In a row of many documents lo and hi never fall, so
two numbers a token say what a mask of tokens x images would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def side_by_side(starts: Sequence[int]) -> npt.NDArray[np.bool_]:
    """[images] whether an image stands directly behind the one before it."""
    places = np.asarray(starts, np.int64)
    found: npt.NDArray[np.bool_] = np.diff(places, prepend=places[:1] - 2) == 1
    return found


def joined(starts: Sequence[int], blank: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """As `side_by_side`, but tokens that are `blank` [T], white space, stand between nothing."""
    places = np.asarray(starts, np.int64)
    full = np.concatenate([[0], np.cumsum(~np.asarray(blank, np.bool_))])
    behind = np.minimum(places + 1, len(full) - 1)
    between = full[places[1:]] - full[behind[:-1]]
    return np.concatenate([np.zeros(min(1, len(places)), np.bool_), between == 0])


def intervals(
    starts: Sequence[int], num_tokens: int, joins: npt.NDArray[np.bool_] | None = None
) -> list[tuple[int, int]]:
    """[first, behind the last) token of one document that attends to each image.

    Args:
        starts: token of each image, ascending.
        joins: [images] whether an image is of one run with the one before it; those side by side, where not given.
    """
    run = side_by_side(starts) if joins is None else joins
    found: list[tuple[int, int]] = []
    end = num_tokens
    for k in reversed(range(len(starts))):
        found.append((starts[k], end))
        if not run[k]:
            end = starts[k]
    return found[::-1]


def bounds(
    starts: Sequence[int],
    num_tokens: int,
    joins: npt.NDArray[np.bool_] | None = None,
    documents: Sequence[int] = (0,),
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """lo and hi [num_tokens] of a row of documents that are laid end to end.

    Args:
        starts: token of each image of the row, ascending.
        joins: [images] as for `intervals`; an image that opens a document joins nothing.
        documents: first token of each document, ascending, the first one 0.
    """
    places, opens = np.asarray(starts, np.int64), np.asarray(documents, np.int64)
    run = side_by_side(starts) if joins is None else np.asarray(joins, np.bool_)
    here = np.zeros(num_tokens, np.int32)
    here[places] = 1
    hi = np.cumsum(here, dtype=np.int32)
    first = np.zeros(num_tokens, np.int32)
    # What a document sees begins behind the images of those before it, and anew with each run.
    first[opens[opens < num_tokens]] = (hi - here)[opens[opens < num_tokens]]
    new = np.flatnonzero(~run)
    first[places[new]] = new
    return np.maximum.accumulate(first), hi


def in_parts(
    lo: npt.NDArray[np.int32], hi: npt.NDArray[np.int32], parts: Sequence[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """lo and hi counted in what images consist of (tiles, or their embeddings), `parts` of each image in order."""
    ends = np.concatenate([[0], np.cumsum(np.asarray(parts, np.int64))])
    return ends[lo], ends[hi]
