"""From files of vectors to pairs of examples and of lists of images."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.engine import silent
from shardkit.prepare.dedup.inputs import open_inputs
from shardkit.prepare.dedup.pictures import find_lists
from shardkit.prepare.dedup.signatures import sign
from shardkit.prepare.dedup.vectors import NearVectors, find_vectors
from tests.prepare.builders import example, png, write

EAST, NEAR_EAST, NORTH = [10.0, 0.0], [10.0, 1.0], [0.0, 10.0]


def vector_file(path: Path, column: str, rows: dict[str, list[float]]) -> Path:
    pq.write_table(pa.table({column: list(rows), "v": pa.array(list(rows.values()), pa.list_(pa.float32(), 2))}), path)
    return path


def near(scratch: Path, files: list[Path], *datasets: Path) -> NearVectors:
    inputs = open_inputs(datasets)
    signed = sign(inputs, ("exact",), workers=1, on_progress=silent)
    lists = find_lists(inputs, signed, transforms=frozenset(), near=False)
    return find_vectors(files, inputs, signed, lists, column=None, scratch=scratch, on_progress=silent)


def test_rows_are_found_by_their_example_id(tmp_path: Path) -> None:
    made = [example(text) for text in ("one", "two", "three", "four", "one")]
    write(tmp_path / "a", made)
    vectors = dict(zip([row.example_id for row in made], [EAST, NEAR_EAST, NORTH], strict=False))
    found = near(tmp_path, [vector_file(tmp_path / "v.parquet", "example_id", vectors)], tmp_path / "a")
    of = found.example_of.tolist()
    assert of[3] == -1
    assert of[0] == of[4]
    assert len({of[0], of[1], of[2]}) == 3
    assert [{one, two} for one, two in zip(found.examples.one.tolist(), found.examples.two.tolist(), strict=True)] == [
        {of[0], of[1]}
    ]
    assert found.examples.score.tolist() == [pytest.approx(0.995, abs=1e-3)]
    assert len(found.lists) == 0
    assert found.report == {
        "example_id": {
            "read": 3,
            "unknown": 0,
            "unusable": 0,
            "repeated": 0,
            "units": 4,
            "with_vector": 3,
            "blocks": 1,
            "crowded": 0,
        }
    }


def test_lists_are_near_when_their_images_are_one_by_one(tmp_path: Path) -> None:
    pictures = [png(number) for number in range(5)]
    made = [
        example("a", pictures[0]),
        example("b", pictures[1]),
        example("c", pictures[2]),
        example("d", pictures[0], pictures[2]),
        example("e", pictures[1], pictures[2]),
        example("f", pictures[2], pictures[1]),
        example("g", pictures[3]),
        example("h"),
    ]
    write(tmp_path / "a", made)
    ids = [row.images[0].asset_id for row in made[:3]]
    file = vector_file(tmp_path / "v.parquet", "asset_id", dict(zip(ids, [EAST, NEAR_EAST, NORTH], strict=True)))
    found = near(tmp_path, [file], tmp_path / "a")
    inputs = open_inputs((tmp_path / "a",))
    of_row = find_lists(
        inputs, sign(inputs, ("exact",), workers=1, on_progress=silent), transforms=frozenset(), near=False
    ).of_row.tolist()
    pairs = {frozenset(pair) for pair in zip(found.lists.one.tolist(), found.lists.two.tolist(), strict=True)}
    assert pairs == {frozenset((of_row[0], of_row[1])), frozenset((of_row[3], of_row[4]))}
    assert found.example_of.tolist() == [-1] * 8
    assert found.report["asset_id"]["with_vector"] == 3


def test_pairs_do_not_depend_on_the_order_of_inputs(tmp_path: Path) -> None:
    made = [example(f"text {number}") for number in range(40)]
    write(tmp_path / "a", made[:25])
    write(tmp_path / "b", made[25:])
    vectors = {row.example_id: [1.0, number / 40] for number, row in enumerate(made)}
    file = vector_file(tmp_path / "v.parquet", "example_id", vectors)
    one = near(tmp_path, [file], tmp_path / "a", tmp_path / "b")
    two = near(tmp_path, [file], tmp_path / "b", tmp_path / "a")
    assert one.examples.one.tobytes() == two.examples.one.tobytes()
    assert one.examples.score.tobytes() == two.examples.score.tobytes()
    assert len(one.examples) > 40


def test_without_vectors_there_are_no_pairs() -> None:
    nothing = NearVectors.none(3)
    assert (len(nothing.examples), len(nothing.lists), nothing.example_of.tolist()) == (0, 0, [-1, -1, -1])
