"""Which images a text token attends to."""

from __future__ import annotations

import numpy as np
import pytest

from shardkit.sequence.intervals import bounds, in_parts, intervals, joined, side_by_side


def images(tokens: list[int], image: int = 1) -> list[int]:
    return [place for place, token in enumerate(tokens) if token == image]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([1, 1, 5, 5, 5, 5, 5, 1, 5, 5, 5, 5], [(0, 7), (1, 7), (7, 12)]),
        ([1, 2, 1, 2, 1], [(0, 2), (2, 4), (4, 5)]),
        ([1, 3, 1, 9, 9], [(0, 2), (2, 5)]),
        ([4, 4], []),
        ([], []),
        ([4, 4, 1, 1, 1], [(2, 5), (3, 5), (4, 5)]),
    ],
)
def test_intervals(tokens: list[int], expected: list[tuple[int, int]]) -> None:
    assert intervals(images(tokens), len(tokens)) == expected


def test_white_space_between_images_breaks_no_run() -> None:
    """Image, line feed, image, text: by adjacency alone the first image would be seen from the line feed only."""
    tokens = [1, 9, 1, 5, 5, 9, 1, 5]
    blank = np.array(tokens) == 9
    starts = images(tokens)

    assert intervals(starts, 8) == [(0, 2), (2, 6), (6, 8)]
    assert intervals(starts, 8, joined(starts, blank)) == [(0, 6), (2, 6), (6, 8)]
    assert joined(starts, blank).tolist() == [False, True, False]
    assert joined(starts, np.zeros(8, np.bool_)).tolist() == side_by_side(starts).tolist() == [False] * 3


def test_bounds_are_the_drawing_at_the_top() -> None:
    lo, hi = bounds([0, 1, 7], 12)

    assert lo.tolist() == [0] * 7 + [2] * 5
    assert hi.tolist() == [1] + [2] * 6 + [3] * 5
    assert lo.dtype == hi.dtype == np.int32


def test_a_token_before_the_first_image_sees_none() -> None:
    lo, hi = bounds([2], 4)

    assert (hi - lo).tolist() == [0, 0, 1, 1]


def slow_mask(row: list[list[int]], joins_blank: bool) -> np.ndarray:
    """[tokens, images] from the intervals of each document: 1 is an image, 9 white space."""
    num_tokens, num_images = sum(map(len, row)), sum(len(images(document)) for document in row)
    mask = np.zeros((num_tokens, num_images), np.bool_)
    token, image = 0, 0
    for document in row:
        starts = images(document)
        joins = joined(starts, np.array(document) == 9) if joins_blank else None
        for start, end in intervals(starts, len(document), joins):
            mask[token + start : token + end, image] = True
            image += 1
        token += len(document)
    return mask


@pytest.mark.parametrize("joins_blank", [False, True])
def test_bounds_are_the_masks_of_the_intervals(joins_blank: bool) -> None:
    random = np.random.default_rng(0)
    seen = empty = 0
    for _ in range(500):
        row = [
            random.choice([1, 5, 9], random.integers(1, 12), p=[0.3, 0.5, 0.2]).tolist()
            for _ in range(random.integers(1, 6))
        ]
        flat = [token for document in row for token in document]
        documents = np.cumsum([0, *map(len, row[:-1])])
        starts = images(flat)
        joins = joined(starts, np.array(flat) == 9) if joins_blank else side_by_side(starts)
        # Over all documents at once: what joins across the border of two is cut there by `bounds` itself.
        lo, hi = bounds(starts, len(flat), joins, documents.tolist())
        keys = np.arange(len(starts))
        allowed = (lo[:, None] <= keys) & (keys < hi[:, None])
        assert (allowed == slow_mask(row, joins_blank)).all()
        assert (np.diff(lo) >= 0).all()
        assert (np.diff(hi) >= 0).all()
        seen += int(allowed.sum())
        empty += int((lo == hi).sum())
    assert seen > 1000
    assert empty > 100


def test_a_row_without_tokens_or_images() -> None:
    lo, hi = bounds([], 0)
    assert lo.tolist() == hi.tolist() == []
    lo, hi = bounds([], 3, documents=[0, 2])
    assert lo.tolist() == hi.tolist() == [0, 0, 0]
    assert joined([], np.zeros(3, np.bool_)).tolist() == []


def test_counted_in_tiles() -> None:
    lo, hi = in_parts(*bounds([0, 1, 3], 5), parts=[4, 1, 2])

    assert lo.tolist() == [0, 0, 0, 5, 5]
    assert hi.tolist() == [4, 5, 5, 7, 7]
