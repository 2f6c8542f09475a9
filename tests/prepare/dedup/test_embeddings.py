from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.dedup.embeddings import MAX_WIDTH, SCALE, Vectors, directions, read_vectors
from shardkit.prepare.dedup.keys import asset_key

A, B, C = (digit * 32 for digit in "abc")
UNITS = {
    "example_id": np.array([int(name[:16], 16) for name in (A, B, C)], np.uint64),
    "asset_id": np.sort(np.array([asset_key("1" * 64, 0), asset_key("1" * 64, 1)], np.uint64)),
}


def vectors(rows: list, kind: pa.DataType | None = None, width: int = 2) -> pa.Array:
    return pa.array(rows, pa.list_(kind or pa.float32(), width))


def write(path: Path, **columns) -> Path:
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def read(*paths: Path, column: str | None = None) -> dict[str, Vectors]:
    return read_vectors(paths, column=column, units=UNITS, scratch=paths[0].parent)


@pytest.mark.parametrize("name", ["v.parquet", "v.arrow", "v.feather"])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_vectors_lie_at_the_place_of_their_id(tmp_path, name, kind) -> None:
    numbers = {"halffloat": np.float16, "float": np.float32, "double": np.float64}[str(kind)]
    values = vectors([np.array([3, 4], numbers), np.array([-2, 0], numbers)], kind)
    found = read(write(tmp_path / name, example_id=[C, A], embedding=values))
    assert list(found) == ["example_id"]
    got = found["example_id"]
    assert got.have.tolist() == [True, False, True]
    assert got.stored.open().tolist() == [[-4000, 0], [0, 0], [2400, 3200]]
    assert got.counts == {"read": 2, "unknown": 0, "unusable": 0, "repeated": 0}


def test_an_image_is_named_by_asset_and_frame(tmp_path) -> None:
    path = write(
        tmp_path / "v.parquet",
        asset_id=["1" * 64] * 2,
        frame=pa.array([1, None], pa.int32()),
        v=vectors([[0, 1], [1, 0]]),
    )
    got = read(path)["asset_id"]
    place = UNITS["asset_id"].tolist().index(asset_key("1" * 64, 1))
    assert got.stored.open()[place].tolist() == [0, SCALE]
    assert got.stored.open()[1 - place].tolist() == [SCALE, 0]


def test_both_kinds_are_read_side_by_side(tmp_path) -> None:
    one = write(tmp_path / "a.parquet", example_id=[A], v=vectors([[1, 0]]))
    two = write(tmp_path / "b.parquet", asset_id=["1" * 64], v=vectors([[1, 0, 0]], width=3))
    found = read(two, one)
    assert {kind: got.stored.width for kind, got in found.items()} == {"example_id": 2, "asset_id": 3}


def test_what_has_no_direction_is_counted_and_has_no_vector(tmp_path) -> None:
    rows = [[0, 0], None, [float("nan"), 1], [float("inf"), 1], [None, 1], [1e300, 1e300], [5e-324, 0]]
    for number, (row, usable) in enumerate(zip(rows, [False] * 5 + [True] * 2, strict=True)):
        got = read(write(tmp_path / f"{number}.parquet", example_id=[B], v=vectors([row], pa.float64())))["example_id"]
        assert got.have.tolist() == [False, usable, False]
        assert got.counts["unusable"] == int(not usable)


def test_ids_of_other_datasets_are_counted(tmp_path) -> None:
    ids = [A, "d" * 32, "A" * 32, "short", "", None]
    got = read(write(tmp_path / "v.parquet", example_id=ids, v=vectors([[1, 0]] * 6)))["example_id"]
    assert got.have.tolist() == [True, False, False]
    assert got.counts == {"read": 6, "unknown": 5, "unusable": 0, "repeated": 0}


def test_images_with_bad_ids_are_unknown(tmp_path) -> None:
    frame = pa.array([0, 1, 7], pa.int32())
    path = write(tmp_path / "v.parquet", asset_id=["1" * 64, "zz", None], frame=frame, v=vectors([[1, 0]] * 3))
    assert read(path)["asset_id"].counts["unknown"] == 2


def test_a_file_of_another_dataset_is_an_error(tmp_path) -> None:
    path = write(tmp_path / "v.parquet", example_id=["d" * 32, "e" * 32], v=vectors([[1, 0], [0, 1]]))
    with pytest.raises(SourceError, match="none of the 2 rows has the example_id of a row of the inputs"):
        read(path)


def test_an_id_may_stand_twice_with_one_direction(tmp_path) -> None:
    one = write(tmp_path / "a.parquet", example_id=[A, A], v=vectors([[1, 0], [2, 0]]))
    two = write(tmp_path / "b.parquet", example_id=[A], v=vectors([[0.5, 0]]))
    got = read(one, two)["example_id"]
    assert got.counts == {"read": 3, "unknown": 0, "unusable": 0, "repeated": 2}
    assert got.have.tolist() == [True, False, False]


