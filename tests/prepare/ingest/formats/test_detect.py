"""auto: rows by their fields, pictures by what lies beside them, and what is ambiguous."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig, resolved, run
from shardkit.prepare.ingest.formats import SOURCES
from shardkit.prepare.ingest.formats.detect import FAMILIES, RULES, TIERS
from tests.prepare.ingest.builders import jsonl, packed, picture, tar

TURNS = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def found(*paths) -> str:
    return resolved(IngestConfig(format="auto", paths=paths, output=None)).format


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        ([{"text": "a"}], "text"),
        ([{"text": "a", "images": None, "ocr_labels": None}], "text"),
        ([{"text": "a", "images": []}], "rows"),
        ([{"text": "a", "ocr_labels": [1]}], "rows"),
        ([{"text": "a"}] * 999 + [{"text": "<image>", "images": ["x.png"]}], "rows"),
        ([{"text": "a"}] * 1000 + [{"text": "<image>", "images": ["x.png"]}], "text"),
        ([{"text": "a", "url": "https://host/page.html", "timestamp": "2020"}], "text"),
        ([{"url": "https://host/a", "TEXT": "a", "NSFW": "UNLIKELY", "similarity": 0.3}], "caption"),
        ([{"image": "a.jpg", "text": "a"}], "caption"),
        ([{"file_name": "a.png", "text": "a"}], "caption"),
        ([{"images": [None], "texts": ["a"]}], "obelics"),
        ([{"text_list": ["a"], "image_info": []}], "mmc4"),
        ([{"conversations": TURNS}], "chat"),
        ([{"messages": TURNS}], "chat"),
        ([{"chosen": TURNS, "rejected": TURNS}], "chat"),
        ([{"prompt": "q", "chosen": "a", "rejected": "b"}], "chat"),
        ([{"instruction": "q", "input": "", "output": "a"}], "chat"),
        ([{"text": "a"}, {"conversations": TURNS}], "chat"),
        ([{"images": [None], "texts": [{"user": "q", "assistant": "a"}]}], "chat"),
        ([{"conversation": TURNS, "model": "m"}], "chat"),
        ([{"image": "a.png", "question": "q", "answer": "a"}], "chat"),
        ([{"prompt": "q", "completion": "a"}], "chat"),
        ([{"prompt": {"text": "q", "role": "prompter", "replies": [{"text": "a", "role": "assistant"}]}}], "chat"),
        ([{"text": "a", "question": "q", "answer": "a"}], "text"),
    ],
)
def test_rows_by_their_fields(tmp_path, rows, name):
    (tmp_path / "rows.jsonl").write_bytes(b"\xef\xbb\xbf" + jsonl(rows) + b"{broken\n")
    (tmp_path / "rows.jsonl.gz").write_bytes(packed(jsonl(rows)))
    assert found(tmp_path / "rows.jsonl") == name
    assert found(tmp_path / "rows.jsonl.gz") == name
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    if len({tuple(row) for row in rows}) == 1:
        assert found(tmp_path / "rows.parquet") == name


def folder(tmp_path, **files: bytes):
    (tmp_path / "in").mkdir()
    for name, data in files.items():
        stem, _, end = name.rpartition("_")
        (tmp_path / "in" / f"{stem}.{end.replace('0', '.')}").write_bytes(data)
    return tmp_path / "in"


def tif() -> bytes:
    out = io.BytesIO()
    Image.new("L", (8, 8)).save(out, "TIFF")
    return out.getvalue()


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"a_png": b"", "a_gt0txt": b"line"}, "ocr"),
        ({"a_tif": b"", "a_txt": b"line"}, "ocr"),
        ({"a_png": b"", "a_json": b'{"lines": [{"text": "x"}]}'}, "ocr"),
        ({"a_png": b"", "a_caption": b"a cat"}, "caption"),
        ({"a_png": b"", "a_caption": b"a cat", "b_png": b"", "b_txt": b"a dog"}, "caption"),
        ({"a_png": b"", "a_json": b'{"caption": "a cat", "url": "u"}'}, "caption"),
        ({"a_png": b"", "a_csv": b"image,caption\na.png,x\n"}, "caption"),
        ({"a_md": b"x"}, "markdown"),
        ({"a_html": b"<p>x", "readme_md": b"about"}, "html"),
        ({"a_html": b"<div class='ocr_page' title='image a.png'>", "a_png": b""}, "hocr"),
        ({"a_txt": b"x", "SOURCE_md": b"about"}, "text"),
        ({"a_xml": b"<?xml version='1.0'?><!-- <PcGts> --><alto:alto xmlns:alto='x'>", "a_png": b""}, "alto"),
    ],
)
def test_files_by_what_lies_beside_them(tmp_path, files, name):
    made = {key: data or (tif() if key.endswith("tif") else picture()) for key, data in files.items()}
    assert found(folder(tmp_path, **made)) == name


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({"a_png": b"", "a_txt": b"a cat"}, "ocr and caption"),
        ({"a_md": b"x", "b_html": b"<p>x"}, r"markdown \(a.md\) and html \(b.html\)"),
        ({"a_jsonl": jsonl([{"messages": TURNS}, {"images": [], "texts": []}])}, "obelics and chat"),
    ],
)
def test_what_may_be_two_things_is_refused_and_both_are_named(tmp_path, files, names):
    made = {key: data or picture() for key, data in files.items()}
    with pytest.raises(SourceError, match=names) as error:
        found(folder(tmp_path, **made))
    assert names.split()[0] in error.value.hint


def test_files_that_show_different_formats_are_named(tmp_path):
    files = {
        "train_txt": b"a.png\thello\n",
        "lines_jsonl": jsonl([{"image": "a.png", "text": "hello"}]),
        "a_png": picture(),
    }
    with pytest.raises(SourceError) as error:
        found(folder(tmp_path, **files))
    assert "formats paddleocr (train.txt) and caption (lines.jsonl)" in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_files_in_wide_characters_are_looked_into(tmp_path, encoding):
    page = "<PcGts><Page imageFilename='a.png' imageWidth='12' imageHeight='8'/></PcGts>".encode(encoding)
    assert found(folder(tmp_path, a_xml=page, a_png=picture())) == "page"


@pytest.mark.parametrize("files", [{"a_pgm": b"P5", "a_gt0txt": b"x"}, {"a_JP2": b"x", "a_txt": b"x", "b_txt": b"y"}])
def test_texts_do_not_go_without_pictures_that_nothing_would_look_for(tmp_path, files):
    with pytest.raises(SourceError, match="no known format") as error:
        found(folder(tmp_path, **files))
    assert "link them as .png" in error.value.hint
    (tmp_path / "in" / "a.gt.txt").unlink(missing_ok=True)
    (tmp_path / "in" / "a.txt").unlink(missing_ok=True)
    (tmp_path / "in" / "c.txt").write_text("z")
    assert found(tmp_path / "in") == "text"


def test_several_dialects_in_one_folder_are_read_by_the_format_that_reads_all(tmp_path):
    files = {"a_xml": b"<alto>", "b_xml": b"<PcGts>", "a_png": picture(1), "b_png": picture(2)}
    assert found(folder(tmp_path, **files)) == "ocr"


def test_tars(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar([("1.jpg", b"x"), ("1.txt", b"y")]))
    assert found(tmp_path / "a.tar") == "webdataset"
    (tmp_path / "b.tar").write_bytes(tar([("1.jpg", b"x")])[:700])
    with pytest.raises(SourceError, match="cut off"):
        found(tmp_path / "b.tar")


@pytest.mark.parametrize("data", [b"", b"\0\1\2"])
def test_what_shows_nothing_is_refused(tmp_path, data):
    (tmp_path / "file.bin").write_bytes(data)
    with pytest.raises(SourceError, match="no known format"):
        found(tmp_path / "file.bin")


def test_what_keeps_the_only_table_from_being_read_is_said(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json.dumps({"text": "a"}).encode("utf-16"))
    with pytest.raises(SourceError, match="UTF-16"):
        found(tmp_path / "a.jsonl")


def test_auto_gives_the_dataset_of_the_format(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(jsonl([{"text": "a"}]))
    ask = {"paths": (tmp_path / "rows.jsonl",), "output": tmp_path / "out"}
    first = run(IngestConfig(format="auto", **ask))
    second = run(IngestConfig(format="text", **ask))
    assert second.unchanged
    assert first.dataset == second.dataset


def test_every_rule_stands_in_one_tier():
    names = [name for tier in TIERS for name in tier]
    assert sorted(names) == sorted(RULES)
    assert set(FAMILIES) | set(FAMILIES.values()) <= set(RULES)
    assert set(RULES) <= set(SOURCES)
