"""Look-ups in a column of numbers: the same before and after it was sorted, and the same as a plain search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardkit.prepare.lineage.numbers import Numbers

NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 5)


@given(st.lists(NUMBERS, max_size=30), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))
def test_ranges_and_values_are_found_in_the_order_of_the_rows(values: list[int], asked: list[tuple[int, int]]) -> None:
    column = Numbers(np.array(values, np.uint64))
    for low, high in [*asked, *((value, value) for value in values)]:
        expected = [row for row, value in enumerate(values) if low <= value <= high]
        assert column.between(low, high) == expected
        assert column.equal([low, high]) == [[r for r, v in enumerate(values) if v == one] for one in (low, high)]


def test_many_values_at_once() -> None:
    column = Numbers(np.array([7, 3, 7, 2**64 - 1], np.uint64))
    assert column.equal([7, 5, 2**64 - 1, 7, 3, 0]) == [[0, 2], [], [3], [0, 2], [1], []]
    assert column.equal([]) == []
    assert len(column) == 4
