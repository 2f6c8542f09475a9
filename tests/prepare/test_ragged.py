"""Rows laid end to end: where each begins, and what its values add up to."""

from __future__ import annotations

import numpy as np

from shardkit.prepare.ragged import bounds_of, row_sums


def test_bounds_and_sums_of_rows_of_which_some_are_empty():
    bounds = bounds_of(np.array([2, 0, 3], np.int32))
    assert bounds.tolist() == [0, 2, 2, 5]
    assert row_sums(bounds, np.array([1, 2, 3, 4, 5], np.int32)).tolist() == [3, 0, 12]
    assert row_sums(bounds, np.array([True, False, True, True, False])).tolist() == [1, 0, 2]
    assert row_sums(bounds_of(np.empty(0, np.int64)), np.empty(0, np.int64)).tolist() == []


def test_sums_do_not_overflow_the_type_of_the_values():
    assert row_sums(np.array([0, 2]), np.array([2**31 - 1, 1], np.int32)).tolist() == [2**31]
