"""Pictures by their vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.media.load import load
from shardkit.prepare.decontaminate.vectors import Embeddings, alike
from shardkit.store import Dataset
from tests.prepare.builders import example
from tests.prepare.decontaminate.builders import decontaminate, jsonl, photo, words, write


def save(path: Path, ids: list[str], vectors: list[list[float]], name: str = "asset_id") -> Path:
    kind = pa.list_(pa.float32(), len(vectors[0]))
    pq.write_table(pa.table({name: pa.array(ids), "vector": pa.array(vectors, kind)}), path)
    return path


def given(path: Path, threshold: float = 0.9) -> Embeddings:
    return Embeddings(paths=(path,), column=None, threshold=threshold)


def test_pairs_are_those_of_all_cosines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shardkit.prepare.decontaminate.vectors._ROWS", 7)
    draw = np.random.default_rng(3)
    vectors = draw.normal(size=(60, 3))
    vectors[40:50] = vectors[:10] + 0.05 * draw.normal(size=(10, 3))
    ids = [f"{k + 1:064x}"[::-1] for k in range(60)]
    file = save(tmp_path / "v.parquet", ids, vectors.tolist())
    keys = np.array([int(one[:16], 16) for one in ids], np.uint64)
    image, picture, score = alike(keys[:10], keys[20:55], given(file, 0.9))
    length = np.linalg.norm(vectors, axis=1)
    cosines = vectors[20:55] @ vectors[:10].T / length[20:55, None] / length[:10]
    assert set(zip(image.tolist(), picture.tolist(), strict=True)) == set(zip(*np.nonzero(cosines >= 0.9), strict=True))
    assert len(image) >= 10
    assert np.abs(score - cosines[image, picture]).max() < 0.001


def test_a_picture_of_near_vector_goes(tmp_path: Path):
    (tmp_path / "1.png").write_bytes(photo(1))
    bench = jsonl(tmp_path / "shown.jsonl", [{"image": "1.png"}])
    rows = [example(words(k, 9), photo(10 + k)) for k in range(3)]
    write(tmp_path / "a", rows)
    ids = [load(photo(1)).asset_id, *(row.images[0].asset_id for row in rows)]
    file = save(tmp_path / "v.parquet", ids, [[1, 0, 0], [0, 1, 0], [0.99, 0.05, 0], [0.5, 0.5, 0]])
    result = decontaminate(tmp_path / "c", tmp_path / "a", bench, embeddings=(file,), self_test=False)
    assert result.counts["excluded_by_reason"] == {"contaminated_image": 1}
    (found,) = Dataset.open(tmp_path / "c").table("evidence").to_pylist()
    assert (found["measure"], found["example_id"], round(found["score"], 3)) == ("embedding", rows[1].example_id, 0.999)
    recipe = Dataset.open(tmp_path / "c").recipe
    assert recipe["embeddings"]["threshold"] == 0.95
    assert (
        decontaminate(None, tmp_path / "a", bench, embeddings=(file,), embedding_threshold=0.7).counts["excluded"] == 2
    )
    assert decontaminate(None, tmp_path / "a", bench).counts["excluded"] == 0


def test_files_that_cannot_serve(tmp_path: Path):
    key = np.array([5], np.uint64)
    examples = save(tmp_path / "e.parquet", ["0" * 32], [[1.0]], "example_id")
    with pytest.raises(SourceError, match="none of the 1 rows has the example_id"):
        alike(key, key, given(examples))
    pq.write_table(pq.read_table(examples).slice(0, 0), examples)
    with pytest.raises(ConfigError, match="by the column asset_id"):
        alike(key, key, given(examples))
    with pytest.raises(SourceError, match="none of the 1 rows"):
        alike(key, key, given(save(tmp_path / "o.parquet", ["7" * 64], [[1.0]])))
    with pytest.raises(ConfigError, match="there is no such file"):
        decontaminate(None, tmp_path / "a", tmp_path / "b", embeddings=(tmp_path / "none.parquet",))
