"""DocBank pages: tokens on a grid become words in pixels, runs of one label regions."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import docbank
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import picture
from tests.prepare.ingest.runs import Ingested


def token(text: str, x0: int, y0: int, x1: int, y1: int, label: str) -> str:
    return f"{text}\t{x0}\t{y0}\t{x1}\t{y1}\t0\t0\t0\tCMR10\t{label}\n"


PAGE = (
    token("A", 100, 100, 200, 150, "title")
    + token("title", 250, 100, 500, 150, "title")
    + token("##LTLine##", 100, 160, 900, 160, "figure")
    + token("##LTFigure##", 500, 500, 900, 900, "figure")
    + token("Words.", 100, 200, 300, 250, "paragraph")
)


def test_runs_of_a_label_are_regions_and_their_words_lie_in_pixels_of_the_picture(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "7.tar_1611.07901.gz_name_with_parts_12.txt").write_text(PAGE, encoding="utf-8")
    (tmp_path / "in" / "7.tar_1611.07901.gz_name_with_parts_12_ori.jpg").write_bytes(picture(0, (200, 400), "JPEG"))
    (tmp_path / "in" / "7.tar_1611.07901.gz_name_with_parts_12_ann.jpg").write_bytes(picture(1, (200, 400), "JPEG"))
    got = Ingested(tmp_path / "out", "docbank", tmp_path / "in")
    stem = "7.tar_1611.07901.gz_name_with_parts_12"
    assert got.counts == (1, 1, 0)
    assert got.rows[stem].text == "A title\nWords."
    assert got.layout(stem) == [
        ("region", None, (20.0, 40.0, 100.0, 60.0), None, 0),
        ("word", "A", (20.0, 40.0, 40.0, 60.0), 0, 0),
        ("word", "title", (50.0, 40.0, 100.0, 60.0), 0, 1),
        ("region", None, (20.0, 80.0, 60.0, 100.0), None, 1),
        ("word", "Words.", (20.0, 80.0, 60.0, 100.0), 3, 2),
        ("region", None, (100.0, 200.0, 180.0, 360.0), None, None),
    ]
    assert got.metadata(stem) == {
        "document_id": "1611.07901", "page": 12, "region_labels": ["title", "paragraph"],
    }  # fmt: skip
    assert got.rows[stem].group == "1611.07901"
    assert got.changes == {"object_marks": 2}


def test_the_whole_set_keeps_texts_and_pictures_in_folders_of_their_own(tmp_path):
    for folder, name, data in (
        ("DocBank_500K_txt", "1.tar_1801.00001.gz_x_0.txt", PAGE.encode()),
        ("DocBank_500K_ori_img", "1.tar_1801.00001.gz_x_0_ori.jpg", picture(0, (50, 50), "JPEG")),
    ):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / name).write_bytes(data)
    got = Ingested(tmp_path / "out", "docbank", tmp_path / "in")
    assert list(got.rows) == ["1.tar_1801.00001.gz_x_0"]


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        (PAGE + "cut\t1\t2", "bad_label", "line 6 has 3 of 10"),
        (PAGE.replace("\t100\t200\t", "\tx\t200\t"), "bad_label", "has no box"),
        (PAGE.replace("\t100\t200\t", "\t--1\t200\t"), "bad_label", "has no box"),
        (token("##LTFigure##", 1, 1, 2, 2, "figure"), "empty_text", "no token"),
    ],
)
def test_a_page_that_is_not_what_it_must_be_is_excluded(text, reason, says):
    with pytest.raises(Bad, match=says) as bad:
        docbank.read(text.encode(), Counter())
    assert bad.value.reason == reason


@pytest.mark.parametrize("kind", ["docbank", "ocr"])
def test_the_real_pages(shared, tmp_path, kind):
    got = Ingested(tmp_path / "out", kind, shared / "data" / "ocr_pages_docbank")
    assert got.counts == (10, 10, 0)
    assert got.num_items("word") + got.changes["object_marks"] == 3447
    assert got.changes["object_marks"] == 222
    assert {row.group for row in got.rows.values()} >= {"1611.00049", "1804.08410"}
    first = got.rows["211.tar_1611.00049.gz_NNLLpaper_14"].images[0]
    assert all(
        0 <= x <= first.width and 0 <= y <= first.height
        for item in first.layout or ()
        for x, y in zip(item.polygon[0::2], item.polygon[1::2], strict=True)
    )


def test_blank_lines_are_nothing_and_tokens_without_a_sign_are_no_words():
    row = "{}\t1\t1\t2\t2\t0\t0\t0\tCMR10\ttitle\n"
    changes: Counter[str] = Counter()
    label = docbank.read(f"{row.format('A')}\n{row.format('')}{row.format('B')}\n\n".encode(), changes)
    assert (label.text, changes) == ("A B", {"word_blank": 1})


def test_a_page_is_known_by_a_first_token_that_begins_outside_of_it():
    assert docbank.is_page("##LTFigure##\t-3\t0\t5\t5\t0\t0\t0\tdefault\tfigure\n")
    assert not docbank.is_page("a\t-\t0\t5\t5\t0\t0\t0\tdefault\tfigure\n")
