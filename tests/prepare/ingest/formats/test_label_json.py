"""Label documents: maps, lists and pages, read by the names of pictures."""

from __future__ import annotations

import json

import pytest

from shardkit.prepare.ingest.formats import label_json
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, picture, reader, record
from tests.prepare.ingest.runs import Ingested


def read(tmp_path, value):
    """Picture -> text or reason, and the changes of the document."""
    found = label_json.entries(value)
    result = {}
    for entry in found.entries:
        try:
            (draft,) = label_json.drafts(record(entry.value, entry.position), config(format="ocr"), reader(tmp_path))
            result[entry.position] = draft.segments[1].text
        except Bad as bad:
            result[entry.position] = bad.reason
    return result, dict(found.changes)


def test_a_map(tmp_path):
    value = {"1.png": "one", "2.png": None, "3.png": {"text": "three"}, "4.png": {"lines": [{"text": "a"}]}, "5.png": 5}
    assert read(tmp_path, value)[0] == {
        "1.png": "one", "2.png": "null_text", "3.png": "three", "4.png": "a", "5.png": "wrong_type",
    }  # fmt: skip


def test_a_list_whose_entries_name_a_picture_twice(tmp_path):
    value = [
        {"image": "a.png", "text": "same"}, {"img": "b.png", "label": "one"}, {"image": "a.png", "text": "same"},
        {"image": "b.png", "text": "other"}, {"image": "c.png"},
    ]  # fmt: skip
    assert read(tmp_path, value)[0] == {"a.png": "same", "b.png": "ambiguous_label", "c.png": "missing_field"}


def test_pages_come_in_the_order_of_their_numbers_and_gaps_are_counted(tmp_path):
    value = {"pages": [{"page": n, "image": f"{n}.png", "text": f"P{n}"} for n in (4, 1, 2)]}
    texts, changes = read(tmp_path, value)
    assert (list(texts.items()), changes) == ([("1.png", "P1"), ("2.png", "P2"), ("4.png", "P4")], {"page_missing": 1})


@pytest.mark.parametrize("value", [{}, [], "text", {"a": 1}, [{"text": "no picture"}], {"pages": [{"image": "1.png"}]}])
def test_other_documents_are_not_known(value):
    with pytest.raises(Bad):
        label_json.entries(value)


@pytest.mark.parametrize("kind", ["ocr", "auto"])
def test_forms_of_xfund_in_one_document(tmp_path, kind):
    entity = {
        "id": 9,
        "label": "question",
        "text": "\u59d3\u540d",
        "box": [1, 1, 9, 6],
        "words": [],
        "linking": [[9, 10]],
    }
    document = {"id": "zh_0", "document": [entity], "img": {"fname": "zh_0.jpg", "width": 24, "height": 16}}
    other = {"id": "zh_1", "document": [3], "img": {"fname": "zh_1.jpg"}}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "zh.val.json").write_text(json.dumps({"lang": "zh", "documents": [document, other]}))
    for name in ("zh_0.jpg", "zh_1.jpg"):
        (tmp_path / "in" / name).write_bytes(picture(size=(24, 16), kind="JPEG"))
    got = Ingested(tmp_path / "out", kind, tmp_path / "in")
    assert got.layout("zh_0.jpg") == [("region", "\u59d3\u540d", (1.0, 1.0, 9.0, 6.0), None, 0)]
    assert got.metadata("zh_0.jpg")["entity_labels"] == ["question"]
    assert (got.exclusions, got.changes["link_of_nothing"]) == ({"zh_1.jpg": "bad_label"}, 1)
