"""Label files: which one counts, what they say together, and in which order lines are read."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from shardkit.prepare.ingest.formats.ocr_label import Label, from_object, read_label
from shardkit.prepare.ingest.reasons import Bad


def label(**files: bytes | object) -> tuple[Label, Counter[str]]:
    names = {"gt": ".gt.txt", "txt": ".txt", "json": ".json"}
    changes: Counter[str] = Counter()
    given = {names[k]: v if isinstance(v, bytes) else json.dumps(v).encode() for k, v in files.items()}
    return read_label(given, changes), changes


def test_a_text_file_loses_its_mark_one_line_end_and_carriage_returns():
    got, changes = label(txt=b"\xef\xbb\xbffirst\r\nsecond \r\n\r\n")
    assert got.text == "first\nsecond \n"
    assert changes == {"byte_order_mark": 1, "crlf_text": 1}


def test_ground_truth_comes_before_text_and_the_other_is_counted():
    assert label(gt=b"TRUE", txt=b"guess")[0].text == "TRUE"
    assert label(gt=b"TRUE", txt=b"guess")[1] == {"label_witness_differs": 1}
    assert label(gt=b"same", txt=b"same\n")[1] == {"label_witness": 1}


def test_json_of_equal_text_is_the_label_and_the_text_file_its_witness():
    got, changes = label(json={"text": "twice", "language": "en"}, txt=b"twice\n")
    assert (got.text, got.fields) == ("twice", {"language": "en"})
    assert changes == {"label_witness": 1}


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"txt": b"one", "json": {"text": "other"}}, "ambiguous_label"),
        ({"json": {"text": "a", "lines": [{"text": "b"}]}}, "ambiguous_label"),
        ({"txt": b" \n"}, "empty_text"),
        ({"txt": b""}, "empty_text"),
        ({"txt": b"gr\xfcn"}, "invalid_utf8"),
        ({"json": b"{"}, "invalid_json"),
        ({"json": [1]}, "bad_label"),
        ({"json": {"words": 1}}, "bad_label"),
        ({"json": {"text": 3}}, "wrong_type"),
        ({"json": {"lines": [{"text": "a"}], "reading_order": [1]}}, "bad_label"),
        ({"json": {"lines": [{"text": "a"}, {"text": "b"}], "reading_order": [0, 0]}}, "bad_label"),
        ({"json": {"lines": [{"text": None}]}}, "bad_label"),
        ({"json": {"lines": [{"text": "a", "bbox": [1, 2, 3]}]}}, "bad_label"),
        ({"json": {"text": "a", "size": [0, 4]}}, "bad_label"),
    ],
)
def test_it_is_excluded_for_its_own_reason(files, reason):
    with pytest.raises(Bad) as bad:
        label(**files)
    assert bad.value.reason == reason


def test_lines_are_put_in_reading_order_and_boxes_kept():
    lines = [
        {"text": "second", "bbox": [0, 10, 5, 15]},
        {"text": "left out", "polygon": [[1, 1], [2, 1], [2, 2]]},
        {"text": "first", "confidence": 0.5},
    ]
    got, _ = label(json={"lines": lines, "reading_order": [2, 0], "size": [60, 50], "source": "x"})
    assert got.text == "first\nsecond\nleft out"
    assert [(item.text, item.order, item.polygon, item.confidence) for item in got.layout] == [
        ("second", 1, (0.0, 10.0, 5.0, 15.0), None),
        ("left out", 2, (1.0, 1.0, 2.0, 1.0, 2.0, 2.0), None),
        ("first", 0, (), 0.5),
    ]
    assert (got.stated_size, got.fields) == ((60, 50), {"source": "x"})


def test_token_ids_and_the_order_of_patches():
    got, _ = label(json={"text": "a", "ocr_labels": [12, 47], "reading_order": [2, 0, 1]})
    assert (got.ocr_labels, got.reading_order, got.fields) == ((12, 47), (2, 0, 1), {})
    assert label(json={"text": "a", "ocr_labels": [[3]]})[0].ocr_labels == (3,)
    assert label(json={"text": "a", "ocr_labels": [None], "reading_order": None})[0].ocr_labels is None
    # Beside lines, reading_order is theirs.
    assert label(json={"lines": [{"text": "a"}], "reading_order": [0]})[0].reading_order is None


@pytest.mark.parametrize(
    "wrong", [{"ocr_labels": "12"}, {"ocr_labels": [True]}, {"reading_order": [1, 1]}, {"reading_order": [-1]}]
)
def test_ids_that_are_none_make_a_bad_label(wrong):
    with pytest.raises(Bad) as bad:
        label(json={"text": "a", **wrong})
    assert bad.value.reason == "image_labels"


def test_a_long_order_costs_no_more_than_its_length():
    count = 100_000
    value = {"lines": [{"text": str(k)} for k in range(count)], "reading_order": list(range(count - 1, count // 2, -1))}
    label = from_object(value, Counter())
    assert label.text.split("\n")[:2] == ["99999", "99998"]
    assert label.text.endswith("49999\n50000")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_json_label_of_any_marked_encoding_and_its_witness(encoding):
    changes: Counter[str] = Counter()
    text = "gr\u00fcn"
    files = {
        ".json": json.dumps({"text": text}, ensure_ascii=False).encode(encoding),
        ".txt": f"{text}\n".encode(encoding),
    }
    assert read_label(files, changes).text == text
    assert changes["label_witness"] == 1
