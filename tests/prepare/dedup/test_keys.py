from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.prepare.dedup.keys import (
    asset_key,
    asset_keys,
    dense,
    hex_id,
    leading,
    look_up,
    place_keys,
    repeated,
    words,
)


def test_ids_become_words_and_back():
    one, two = "00ff" * 8, "fedcba9876543210" * 2
    pairs = words([one, two], 2)
    assert [hex_id(pair) for pair in pairs] == [one, two]
    assert pairs[1].tolist() == [0xFEDCBA9876543210] * 2
    assert words([], 2).shape == (0, 2)


def test_leading_bits_of_a_column():
    column = pa.chunked_array([["0123456789abcdef" + "0" * 16, None], []], pa.string())
    assert leading(column).tolist() == [0x0123456789ABCDEF, 0]


def test_the_value_of_a_known_key_is_that_of_the_first_and_of_another_key_there_is_none():
    known, values = np.array([2, 5, 5, 9], np.uint64), np.array([20, 50, 51, 90])
    assert look_up(np.array([5, 1, 9, 10, 2], np.uint64), known, values).tolist() == [50, -1, 90, -1, 20]
    assert look_up(np.array([5, 1], np.uint64), known[:0], values[:0]).tolist() == [-1, -1]
    assert look_up(known[:0], known, values).tolist() == []


def test_places_are_ordered_by_shard_then_by_row():
    shards, rows = np.array([0, 0, 1], np.int32), np.array([7, 2**31 - 1, 0], np.int32)
    assert place_keys(shards, rows).tolist() == [7, 2**31 - 1, 2**32]


def test_frames_have_keys_of_their_own():
    asset = "ab" * 32
    table = pa.table({"asset_id": [asset, asset, None], "frame": pa.array([0, 1, None], pa.int32())})
    assert asset_keys(table).tolist() == [asset_key(asset, 0), asset_key(asset, 1), 0]
    assert asset_key(asset, 0) != asset_key(asset, 1)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans())))
def test_repeated_finds_groups_with_a_wanted_row(rows: list[tuple[int, bool]]):
    keys = np.array([key for key, _ in rows], np.uint64)
    wanted = np.array([flag for _, flag in rows], np.bool_)
    expected = [
        key != 0 and sum(k == key for k, _ in rows) > 1 and any(w for k, w in rows if k == key) for key, _ in rows
    ]
    assert repeated(keys, wanted).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2))))
def test_dense_numbers_are_equal_where_digests_are(pairs: list[tuple[int, int]]):
    numbers = dense(np.array(pairs, np.uint64).reshape(-1, 2)).tolist()
    for i, one in enumerate(pairs):
        assert (numbers[i] == -1) == (one == (0, 0))
        for j, two in enumerate(pairs):
            assert (numbers[i] == numbers[j]) == (one == two)


@pytest.mark.parametrize("widths", [(16,), (32,), (64,), (32, 64)])
@pytest.mark.parametrize("nulls", [(), (0, 5)])
def test_leading_bits_are_the_first_16_digits_however_the_column_lies(widths, nulls):
    ids = [None if k in nulls else f"{k * 7919:016x}" + "e" * (widths[k % len(widths)] - 16) for k in range(12)]
    column = pa.chunked_array([ids[:3], ids[3:], []], type=pa.string()).slice(1)
    expected = [0 if one is None else int(one[:16], 16) for one in ids[1:]]
    for kind in (column, column.cast(pa.large_string()), column.dictionary_encode()):
        assert leading(kind).tolist() == expected


def test_leading_bits_of_what_is_no_id():
    for ids in (["abc"], ["a" * 32, "b" * 10], ["g" * 32]):
        with pytest.raises(ValueError, match="digit"):
            leading(pa.chunked_array([ids]))
    assert leading(pa.chunked_array([], pa.string())).tolist() == []
