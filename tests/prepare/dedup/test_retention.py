from __future__ import annotations

import numpy as np
import pytest

from shardkit.prepare.dedup.clusters import Choice, Decision
from shardkit.prepare.dedup.edges import RowEdges
from shardkit.prepare.dedup.levels import LEVELS
from shardkit.prepare.dedup.retention import Dimension, decisions, everything, length_bins, printed, retention

TEXT, SEMANTIC = LEVELS.index("text"), LEVELS.index("semantic")
# rows             0     1     2     3     4
LANGUAGES = Dimension(name="language", codes=np.array([0, 0, 1, 1, 0]), values=("en", "zh", "fr"))
# text edges: 0-1 at 0.6, 2-3 at 0.9; semantic: 0-4 at 0.97
EDGES = [(0, 1, TEXT, 0.6), (2, 3, TEXT, 0.9), (0, 4, SEMANTIC, 0.97)]


def choice_of(edges: list[tuple[int, int, int, float]], num_rows: int, num_new: int) -> Choice:
    one, two, level, score = (np.array(column) for column in zip(*edges, strict=True))
    flags = np.ones(len(edges), np.bool_)
    detail = np.zeros((len(edges), 3), np.int32)
    rows = RowEdges(
        one=one, two=two, level=level.astype(np.int8), score=score, detail=detail, removes_one=flags, removes_two=flags
    )
    same = Decision(
        keeper=np.arange(num_rows), level=np.full(num_rows, -1, np.int8), via=np.full(num_rows, -1, np.int64)
    )
    return Choice(same=same, edges=rows, places=np.arange(num_rows), rank=np.arange(num_rows), num_new=num_new)


def thresholds_of(**given: float) -> np.ndarray:
    return np.array([given.get(level, 0.0) for level in LEVELS])


def test_a_row_a_level_threshold_dimension_and_value() -> None:
    decide = decisions(choice_of(EDGES, 5, 5), thresholds_of(text=0.8, semantic=0.95), 5)
    table = retention({"text": (0.5, 0.8, 1.0), "semantic": (0.9, 0.99)}, [everything(5), LANGUAGES], decide)
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("text", 0.5, "all", "all", 5, 2),
        ("text", 0.5, "language", "en", 3, 1),
        ("text", 0.5, "language", "zh", 2, 1),
        ("text", 0.8, "all", "all", 5, 3),
        ("text", 0.8, "language", "en", 3, 2),
        ("text", 0.8, "language", "zh", 2, 1),
        ("text", 1.0, "all", "all", 5, 4),
        ("text", 1.0, "language", "en", 3, 2),
        ("text", 1.0, "language", "zh", 2, 2),
        ("semantic", 0.9, "all", "all", 5, 3),
        ("semantic", 0.9, "language", "en", 3, 2),
        ("semantic", 0.9, "language", "zh", 2, 1),
        ("semantic", 0.99, "all", "all", 5, 4),
        ("semantic", 0.99, "language", "en", 3, 3),
        ("semantic", 0.99, "language", "zh", 2, 1),
    ]


def test_rows_of_references_are_not_counted() -> None:
    decide = decisions(choice_of(EDGES, 5, 4), thresholds_of(text=0.8, semantic=0.95), 4)
    # Row 4 is a reference: it takes row 0 with it, which then cannot take row 1.
    assert decide("text", 0.5).tolist() == [False, True, True, False]
    assert decide("semantic", 0.99).tolist() == [True, True, True, False]


def test_thresholds_of_the_run_are_not_moved() -> None:
    run = thresholds_of(text=0.8, semantic=0.95)
    decisions(choice_of(EDGES, 5, 5), run, 5)("text", 0.5)
    assert run.tolist() == thresholds_of(text=0.8, semantic=0.95).tolist()


def test_every_dimension_adds_up_to_all() -> None:
    rng = np.random.default_rng(0)
    edges = [
        (*sorted(rng.choice(60, 2, replace=False).tolist()), int(rng.choice([TEXT, SEMANTIC])), float(rng.random()))
        for _ in range(80)
    ]
    decide = decisions(choice_of(edges, 60, 60), thresholds_of(text=0.5, semantic=0.5), 60)
    dimensions = [
        everything(60),
        Dimension(name="source", codes=rng.integers(4, size=60), values=("a", "b", "c", "d")),
        length_bins(rng.integers(1000, size=60)),
    ]
    table = retention({"text": (0.1, 0.5, 0.9)}, dimensions, decide).to_pylist()
    kept = []
    for score in (0.1, 0.5, 0.9):
        sums = {}
        for row in table:
            if row["threshold"] == score:
                read, stayed = sums.get(row["dimension"], (0, 0))
                sums[row["dimension"]] = (read + row["read"], stayed + row["kept"])
        assert sums["all"] == sums["source"] == sums["length"]
        kept.append(sums["all"])
    assert [read for read, _ in kept] == [60, 60, 60]
    assert 0 < kept[0][1] < kept[1][1] < kept[2][1] < 60


@pytest.mark.parametrize(
    ("length", "name"),
    [
        (0, "0"),
        (1, "1"),
        (2, "2-3"),
        (3, "2-3"),
        (4, "4-7"),
        (255, "128-255"),
        (256, "256-511"),
        (2**40, "1099511627776-2199023255551"),
    ],
)
def test_lengths_are_binned_by_powers_of_two(length: int, name: str) -> None:
    dimension = length_bins(np.array([7, length]))
    assert [dimension.values[code] for code in dimension.codes] == ["4-7", name]


def test_no_rows_make_an_empty_table() -> None:
    table = retention(
        {"text": (0.5,)}, [everything(0), length_bins(np.zeros(0, np.int64))], lambda level, score: np.ones(0, np.bool_)
    )
    assert table.num_rows == 0
    assert table.column_names == ["level", "threshold", "dimension", "value", "read", "kept"]
    assert printed(table) == []


def test_the_printed_form_shows_shares() -> None:
    decide = decisions(choice_of(EDGES, 5, 5), thresholds_of(text=0.8, semantic=0.95), 5)
    table = retention({"text": (0.5, 1.0)}, [everything(5), LANGUAGES], decide)
    assert printed(table, dimensions=("all", "language"), values=1) == [
        "  kept at text    0.50    1.00",
        "  all            40.0%   80.0%",
        "  language en    33.3%   66.7%",
        "  and 1 more by language",
    ]
