"""Paired folders to the row schema, and the demo set of four images."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from shardkit.prepare.ingest import IngestConfig, run
from tests.prepare.ingest.builders import examples, picture, tiff
from tools.build_ocr_data import main


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def convert(folder, output, *words: str) -> int:
    return main(["--input", str(folder), "--output", str(output), *words])


def test_the_demo_set(capsys, tmp_path):
    assert convert(tmp_path / "demo", tmp_path / "demo.jsonl", "--demo") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'demo.jsonl'}\t4\n"
    assert [row["ocr_labels"] for row in rows(tmp_path / "demo.jsonl")] == [[[i, i + 1, i + 2]] for i in range(4)]
    for i, row in enumerate(rows(tmp_path / "demo.jsonl")):
        assert row["text"].startswith("<image> ")
        assert (row["image_sizes"], row["reading_order"]) == ([[64, 64]], [[0, 1, 2]])
        assert row["images"] == [f"demo/demo_{i}.png"]
        with Image.open(tmp_path / row["images"][0]) as image:
            assert (image.format, image.size) == ("PNG", (64, 64))


def test_its_rows_are_ingested_as_they_stand(tmp_path):
    convert(tmp_path / "demo", tmp_path / "demo.jsonl", "--demo")
    run(IngestConfig(format="rows", paths=(tmp_path / "demo.jsonl",), output=tmp_path / "out"))
    got = examples(tmp_path / "out")
    assert [got[str(n)].images[0].ocr_labels for n in range(1, 5)] == [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)]
    assert got["1"].images[0].reading_order == (0, 1, 2)


def test_pairs_of_a_folder(capsys, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.png").write_bytes(picture(size=(12, 8)))
    (folder / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    (folder / "b.png").write_bytes(picture(1))
    (folder / "b.json").write_text('{"lines": [{"text": "x"}, {"text": "y"}], "reading_order": [1, 0]}')
    (folder / "c.png").write_bytes(picture(2))
    (folder / "d.png").write_bytes(b"no picture")
    (folder / "d.txt").write_text("d")
    (folder / "e.tif").write_bytes(tiff(2))
    (folder / "e.txt").write_text("one\ftwo")
    assert convert(folder, tmp_path / "rows.jsonl") == 0
    assert rows(tmp_path / "rows.jsonl") == [
        {"text": "<image> one\ntwo", "images": ["pages/a.png"], "image_sizes": [[8, 12]]},
        {"text": "<image> y\nx", "images": ["pages/b.png"], "image_sizes": [[8, 12]]},
    ]
    said = capsys.readouterr().err
    for line in ("left out 1: missing_label", "left out 1: not_an_image", "left out 2: several_pages"):
        assert line in said


@pytest.mark.parametrize(("folder", "output", "code"), [("nothing", "rows.jsonl", 4), ("nothing", "no/rows.jsonl", 8)])
def test_what_cannot_be_done_leaves_no_file(capsys, tmp_path, folder, output, code):
    assert convert(tmp_path / folder, tmp_path / output) == code
    assert "Next: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
