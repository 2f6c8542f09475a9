"""Benchmarks as they come: headers, answers, images, and rows that cannot be used."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.decontaminate.bench import read
from shardkit.prepare.decontaminate.config import Benchmark
from shardkit.prepare.decontaminate.items import Bench
from tests.prepare.builders import png
from tests.prepare.decontaminate.builders import jsonl, photo


def read_one(path: Path, workers: int = 1, **fields: str) -> Bench:
    return read(Benchmark(name="b", path=path), fields=fields, workers=workers)


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"answer": "x"}, ("x",)),
        ({"answers": ["x", "y", "x", " "]}, ("x", "y")),
        ({"label": 7}, ("7",)),
        ({"answer": 2.5}, ("2.5",)),
        ({"answer": True}, ("yes",)),
        ({"answers": {"text": ["in 1969", "1969"], "answer_start": [1, 4]}}, ("in 1969", "1969")),
        ({"answers": [{"answer": "red", "confidence": "yes"}, {"answer": "dark red"}]}, ("red", "dark red")),
        ({"answer": 1, "choices": ["cat", "dog"]}, ("dog",)),
        ({"answer": "B", "options": ["cat", "dog"]}, ("dog",)),
        ({"answer": "E", "options": ["cat", "dog"]}, ("E",)),
        ({"answer": None}, ()),
        ({}, ()),
    ],
)
def test_answers_in_all_their_forms(tmp_path: Path, row: dict, answers: tuple[str, ...]):
    bench = read_one(jsonl(tmp_path / "b.jsonl", [{"question": "what?", **row}]))
    assert [(item.label, item.question, item.answers) for item in bench.items] == [("1", "what?", answers)]


def test_images_by_path_bytes_address_and_object(tmp_path: Path):
    (tmp_path / "pics").mkdir()
    (tmp_path / "pics" / "1.png").write_bytes(png(1))
    code = base64.b64encode(png(2)).decode()
    rows = [{"image": "pics/1.png"}, {"images": [f"data:image/png;base64,{code}"]}, {"image": {"bytes": code}}]
    bench = read_one(jsonl(tmp_path / "b.jsonl", rows))
    one, two, three = (item.pictures[0] for item in bench.items)
    assert one.pixel_id != two.pixel_id == three.pixel_id
    table = pa.table({"image": [{"bytes": png(2), "path": "x.png"}], "qid": ["q7"]})
    pq.write_table(table, tmp_path / "b.parquet")
    (item,) = read_one(tmp_path / "b.parquet").items
    assert (item.label, item.pictures[0].asset_id) == ("q7", two.asset_id)


def test_a_column_may_be_named(tmp_path: Path):
    file = jsonl(tmp_path / "b.jsonl", [{"frage": "wer?", "text": "a passage"}])
    assert [(i.question, i.context) for i in read_one(file, question="frage").items] == [("wer?", "a passage")]
    assert read_one(file).items[0].question == ""
    with pytest.raises(SourceError) as caught:
        read_one(file, question="query")
    assert caught.value.where == "b.jsonl:1"
    assert "no column 'query' for question (found: frage, text)" in caught.value.what
    assert "--bench-field" in caught.value.hint
    with pytest.raises(ConfigError, match="an item has no 'frage'"):
        read_one(file, frage="question")


def test_content_names_a_benchmark_and_neither_file_nor_compression_does(tmp_path: Path):
    rows = [{"id": f"q{k}", "question": f"what is {k}?", "answer": str(k)} for k in range(600)]
    plain = read_one(jsonl(tmp_path / "b.jsonl", rows))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress((tmp_path / "b.jsonl").read_bytes()))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet")
    assert read_one(tmp_path / "c.jsonl.gz", workers=2) == plain == read_one(tmp_path / "d.parquet")
    assert read_one(jsonl(tmp_path / "e.jsonl", rows[:-1])).digest != plain.digest
    folder = tmp_path / "folder"
    folder.mkdir()
    jsonl(folder / "2.jsonl", rows[300:])
    jsonl(folder / "1.jsonl", rows[:300])
    assert read_one(folder) == plain


def test_only_a_few_pictures_keep_their_bytes(tmp_path: Path):
    for k in range(25):
        (tmp_path / f"{k}.png").write_bytes(png(k))
    bench = read_one(jsonl(tmp_path / "b.jsonl", [{"image": f"{k}.png"} for k in range(25)]))
    assert [item.pictures[0].data is not None for item in bench.items] == [True] * 20 + [False] * 5


@pytest.mark.parametrize(
    ("lines", "where", "what"),
    [
        (['{"question": "a b"}', "{"], "b.jsonl:2", "(invalid_json)"),
        (['{"question": "a b"}', "[1]"], "b.jsonl:2", "(not_an_object)"),
        (['{"question": 7}'], "b.jsonl:1", "the question is of type int, not a text (wrong_type)"),
        (['{"image": "none.png"}'], "b.jsonl:1", "there is no file none.png (asset_missing)"),
        (['{"image": "../b.jsonl"}'], "b.jsonl:1", "(path_outside)"),
        (['{"image": "b.jsonl"}'], "b.jsonl:1", "a row of the benchmark cannot be used"),
        (
            ['{"messages": []}'],
            "b.jsonl:1",
            "no column is known as question, answer, context or image (found: messages)",
        ),
        (['{"question": "", "answer": null}'], "b.jsonl:1", "neither question, answer, context nor image"),
    ],
)
def test_a_bad_row_stops_the_run_and_is_named(tmp_path: Path, lines: list[str], where: str, what: str):
    (tmp_path / "b.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(SourceError) as caught:
        read_one(tmp_path / "b.jsonl")
    assert caught.value.where == where
    assert what in caught.value.what
    assert caught.value.hint


def test_nothing_is_no_benchmark(tmp_path: Path):
    with pytest.raises(SourceError, match="holds no item"):
        read_one(jsonl(tmp_path / "b.jsonl", []))
    with pytest.raises(SourceError, match="cannot be read"):
        read_one(tmp_path / "absent.jsonl")
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "1.png").write_bytes(photo(1))
    with pytest.raises(SourceError, match="neither a dataset nor a table"):
        read_one(tmp_path / "dump")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(SourceError) as caught:
        read_one(tmp_path / "b.parquet")
    assert caught.value.where == "b.parquet"


def test_a_label_is_the_rows_own(tmp_path: Path):
    rows = [{"question": "a", "question_id": 0}, {"question": "b", "question_id": "x"}, {"question": "c"}]
    bench = read_one(jsonl(tmp_path / "b.jsonl", rows))
    assert [item.label for item in bench.items] == ["0", "x", "3"]
    assert [item.question for item in bench.items] == ["a", "b", "c"]
