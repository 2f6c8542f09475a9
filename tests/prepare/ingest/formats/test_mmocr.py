"""MMOCR and TextOCR documents: instances with polygons, texts to be ignored, paths of another machine."""

from __future__ import annotations

import json

import pytest

from shardkit.errors import SourceError
from tests.prepare.ingest.builders import jsonl, picture
from tests.prepare.ingest.runs import Ingested

TEXTOCR = {
    "imgs": {
        "a1": {"id": "a1", "file_name": "train/a1.jpg", "width": 40, "height": 30, "set": "train"},
        "b2": {"id": "b2", "file_name": "train/b2.jpg", "width": 40, "height": 30, "set": "train"},
    },
    "anns": {
        "a1_1": {"image_id": "a1", "utf8_string": "STOP", "points": [1, 1, 20, 1, 20, 9, 1, 9], "bbox": [1, 1, 19, 8]},
        "a1_2": {"image_id": "a1", "utf8_string": ".", "points": [1, 12, 20, 12, 20, 18, 1, 18]},
        "a1_3": {"image_id": "a1", "utf8_string": "NOW", "bbox": [2, 20, 10, 5]},
    },
    "imgToAnns": {"a1": ["a1_1", "a1_2", "a1_3"], "b2": ["missing"]},
}


def write(folder, name: str, value, *pictures: str):
    folder.mkdir(parents=True, exist_ok=True)
    for k, path in enumerate(pictures):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(picture(k, (40, 30), "JPEG"))
    (folder / name).write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder / name


@pytest.mark.parametrize("kind", ["mmocr", "ocr"])
def test_textocr(tmp_path, kind):
    path = write(tmp_path / "in", "TextOCR_0.1_train.json", TEXTOCR, "train/a1.jpg", "train/b2.jpg")
    got = Ingested(tmp_path / "out", kind, path)
    assert got.exclusions == {"train/b2.jpg": "bad_label"}
    assert got.rows["train/a1.jpg"].text == "STOP\nNOW"
    assert got.layout("train/a1.jpg") == [
        ("line", "STOP", (1.0, 1.0, 20.0, 1.0, 20.0, 9.0, 1.0, 9.0), None, 0),
        ("line", None, (1.0, 12.0, 20.0, 12.0, 20.0, 18.0, 1.0, 18.0), None, 1),
        ("line", "NOW", (2.0, 20.0, 12.0, 25.0), None, 2),
    ]
    assert got.metadata("train/a1.jpg") == {"document_id": "a1", "image": "train/a1.jpg", "set": "train"}


def test_paths_of_another_machine_end_where_the_pictures_lie(tmp_path):
    entry = {"img_path": "data/imgs/test/a.jpg", "height": 30, "width": 40, "instances": [{"text": "x"}]}
    path = write(tmp_path / "in", "textdet.json", {"data_list": [entry]}, "test/a.jpg")
    assert Ingested(tmp_path / "out", "mmocr", path).counts == (1, 1, 0)


def test_they_do_not_where_two_pictures_of_a_document_have_one_name(tmp_path):
    entries = [{"img_path": f"imgs/{part}/a.jpg", "instances": [{"text": part}]} for part in ("test", "train")]
    path = write(tmp_path / "in", "textdet.json", {"data_list": entries}, "a.jpg")
    got = Ingested(tmp_path / "out", "mmocr", path)
    assert got.exclusions == {"imgs/test/a.jpg": "asset_missing", "imgs/train/a.jpg": "asset_missing"}


def test_recognition_lines(tmp_path):
    rows = [{"filename": "a.jpg", "text": "one"}, {"filename": "b.jpg", "text": None}, {"text": "of nothing"}]
    path = write(tmp_path / "in", "label.jsonl", jsonl(rows), "a.jpg", "b.jpg")
    got = Ingested(tmp_path / "out", "mmocr", path)
    assert got.rows["1"].text == "one"
    assert got.exclusions == {"2": "null_text", "3": "missing_field"}


def test_an_entry_that_is_no_object_harms_no_neighbour(tmp_path):
    path = write(
        tmp_path / "in", "x.json", {"data_list": [3, {"img_path": "a.jpg", "instances": [{"text": "x"}]}]}, "a.jpg"
    )
    got = Ingested(tmp_path / "out", "mmocr", path)
    assert (list(got.rows), got.exclusions) == (["a.jpg"], {"entry 1": "missing_field"})


@pytest.mark.parametrize("value", [{"images": []}, [1], b"{"])
def test_a_document_of_another_kind_is_refused(tmp_path, value):
    path = write(tmp_path / "in", "x.json", value)
    with pytest.raises(SourceError, match=r"x\.json"):
        Ingested(tmp_path / "out", "mmocr", path)


@pytest.mark.parametrize("kind", ["mmocr", "ocr"])
def test_the_real_scenes(shared, tmp_path, kind):
    scenes = shared / "data" / "ocr_scene_mmocr"
    boxes = Ingested(tmp_path / "det", kind, scenes / "det")
    assert boxes.counts == (5, 5, 0)
    assert (boxes.num_items("line"), boxes.changes["illegible_text"], boxes.changes["page_without_text"]) == (27, 19, 5)
    words = Ingested(tmp_path / "rec", kind, scenes / "rec")
    assert sorted(row.text for row in words.rows.values()) == ["03/09/2009", "GRAND", "HOTEL", "HOTEL", "PACIFIC"]
    receipt = Ingested(tmp_path / "kie", kind, scenes / "kie")
    assert receipt.counts == (1, 1, 0)
    assert receipt.rows["1"].text.startswith("SAFEWAY\nTM\n")
    assert receipt.metadata("1")["line_labels"][:3] == [1, 25, 25]
    # Documents and line lists of one folder are read together.
    assert Ingested(tmp_path / "all", kind, scenes).counts == (11, 11, 0)


def test_textocr_without_lists_of_annotations_finds_them_by_their_picture(tmp_path):
    document = {
        "imgs": {"7": {"id": 7, "file_name": "a.jpg", "width": 12, "height": 8}},
        "anns": {
            "1": {"image_id": 7, "utf8_string": "STOP", "bbox": [1, 1, 4, 3]},
            "2": {"image_id": 7, "legibility": "illegible", "bbox": [5, 1, 4, 3]},
            "3": {"image_id": 8, "utf8_string": "elsewhere"},
        },
    }
    (tmp_path / "cocotext.json").write_text(json.dumps(document))
    (tmp_path / "a.jpg").write_bytes(picture(kind="JPEG"))
    got = Ingested(tmp_path / "out", "mmocr", tmp_path / "cocotext.json")
    assert got.layout("a.jpg") == [
        ("line", "STOP", (1.0, 1.0, 5.0, 4.0), None, 0), ("line", None, (5.0, 1.0, 9.0, 4.0), None, 1),
    ]  # fmt: skip
