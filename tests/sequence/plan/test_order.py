"""The order of a source."""

import numpy as np
import pytest

from shardkit.digest import mix64
from shardkit.sequence.plan.mixer import mix64_array, permutation
from shardkit.sequence.plan.order import Order
from tests.sequence.plan.builders import make_lengths, random_lengths


def make_order(number=200, *, shard_rows=10, window=3, seed=5, rows=None):
    lengths = random_lengths(number, shard_rows=shard_rows)
    return Order(lengths, np.arange(number) if rows is None else rows, seed=seed, window=window), lengths


def test_the_array_mixer_is_the_mixer():
    words = np.array([0, 1, 2**63, 2**64 - 1, 12345], np.uint64)

    assert mix64_array(mix64(3, 1, "rows"), words).tolist() == [mix64(3, 1, "rows", int(word)) for word in words]


def test_golden_permutation():
    # Of (seed 0, epoch 0): an order that changes is a new order.VERSION.
    assert permutation(mix64(0, 0, "rows"), np.arange(8, dtype=np.uint64)).tolist() == [3, 6, 7, 1, 4, 2, 0, 5]


def test_a_pass_has_every_row_once():
    order, _ = make_order()

    assert sorted(order.take(0, 0, 200)) == list(range(200))
    assert order.take(0, 0, 999).tolist() == order.take(0, 0, 200).tolist()


@pytest.mark.parametrize("step", [1, 7, 30, 64])
def test_any_piece_is_the_same_as_in_the_whole(step):
    order, _ = make_order()
    whole = order.take(0, 0, 200).tolist()

    pieces = [order.take(0, start, start + step).tolist() for start in range(0, 200, step)]

    assert [row for piece in pieces for row in piece] == whole
    backwards = [order.take(0, start, start + step).tolist() for start in reversed(range(0, 200, step))]
    assert backwards[::-1] == pieces


def test_passes_and_seeds_differ_and_repeat():
    order, _ = make_order(seed=5)
    other, _ = make_order(seed=6)
    first = order.take(0, 0, 200).tolist()

    assert order.take(1, 0, 200).tolist() != first
    assert other.take(0, 0, 200).tolist() != first
    assert order.take(0, 0, 200).tolist() == first


def test_rows_are_drawn_from_a_window_of_shards():
    order, lengths = make_order(window=3)
    drawn = lengths.shard[order.take(0, 0, 200)]

    windows = [set(drawn[start : start + 30].tolist()) for start in range(0, 200, 30)]

    assert [len(shards) for shards in windows] == [3] * 6 + [2]
    assert sorted(shard for shards in windows for shard in shards) == list(range(20))
    assert len(set(drawn[:10].tolist())) > 1, "vacuous: rows of a window were not mixed"
    assert [min(shards) for shards in windows] != sorted(min(shards) for shards in windows)


def test_some_rows_of_the_data_are_an_order_of_their_own():
    rows = np.array([3, 11, 12, 57, 199])
    order, _ = make_order(rows=rows)

    assert sorted(order.take(4, 0, 5)) == rows.tolist()
    assert order.take(4, 5, 9).tolist() == []


def test_no_rows_give_nothing():
    order = Order(make_lengths([]), np.zeros(0, np.int64), seed=0, window=8)

    assert len(order) == 0
    assert order.take(0, 0, 10).tolist() == []


def test_rows_of_equal_keys_keep_one_order():
    lengths = make_lengths([5] * 40, keys=[1] * 40)

    assert Order(lengths, np.arange(40), seed=0, window=4).take(0, 0, 40).tolist() == list(range(40))
