"""Results of PaddleOCR 3: parallel lists of texts, scores and outlines."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import paddle_result
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import picture
from tests.prepare.ingest.runs import Ingested

BOX = [[1, 1], [9, 1], [9, 6], [1, 6]]
RESULT = {
    "input_path": "/data/a.png", "dt_polys": [BOX, BOX, BOX], "rec_texts": ["Zo\u00eb", " "], "rec_scores": [0.75, 2],
    "rec_polys": [BOX, BOX], "textline_orientation_angles": [0, 0],
}  # fmt: skip


@pytest.mark.parametrize("kind", ["ocr", "auto"])
@pytest.mark.parametrize(("name", "value"), [("a_res.json", RESULT), ("a.json", {"res": RESULT})])
def test_a_result_is_found_by_its_name_and_read(tmp_path, kind, name, value):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(picture())
    (tmp_path / "in" / name).write_text(json.dumps(value))
    got = Ingested(tmp_path / "out", kind, tmp_path / "in")
    box = (1.0, 1.0, 9.0, 1.0, 9.0, 6.0, 1.0, 6.0)
    assert got.layout("a") == [("line", "Zo\u00eb", box, None, 0), ("line", None, box, None, 1)]
    assert [item.confidence for item in got.rows["a"].images[0].layout] == [0.75, None]
    assert (got.rows["a"].text, got.changes["line_without_text"]) == ("Zo\u00eb", 1)


def test_boxes_serve_without_outlines_and_turned_lines_are_told():
    value = {"rec_texts": ["a"], "rec_boxes": [[1, 2, 3, 4]], "textline_orientation_angles": [180]}
    label = paddle_result.label(value, Counter())
    assert label.layout[0].polygon == (1.0, 2.0, 3.0, 4.0)
    assert label.fields == {"textline_orientation_angles": [180]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"rec_texts": ["a"], "dt_polys": [BOX, BOX]}, "bad_label"),
        ({"rec_texts": [None], "rec_polys": [BOX]}, "null_text"),
        ({"rec_texts": [7], "rec_polys": [BOX]}, "wrong_type"),
    ],
)
def test_lists_that_do_not_agree_are_excluded(value, reason):
    with pytest.raises(Bad) as bad:
        paddle_result.label(value, Counter())
    assert bad.value.reason == reason
