"""MMC4: sentences, pictures at their places, similarities."""

from __future__ import annotations

import json

import pytest

from shardkit.prepare.ingest.formats import mmc4
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, reader, record
from tests.prepare.ingest.generate_mmc4 import BROKEN, document, write
from tests.prepare.ingest.runs import Ingested


def draft(row, tmp_path, **settings):
    (one,) = mmc4.drafts(record(row), config(format="mmc4", **settings), reader(tmp_path))
    return one


def test_a_picture_stands_before_the_sentence_that_it_is_matched_with(tmp_path):
    got = draft(document(1), tmp_path)
    assert [s.image if s.kind == "image" else s.text for s in got.segments] == ["One 1.", 1, " Two.", 0, " Three."]
    assert [(r.scope, r.images, r.segments, r.confidence) for r in got.relations] == [
        ("example", (0, 1), (0, 1, 2, 3, 4), None), ("image", (1,), (2,), 0.5), ("image", (0,), (4,), 0.25),
    ]  # fmt: skip
    assert got.group == "https://host/1.html"
    assert "text_list" not in got.metadata
    assert got.metadata["similarity_matrix"] == [[0.1, 0.2, 0.25], [0.1, 0.5, 0.2]]


def info(**fields):
    return {"text_list": ["a"], "image_info": [{"raw_url": "u", "matched_text_index": 0, **fields}]}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([], "not_an_object"),
        ({"image_info": []}, "missing_field"),
        ({"text_list": "a"}, "wrong_type"),
        ({"text_list": ["a", None]}, "wrong_type"),
        ({"text_list": []}, "no_content"),
        ({"text_list": ["a"], "image_info": {}}, "wrong_type"),
        ({"text_list": ["a"], "image_info": ["x"]}, "wrong_type"),
        (info(matched_text_index=1), "slot_value"),
        (info(matched_text_index=-1), "slot_value"),
        (info(matched_text_index=True), "slot_value"),
        (info(matched_text_index=[0]), "slot_value"),
        (info(raw_url=""), "image_value"),
    ],
)
def test_a_broken_document_is_excluded_for_its_own_reason(tmp_path, row, reason):
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == reason


@pytest.mark.parametrize("similarity", [None, "0.5", float("nan"), True])
def test_a_similarity_that_is_no_number_is_no_confidence(tmp_path, similarity):
    assert draft(info(matched_sim=similarity), tmp_path).relations[1].confidence is None


def test_twenty_documents_with_their_pictures(tmp_path):
    write(tmp_path / "dump")
    got = Ingested(tmp_path / "out", "mmc4", tmp_path / "dump", images=(tmp_path / "dump" / "images",))
    assert got.counts == (20, 19, 1)
    assert got.exclusions == {str(BROKEN + 1): "slot_value"}
    assert [len(example.images) for example in got.examples] == [2] * 19
    assert got.rows["1"].text == "One 0. Two. Three."


def test_missing_pictures_lose_their_place_and_their_relation(tmp_path):
    write(tmp_path / "dump", 1)
    (tmp_path / "dump" / "images" / "0-1.png").unlink()
    got = Ingested(tmp_path / "out", "mmc4", tmp_path / "dump", images=(tmp_path / "dump" / "images",))
    example = got.rows["1"]
    assert [s.image if s.kind == "image" else s.text for s in example.segments] == ["One 0.", 0, " Two.", " Three."]
    assert [(r.scope, r.images, r.segments, r.confidence) for r in example.relations] == [
        ("example", (0,), (0, 1, 2, 3), None), ("image", (0,), (2,), 0.5),
    ]  # fmt: skip
    assert got.changes["image_dropped:asset_missing"] == 1


def test_the_published_example(shared, tmp_path):
    got = Ingested(tmp_path / "out", "mmc4", shared / "data" / "mmc4_example")
    assert got.counts == (1, 1, 0)
    assert got.changes["image_slots"] == 2
    (example,) = got.examples
    assert example.text.startswith(
        "When you lock the door using the lock tab on the driver\u2019s door, all of the other"
    )
    assert "at the same time. Press the master" in example.text
    assert example.group == "http://www.hfitinfo.com/hofi-48.html"
    assert len(json.loads(example.metadata)["image_info"]) == 2


def unmatched(count: int, matrix: object, *indices: int | None) -> dict[str, object]:
    """A document of `count` sentences with a picture for each index."""
    pictures = [
        {"raw_url": f"u{k}", "matched_sim": 0.9, **({} if index is None else {"matched_text_index": index})}
        for k, index in enumerate(indices)
    ]
    return {"text_list": ["a", "b", "c"][:count], "image_info": pictures, "similarity_matrix": matrix}


def shown(got) -> list[object]:
    return [s.image if s.kind == "image" else s.text for s in got.segments]


def test_a_picture_without_a_match_goes_to_the_free_sentence_most_like_it(tmp_path):
    got = draft(unmatched(3, [[0.1, 0.7, 0.2], [0.3, 0.8, 0.5]], 1, None), tmp_path)
    assert shown(got) == ["a", 0, " b", 1, " c"]
    assert [r.confidence for r in got.relations] == [None, 0.9, 0.5]
    assert got.changes["image_placed_by_similarity"] == 1
    crowded = draft(unmatched(1, [[0.4], [0.3]], 0, None), tmp_path)
    assert shown(crowded) == [0, 1, "a"]


@pytest.mark.parametrize(
    "matrix", [None, [], [[0.1, 0.2]], [[0.1], [0.2]], [[0.1, 0.2], [0.1, "x"]], [[1, 2], [1, True]]]
)
def test_a_picture_without_a_match_and_likeness_is_dropped_and_its_document_kept(tmp_path, matrix):
    row = unmatched(2, matrix, 1, None)
    got = draft(row, tmp_path)
    assert shown(got) == ["a", 0, " b"]
    assert (got.changes["image_slots"], got.changes["image_dropped:no_place"]) == (2, 1)
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path, on_missing_image="drop-document")
    assert bad.value.reason == "slot_value"


def test_a_long_document_costs_no_more_than_its_length(tmp_path):
    count = 30_000
    pictures = [{"raw_url": "u", "matched_text_index": count - 1 - k} for k in range(count)]
    got = draft({"text_list": ["a"] * count, "image_info": pictures}, tmp_path)
    assert shown(got)[:4] == [count - 1, "a", count - 2, " a"]
