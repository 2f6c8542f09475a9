"""Stars of near rows: on small cases, and as properties against what the words say."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardkit.prepare.dedup.clusters import Choice, Decision, star
from shardkit.prepare.dedup.edges import RowEdges, joined
from shardkit.prepare.dedup.levels import LEVELS, PERCEPTUAL, TEXT


def edges(*rows: tuple[int, int, float, bool, bool], level: int = TEXT) -> RowEdges:
    """(one, two, score, removes one, removes two)"""
    one, two, score, ones, twos = (list(column) for column in zip(*rows, strict=True)) if rows else ([],) * 5
    return RowEdges(
        one=np.array(one, np.int64),
        two=np.array(two, np.int64),
        level=np.full(len(rows), level, np.int8),
        score=np.array(score, np.float64),
        detail=np.zeros((len(rows), 3), np.int32),
        removes_one=np.array(ones, np.bool_),
        removes_two=np.array(twos, np.bool_),
    )


def chosen(given: RowEdges, rank: list[int], num_new: int = 1000) -> list[int]:
    return star(given, np.arange(len(rank)), np.array(rank), num_new=num_new).tolist()


def test_a_chain_is_cut_where_a_row_is_not_near_the_one_that_stays():
    chain = edges(*[(k, k + 1, 0.8, True, True) for k in range(4)])
    # 0 stays and takes 1; 2 is not near 0, stays, and takes 3; 4 is near 3 alone, which went.
    assert chosen(chain, [0, 1, 2, 3, 4]) == [-1, 0, -1, 2, -1]
    # The middle is the best: it takes both neighbours, and the ends stay.
    assert chosen(chain, [4, 1, 0, 3, 2]) == [-1, 1, -1, 2, -1]


def test_a_row_that_may_not_go_is_asked_first_whatever_its_rank():
    pair = edges((0, 1, 0.9, True, False))
    assert chosen(pair, [0, 1]) == [0, -1]


def test_rows_of_a_reference_never_go():
    pair = edges((0, 1, 0.9, True, True))
    assert chosen(pair, [0, 1], num_new=1) == [0, -1]
    assert chosen(pair, [0, 1], num_new=0) == [-1, -1]


def test_a_row_that_equals_one_that_went_goes_to_the_same_keeper():
    same = Decision(keeper=np.array([0, 0, 2]), level=np.array([-1, 0, -1], np.int8), via=np.array([-1, -1, -1]))
    near = edges((0, 2, 0.9, True, True), level=PERCEPTUAL)
    choice = Choice(same=same, edges=near, places=np.arange(3), rank=np.array([1, 2, 0]), num_new=3)
    decision = choice.at(np.full(len(LEVELS), 0.8))
    assert decision.keeper.tolist() == [2, 2, 2]
    assert decision.level.tolist() == [PERCEPTUAL, PERCEPTUAL, -1]
    assert decision.via.tolist() == [0, 0, -1]
    assert choice.at(np.full(len(LEVELS), 0.95)).keeper.tolist() == [0, 0, 2]


def test_of_several_edges_between_two_rows_the_strictest_stays():
    both = joined([edges((3, 1, 0.8, True, False)), edges((1, 3, 0.7, True, True), level=PERCEPTUAL)])
    assert (both.one.tolist(), both.two.tolist()) == ([1], [3])
    assert (both.level.tolist(), both.score.tolist()) == ([PERCEPTUAL], [0.7])
    turned = joined([edges((3, 1, 0.8, True, False))])
    assert (turned.removes_one.tolist(), turned.removes_two.tolist()) == ([False], [True])


@given(st.data())
def test_every_row_that_goes_is_near_one_that_stays_and_no_two_that_stay_could_go(data: st.DataObject):
    size = data.draw(st.integers(1, 9))
    rank = data.draw(st.permutations(range(size)))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=20, unique=True))
    rows = [
        (min(p), max(p), 0.8, data.draw(st.booleans()), data.draw(st.booleans())) for p in set(pairs) if p[0] != p[1]
    ]
    given_edges = joined([edges(*rows)])
    via = chosen(given_edges, list(rank))
    stays = {row for row in range(size) if via[row] < 0}
    for row, edge in enumerate(via):
        if edge < 0:
            continue
        ends = {int(given_edges.one[edge]), int(given_edges.two[edge])}
        assert row in ends
        assert ends - {row} <= stays
        removes = given_edges.removes_one if int(given_edges.one[edge]) == row else given_edges.removes_two
        assert removes[edge]
    for one, two, ones, twos in zip(
        given_edges.one, given_edges.two, given_edges.removes_one, given_edges.removes_two, strict=True
    ):
        if {int(one), int(two)} <= stays:
            # Only where the one that could go was asked before the other, and was kept for it.
            assert not (ones and twos)
