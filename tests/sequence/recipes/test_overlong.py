"""Windows and cuts: no image is divided, no pair of neighbours is lost or repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.sequence.recipes.overlong import truncated, windows


@pytest.mark.parametrize(
    ("num_tokens", "spans", "max_tokens", "pieces"),
    [
        (4, [], 4, [(0, 4)]),
        (8, [], 4, [(0, 4), (3, 7), (6, 8)]),
        (3, [], 2, [(0, 2), (1, 3)]),
        # An image across the border, and one that ends at it, go to the next window with the text behind them.
        (12, [(7, 11)], 10, [(0, 7), (7, 12)]),
        (12, [(6, 10)], 10, [(0, 6), (6, 12)]),
        (12, [(5, 9)], 10, [(0, 10), (9, 12)]),
        # So do all images side by side.
        (12, [(3, 6), (6, 9)], 8, [(0, 3), (3, 11), (10, 12)]),
        # More of them than fit: those farthest from the text stand alone.
        (11, [(0, 3), (3, 6), (6, 9)], 8, [(0, 3), (3, 11)]),
    ],
)
def test_windows_are(num_tokens: int, spans: list, max_tokens: int, pieces: list) -> None:
    assert list(windows(num_tokens, spans, max_tokens)) == pieces


@pytest.mark.parametrize(
    ("num_tokens", "spans", "max_tokens", "left"),
    [
        (13, [(7, 13)], 10, 7),
        (13, [(0, 13)], 10, 0),
        (13, [(4, 10)], 10, 10),
        (13, [], 10, 10),
        (10, [(7, 10)], 10, 10),
    ],
)
def test_a_cut_stops_before_the_image_it_would_divide(num_tokens: int, spans: list, max_tokens: int, left: int) -> None:
    assert truncated(num_tokens, spans, max_tokens) == left


@st.composite
def layouts(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], int]:
    """Tokens with images among them that each leave room for one token in a window."""
    max_tokens = draw(st.integers(2, 12))
    spans = []
    place = 0
    for gap, size in draw(st.lists(st.tuples(st.integers(0, 6), st.integers(1, max(1, max_tokens - 1))), max_size=8)):
        place += gap
        spans.append((place, place + size))
        place += size
    return place + draw(st.integers(0, 30)), spans, max_tokens


@given(layouts())
def test_each_text_token_is_a_target_once_behind_its_predecessor(layout: tuple) -> None:
    num_tokens, spans, max_tokens = layout
    in_image = {token for start, end in spans for token in range(start, end)}
    pieces = list(windows(num_tokens, spans, max_tokens))
    targets = [token for start, end in pieces for token in range(start + 1, end) if token not in in_image]
    assert targets == [token for token in range(1, num_tokens) if token not in in_image]
    for start, end in pieces:
        assert end - start <= max_tokens
        for first, last in spans:
            assert end <= first or last <= start or (start <= first and last <= end)
    shown = [span for start, end in pieces for span in spans if start <= span[0] and span[1] <= end]
    assert shown == spans
