"""PaddleOCR lists: texts, polygons, several pictures, and token ids."""

from __future__ import annotations

import json

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.ingest.formats import paddleocr
from shardkit.prepare.ingest.label_vocab import vocabulary_digest
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest import generate_paddleocr
from tests.prepare.ingest.builders import config, picture, reader, record
from tests.prepare.ingest.runs import Ingested


def drafts(tmp_path, line: str):
    return list(paddleocr.drafts(record(line, "4"), config(format="paddleocr"), reader(tmp_path)))


def test_the_first_tab_parts_path_and_text_and_spaces_belong_to_it(tmp_path):
    (draft,) = drafts(tmp_path, "a b.png\t two\tparts ")
    assert (draft.images[0].path, draft.segments[1].text, draft.position) == ("a b.png", " two\tparts ", "4")


def test_several_pictures_of_one_text_are_as_many_examples(tmp_path):
    got = drafts(tmp_path, '["a.png", "b.png"]\tsame')
    assert [(d.images[0].path, d.position, d.segments[1].text) for d in got] == [
        ("a.png", "4#1", "same"), ("b.png", "4#2", "same"),
    ]  # fmt: skip


def test_ids_in_place_of_a_text_are_labels_of_the_picture(tmp_path):
    (draft,) = drafts(tmp_path, "00199980.jpg 107 423 47")
    assert (draft.images[0].path, draft.images[0].ocr_labels) == ("00199980.jpg", (107, 423, 47))
    assert [segment.kind for segment in draft.segments] == ["image"]


def test_a_vocabulary_spells_ids_out_and_is_part_of_the_recipe(tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("x\ny\n<space>", encoding="utf-8")
    settings = config(format="paddleocr", label_vocab=vocab)
    (draft,) = paddleocr.drafts(record("a.png 2 3 1"), settings, reader(tmp_path))
    assert (draft.segments[1].text, draft.images[0].ocr_labels) == ("y x", (2, 3, 1))
    with pytest.raises(Bad, match="id 4"):
        list(paddleocr.drafts(record("a.png 4"), settings, reader(tmp_path)))
    digest = vocabulary_digest(vocab)
    assert settings.recipe(source="s", on_missing_image="fail", label_vocab=digest)["label_vocab"] == digest
    assert "label_vocab" not in settings.recipe(source="s", on_missing_image="fail")


@pytest.mark.parametrize("data", [None, b"", b"gr\xfcn"])
def test_a_vocabulary_that_cannot_be_used_is_a_config_error(tmp_path, data):
    path = tmp_path / "vocab.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"vocab\.txt"):
        vocabulary_digest(path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a.png two words", "bad_label"),
        ("a.png\t", "empty_text"),
        ("a.png\t[]", "empty_text"),
        ('a.png\t[{"transcription": "x"', "invalid_json"),
        ('a.png\t[{"points": [[1, 1], [2, 2]]}]', "null_text"),
        ('a.png\t[{"transcription": 3}]', "wrong_type"),
        ("[1, 2]\ttext", "image_value"),
    ],
)
def test_a_line_is_excluded_for_its_own_reason(tmp_path, line, reason):
    with pytest.raises(Bad) as bad:
        drafts(tmp_path, line)
    assert bad.value.reason == reason


def test_a_text_that_begins_like_a_list_is_a_text(tmp_path):
    (draft,) = drafts(tmp_path, "a.png\t[1] see below")
    assert draft.segments[1].text == "[1] see below"


@pytest.mark.parametrize("kind", ["paddleocr", "ocr"])
@pytest.mark.parametrize("as_folder", [True, False])
def test_twenty_pages_of_which_one_is_broken(tmp_path, kind, as_folder):
    path = generate_paddleocr.write(tmp_path / "in", 20)
    got = Ingested(tmp_path / "out", kind, tmp_path / "in" if as_folder else path)
    assert got.counts == (20, 19, 1)
    assert got.exclusions == {"8": "invalid_json"}
    assert got.rows["3"].text == "line 3\nno box"
    assert got.layout("3") == [
        ("line", "line 3", (1.0, 1.0, 30.0, 2.0, 30.0, 9.0, 1.0, 8.0), None, 0),
        ("line", None, (1.0, 12.0, 30.0, 12.0, 30.0, 19.0, 1.0, 19.0), None, 1),
        ("line", "no box", (), None, 2),
    ]
    assert got.changes == {"box_unusable": 19, "illegible_text": 19}
    assert got.metadata("3") == {
        "image": "pages/p3.png", "line_fields": [{"difficult": False}, {"difficult": True}, {}],
    }  # fmt: skip


def test_the_notes_of_a_labelling_tool_are_no_labels(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.png").write_bytes(picture(1))
    (folder / "Label.txt").write_text("in/a.png\tread\n")
    (folder / "fileState.txt").write_text("/home/me/in/a.png\t1\n")
    got = Ingested(tmp_path / "out", "paddleocr", folder, images=(tmp_path,))
    assert got.counts == (1, 1, 0)
    assert got.rows["1"].segments[1].text == "read"


def test_a_list_named_with_its_pictures_is_still_a_list(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(picture())
    (tmp_path / "in" / "rec_gt.txt").write_bytes(b"\xef\xbb\xbfa.png\tone\r\n\r\nb.png\ttwo\xff\n")
    got = Ingested(tmp_path / "out", "ocr", tmp_path / "in" / "rec_gt.txt")
    assert ({position: row.text for position, row in got.rows.items()}, got.exclusions) == (
        {"1": "one"}, {"3": "invalid_utf8"},
    )  # fmt: skip
    assert got.changes == {"blank_line": 1, "byte_order_mark": 1, "crlf_line": 2}


@pytest.mark.parametrize("kind", ["paddleocr", "ocr"])
def test_the_real_lines_whose_labels_are_ids(shared, tmp_path, kind):
    folder = shared / "data" / "ocr_lines_zh"
    wanted = {
        row["image"].removeprefix("images/"): (tuple(row["ids"]), row["text"].replace("<space>", " "))
        for row in map(json.loads, (folder / "lines.jsonl").read_text(encoding="utf-8").splitlines())
    }
    got = Ingested(tmp_path / "out", kind, folder, images=(folder / "images",), label_vocab=folder / "label_cn.txt")
    assert got.counts == (11, 11, 0)
    assert {row.images[0].path: (row.images[0].ocr_labels, row.text) for row in got.examples} == wanted


def test_paths_that_begin_with_the_folder_of_their_list_are_found(tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "a.png").write_bytes(picture(1))
    (folder / "Label.txt").write_text("scans/a.png\tone\nscans\\a.png\ttwo\nother/a.png\tthree\n")
    got = Ingested(tmp_path / "out", "paddleocr", folder)
    assert {position: row.text for position, row in got.rows.items()} == {"1": "one", "2": "two"}
    assert got.exclusions == {"3": "asset_missing"}
