"""Streaming order and units, on made-up groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.prepare.split import order as module
from shardkit.prepare.split.order import cut_units, shard_ends, stream_order
from shardkit.store import Dataset
from tests.prepare.builders import example, write
from tests.prepare.split.builders import split


def groups_of(components: list[int], sources: list[int]) -> SimpleNamespace:
    of_own = np.array(components, np.int64)
    first = np.array([components.index(c) if c in components else -1 for c in range(max(components, default=-1) + 1)])
    keys = np.arange(1, len(components) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return SimpleNamespace(
        of_own=of_own, first=first, rows=SimpleNamespace(keys=keys, sources=np.array(sources, np.int32))
    )


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=40))
def test_every_row_once_groups_whole_and_rows_in_their_order(rows: list[tuple[int, int]]):
    components = [c for c, _ in rows]
    groups = groups_of(components, [s for _, s in rows])
    order = stream_order(groups, np.arange(len(rows)), salt="")
    assert sorted(order.tolist()) == list(range(len(rows)))
    seen: list[int] = []
    for row in order.tolist():
        if not seen or seen[-1] != components[row]:
            assert components[row] not in seen
            seen.append(components[row])
    for component in set(components):
        own = [row for row in order.tolist() if components[row] == component]
        assert own == sorted(own)


def test_every_prefix_holds_the_sources_in_their_shares():
    sources = [0] * 600 + [1] * 300 + [2] * 100
    order = stream_order(groups_of(list(range(1000)), sources), np.arange(1000), salt="x")
    drawn = np.array(sources)[order]
    for source, share in ((0, 0.6), (1, 0.3), (2, 0.1)):
        counts = np.cumsum(drawn == source)
        assert np.abs(counts - share * np.arange(1, 1001)).max() <= 2


def test_the_salt_changes_the_order_and_nothing_else_does():
    groups = groups_of(list(range(50)), [0] * 50)
    rows = np.arange(50)
    one = stream_order(groups, rows, salt="").tolist()
    assert one == stream_order(groups, rows[::-1].copy(), salt="").tolist()
    assert one != stream_order(groups, rows, salt="y").tolist()
    assert one != sorted(one)


@pytest.mark.parametrize(
    ("sizes", "components", "expected"),
    [
        ([], [], []),
        ([5, 5], [0, 1], [(0, 2)]),
        ([5, 6], [0, 1], [(0, 1), (1, 2)]),
        ([4, 4, 4], [0, 1, 1], [(0, 1), (1, 3)]),
        ([4, 4, 4, 4], [0, 1, 1, 1], [(0, 1), (1, 3), (3, 4)]),
        ([30], [0], [(0, 1)]),
        ([1, 30, 1], [0, 0, 0], [(0, 1), (1, 2), (2, 3)]),
        ([0, 0], [0, 1], [(0, 2)]),
    ],
)
def test_units_end_between_groups_where_they_can(
    sizes: list[int], components: list[int], expected: list[tuple[int, int]]
):
    found = cut_units(np.array(sizes, np.int64), np.array(components, np.int64), unit_size=10)
    assert [(piece.start, piece.stop) for piece in found] == expected


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=40), st.integers(1, 20))
def test_units_cover_all_rows_and_only_a_large_row_exceeds_them(rows: list[tuple[int, bool]], limit: int):
    sizes = np.array([size for size, _ in rows], np.int64)
    components = np.cumsum([new for _, new in rows]).astype(np.int64) if rows else np.empty(0, np.int64)
    pieces = cut_units(sizes, components, unit_size=limit)
    assert [k for piece in pieces for k in range(piece.start, piece.stop)] == list(range(len(rows)))
    for piece in pieces:
        assert sizes[piece].sum() <= limit or piece.stop - piece.start == 1


def test_a_shard_closes_with_the_row_that_fills_it_and_with_its_unit():
    sizes = np.array([3, 3, 3, 3, 3, 3, 3], np.int64)
    assert shard_ends(sizes, [slice(0, 4), slice(4, 7)], shard_size=6) == [2, 4, 6, 7]
    assert shard_ends(sizes, [slice(0, 7)], shard_size=5) == [2, 4, 6, 7]
    assert shard_ends(sizes, [slice(0, 7)], shard_size=100) == [7]
    assert shard_ends(sizes, [slice(0, 7)], shard_size=1) == [1, 2, 3, 4, 5, 6, 7]
    assert shard_ends(sizes[:0], [], shard_size=1) == []


def test_the_shards_that_are_written_end_where_the_report_counts_them(tmp_path: Path):
    rows = [example(f"{source} {k} " + "x" * (k % 60), group=f"{source} {k // 3}", source=source) for source, count in (("a", 300), ("b", 90), ("c", 15)) for k in range(count)]  # fmt: skip
    write(tmp_path / "in", rows)
    result = split(tmp_path / "in", tmp_path / "s", "train=0.8,test=0.2", shard_size=900, unit_size=5000)
    dataset = Dataset.open(tmp_path / "s")
    for name, prefix in result.report["prefixes"].items():
        shards = [shard for shard in dataset.shards if shard.split == name]
        assert prefix["shards"] == len(shards) > 5
        found = Counter()
        total = Counter(made.source for shard, _, made in dataset.examples(name))
        worst = 0.0
        for shard in shards:
            found.update(made.source for at, _, made in dataset.examples(name) if at == shard.index)
            worst = max(worst, *(abs(found[s] / found.total() - n / total.total()) for s, n in total.items()))
        assert prefix["worst_deviation"] == pytest.approx(worst, abs=1e-6)
        assert worst < 0.15, "sources are interleaved; the first shard has ten rows"


def test_small_rows_do_not_make_one_unit_of_a_million(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "UNIT_ROWS", 4)
    pieces = cut_units(np.ones(10, np.int64), np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2]), unit_size=100)
    assert pieces == [slice(0, 3), slice(3, 5), slice(5, 9), slice(9, 10)]
