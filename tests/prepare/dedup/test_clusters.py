"""Who keeps whom, on small arrays, and beside a slow reference."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardkit.prepare.dedup.clusters import decide, stars

NONE = -1


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def flags(*values: int) -> np.ndarray:
    return np.array(values, np.bool_)


def test_the_best_rank_stays():
    decision = decide({"exact": ints(0, 0, 1, 0)}, {"exact": flags(1, 1, 1, 1)}, ints(2, 0, 1, 3))
    assert decision.keeper.tolist() == [1, 1, 2, 1]
    assert decision.level.tolist() == [0, -1, -1, 0]
    assert decision.removed.tolist() == [0, 3]


def test_the_strictest_level_that_holds_is_recorded():
    # 0 and 1 have equal bytes, 2 the same pixels; 2 is best.
    equal = {"exact": ints(0, 0, NONE), "pixel": ints(5, 5, 5)}
    decision = decide(equal, {"exact": flags(1, 1, 1), "pixel": flags(1, 1, 1)}, ints(1, 2, 0))
    assert decision.keeper.tolist() == [2, 2, 2]
    assert decision.level.tolist() == [1, 1, -1]


def test_a_row_that_may_not_go_is_preferred_as_keeper_whatever_its_rank():
    decision = decide({"text": ints(0, 0, 0)}, {"text": flags(1, 0, 1)}, ints(0, 2, 1))
    assert decision.keeper.tolist() == [1, 1, 1]


def test_two_rows_that_may_not_go_both_stay():
    decision = decide({"text": ints(0, 0, 0)}, {"text": flags(0, 0, 1)}, ints(1, 0, 2))
    assert decision.keeper.tolist() == [0, 1, 1]


def test_a_row_that_equals_only_a_removed_row_is_kept():
    # 0 = 1 at the first level, 1 = 2 at the second; 0 and 2 have nothing in common.
    equal = {"one": ints(0, 0, NONE), "two": ints(NONE, 1, 1)}
    decision = decide(equal, {"one": flags(1, 1, 1), "two": flags(1, 1, 1)}, ints(2, 1, 0))
    assert decision.keeper.tolist() == [0, 2, 2]


def test_nothing_in_nothing_out():
    assert decide({"one": ints()}, {"one": flags()}, ints()).removed.tolist() == []


@given(st.data())
def test_every_removed_row_equals_a_kept_one_and_kept_ones_do_not_repeat(data: st.DataObject):
    size = data.draw(st.integers(0, 12))
    levels = ("a", "b", "c")
    equal = {
        name: np.array(data.draw(st.lists(st.integers(-1, 3), min_size=size, max_size=size)), np.int64)
        for name in levels
    }
    free = {
        name: np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_) for name in levels
    }
    rank = np.array(data.draw(st.permutations(range(size))), np.int64)
    decision = decide(equal, free, rank)
    for row in range(size):
        keeper = decision.keeper[row]
        assert decision.keeper[keeper] == keeper
        if decision.level[row] >= 0:
            name = levels[decision.level[row]]
            assert free[name][row]
            assert equal[name][row] == equal[name][keeper] != NONE
        else:
            assert keeper == row


@given(st.lists(st.tuples(st.integers(-1, 3), st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_at_one_level_a_group_keeps_what_may_not_go_or_else_its_best(rows, chance):
    groups = np.array([group for group, _ in rows], np.int64)
    free = np.array([flag for _, flag in rows], np.bool_)
    rank = list(range(len(rows)))
    chance.shuffle(rank)
    decision = decide({"only": groups}, {"only": free}, np.array(rank, np.int64))
    kept = {row for row in range(len(rows)) if decision.level[row] < 0}
    for group in range(4):
        members = {row for row in range(len(rows)) if groups[row] == group}
        fixed = {row for row in members if not free[row]}
        assert kept & members == (fixed or ({min(members, key=lambda row: rank[row])} if members else set()))
    assert {row for row in range(len(rows)) if groups[row] < 0} <= kept


def test_stars_join_the_best_row_with_each_other():
    centres, others = stars(ints(7, NONE, 7, 3, 7), ints(4, 0, 1, 2, 3))
    assert list(zip(centres.tolist(), others.tolist(), strict=True)) == [(2, 4), (2, 0)]
