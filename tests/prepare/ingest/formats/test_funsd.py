"""FUNSD forms: entities, their words, and the links between them."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import funsd
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest import generate_funsd
from tests.prepare.ingest.builders import picture
from tests.prepare.ingest.runs import Ingested


@pytest.mark.parametrize("kind", ["funsd", "ocr"])
def test_twenty_forms_of_which_one_is_broken(tmp_path, kind):
    generate_funsd.write(tmp_path / "in" / "training_data", 20)
    got = Ingested(tmp_path / "out", kind, tmp_path / "in")
    assert got.counts == (20, 19, 1)
    assert got.exclusions == {f"training_data/{generate_funsd.BROKEN}": "bad_label"}
    stem = "training_data/form-03"
    assert got.rows[stem].text == "Date:\nMay 3\nREPORT"
    assert got.layout(stem) == [
        ("region", "Date:", (2.0, 2.0, 20.0, 10.0), None, 0),
        ("word", "Date:", (2.0, 2.0, 20.0, 10.0), 0, 0),
        ("region", "May 3", (22.0, 2.0, 50.0, 10.0), None, 1),
        ("word", "May", (22.0, 2.0, 36.0, 10.0), 2, 1),
        ("word", "3", (38.0, 2.0, 50.0, 10.0), 2, 2),
        ("region", "REPORT", (2.0, 12.0, 40.0, 20.0), None, 2),
        ("word", "REPORT", (2.0, 12.0, 40.0, 20.0), 5, 3),
        ("region", None, (2.0, 22.0, 40.0, 30.0), None, 3),
    ]
    assert got.metadata(stem) == {"entity_labels": ["question", "answer", "header", "other"], "links": [[0, 1]]}
    assert got.changes["word_blank"] == got.changes["entity_without_text"] == 19


def test_an_annotation_beside_its_picture_needs_no_folders(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f.png").write_bytes(picture(0, (60, 40)))
    (tmp_path / "in" / "f.json").write_text(json.dumps(generate_funsd.form(1)), encoding="utf-8")
    got = Ingested(tmp_path / "out", "ocr", tmp_path / "in")
    assert got.rows["f"].text == "Date:\nMay 1\nREPORT"


@pytest.mark.parametrize(
    "entities",
    [
        [3],
        [{"id": 0, "text": "a"}, {"id": 0, "text": "b"}],
        [{"id": 0, "text": "a", "words": {"text": "a"}}],
        [{"id": 0, "text": "a", "linking": [[0]]}],
        [{"id": 0, "text": "a", "linking": "0-1"}],
    ],
)
def test_a_form_that_is_not_what_it_must_be_is_excluded(entities):
    with pytest.raises(Bad) as bad:
        funsd.form({"form": entities}, Counter())
    assert bad.value.reason == "bad_label"


def test_a_box_that_cannot_be_used_loses_no_word_and_texts_that_differ_are_counted():
    changes: Counter[str] = Counter()
    entity = {"id": 0, "text": "one two", "box": [1, 2], "words": [{"text": "one", "box": [1, 1, 5, 5]}]}
    label = funsd.form({"form": [entity]}, changes)
    assert (label.text, [item.polygon for item in label.layout or ()]) == ("one two", [(), (1.0, 1.0, 5.0, 5.0)])
    assert changes == {"box_unusable": 1, "entity_text_differs": 1}


def test_a_link_to_nothing_is_left_out_and_harms_no_other():
    changes: Counter[str] = Counter()
    box = [1, 1, 9, 9]
    entities = [
        {"id": 4, "text": "a", "box": box, "linking": [[4, 9], [4, 5]]},
        {"id": 5, "text": "b", "box": box, "linking": [[4, 5]]},
    ]
    label = funsd.form({"form": entities}, changes)
    assert (label.text, label.fields["links"], changes) == ("a\nb", [[0, 1]], {"link_of_nothing": 1})