@pytest.mark.parametrize("split", [False, True])
def test_an_id_with_two_vectors_is_an_error(tmp_path, split) -> None:
    rows = [([A], [[1, 0]]), ([A], [[0, 1]])] if split else [([A, A], [[1, 0], [0, 1]])]
    paths = [
        write(tmp_path / f"{number}.parquet", example_id=ids, v=vectors(values))
        for number, (ids, values) in enumerate(rows)
    ]
    with pytest.raises(SourceError, match=f"the example_id {A} has two different vectors"):
        read(*paths)


def test_many_batches_end_at_their_places(tmp_path) -> None:
    ids = [f"{number:032x}" for number in range(1 << 64, (10_000 << 64) + 1, 1 << 64)]
    units = {"example_id": np.arange(1, 10_001, dtype=np.uint64)}
    angle = np.linspace(0, 6, 10_000)
    values = vectors(np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32).tolist())
    path = write(tmp_path / "v.arrow", example_id=ids, v=values)
    got = read_vectors([path], column=None, units=units, scratch=tmp_path)["example_id"]
    assert got.have.all()
    assert np.abs(got.stored.open() / SCALE - np.stack([np.cos(angle), np.sin(angle)], axis=1)).max() < 0.6 / SCALE


@pytest.mark.parametrize(
    ("columns", "column", "message"),
    [
        ({"id": [A], "v": vectors([[1, 0]])}, None, "has neither (columns: id, v)"),
        ({"example_id": [A], "asset_id": [A], "v": vectors([[1, 0]])}, None, "has both"),
        ({"example_id": [A], "v": [[1.0, 0.0]]}, None, "has 0 fixed-size lists of floats (columns: example_id, v)"),
        ({"example_id": [A], "v": pa.array([[1, 0]], pa.list_(pa.int32(), 2))}, None, "has 0 fixed-size lists"),
        (
            {"example_id": [A], "v": vectors([[1, 0]]), "w": vectors([[1, 0]])},
            None,
            "2 fixed-size lists of floats (v, w)",
        ),
        ({"example_id": [A], "v": vectors([[1, 0]])}, "w", "--embedding-column w: the file has no such"),
        ({"example_id": [1], "v": vectors([[1, 0]])}, None, "the column example_id is int64, not strings"),
        ({"example_id": [A], "v": vectors([[1] * (MAX_WIDTH + 1)], width=MAX_WIDTH + 1)}, None, "1 to 36864 can"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, columns, column, message) -> None:
    path = write(tmp_path / "v.parquet", **columns)
    with pytest.raises(ConfigError) as error:
        read(path, column=column)
    assert message in error.value.what
    assert error.value.where == str(path)
    assert error.value.hint


def test_one_of_several_columns_is_chosen(tmp_path) -> None:
    path = write(tmp_path / "v.parquet", example_id=[A], v=vectors([[1, 0]]), w=vectors([[0, 1]]))
    assert read(path, column="w")["example_id"].stored.open()[0].tolist() == [0, SCALE]


def test_files_of_two_widths_are_refused(tmp_path) -> None:
    one = write(tmp_path / "a.parquet", example_id=[A], v=vectors([[1, 0]]))
    two = write(tmp_path / "b.parquet", example_id=[B], v=vectors([[1, 0, 0]], width=3))
    with pytest.raises(ConfigError, match="has vectors of 2 numbers, this file of 3"):
        read(one, two)


def test_a_missing_file_and_a_damaged_one_are_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="there is no such file of vectors"):
        read(tmp_path / "none.parquet")
    path = write(tmp_path / "v.parquet", example_id=[A], v=vectors([[1, 0]]))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SourceError, match="the vectors cannot be read"):
        read(path)
    path.write_bytes(b"ARROW1 and nothing else")
    with pytest.raises(SourceError, match="the vectors cannot be read"):
        read(path)


def test_no_units_need_no_file(tmp_path) -> None:
    path = write(tmp_path / "v.parquet", example_id=pa.array([], pa.string()), v=vectors([]))
    units = {"example_id": np.empty(0, np.uint64)}
    got = read_vectors([path], column=None, units=units, scratch=tmp_path)["example_id"]
    assert got.stored.open().shape == (0, 2)


def test_stored_products_stay_exact_in_single_precision() -> None:
    rng = np.random.default_rng(0)
    steps, usable = directions(rng.normal(size=(200, 384)))
    assert usable.all()
    longest = int((steps.astype(np.int64) ** 2).sum(axis=1).max())
    assert SCALE**2 * 0.99 < longest < 2**24
    assert (SCALE + MAX_WIDTH**0.5 / 2) ** 2 <= 2**24
    exact = steps.astype(np.int64) @ steps.T.astype(np.int64)
    assert np.array_equal(steps.astype(np.float32) @ steps.T.astype(np.float32), exact)
