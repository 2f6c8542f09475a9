"""Interleaved documents: places, policies for pictures, and metadata in all its states."""

from __future__ import annotations

import json

import pytest

from shardkit.prepare.ingest.formats import obelics
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, jsonl, reader, record
from tests.prepare.ingest.runs import Ingested


def draft(row, tmp_path, **settings):
    (one,) = obelics.drafts(record(row), config(format="obelics", **settings), reader(tmp_path))
    return one


def test_places_keep_their_order(tmp_path):
    got = draft({"images": [None, "https://x/1.png", "2.png", None], "texts": ["a", None, None, "b"]}, tmp_path)
    assert [s.text if s.kind == "text" else s.image for s in got.segments] == ["a", 0, 1, "b"]
    assert [image.path for image in got.images] == ["https://x/1.png", "2.png"]
    assert got.relations[0].images == (0, 1)
    assert got.changes == {"image_slots": 2}


@pytest.mark.parametrize(
    ("row", "reason", "words"),
    [
        ({"images": [None, "0.png"], "texts": [None, None]}, "slot_value", "place 0"),
        ({"images": ["0.png", None], "texts": ["x", "y"]}, "slot_value", "place 0"),
        ({"images": ["0.png"], "texts": [None, "x"]}, "slot_count", "1 places, texts has 2"),
        ({"images": [], "texts": []}, "no_content", "no places"),
        ({"images": "0.png", "texts": []}, "wrong_type", "images"),
        ({"images": [None], "texts": [7]}, "wrong_type", "place 0"),
        ({"images": [7], "texts": [None]}, "image_value", "place 0"),
        ({"texts": []}, "missing_field", "images"),
        (["x"], "not_an_object", "list"),
    ],
)
def test_a_broken_document_is_excluded_with_its_place(tmp_path, row, reason, words):
    with pytest.raises(Bad, match=words) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == reason


ROW = {"images": ["0.png", None], "texts": [None, "t"]}


@pytest.mark.parametrize("value", [None, "null", "", "[null, null]", "[]"])
def test_metadata_may_be_absent_in_every_way(tmp_path, value):
    got = draft({**ROW, "metadata": value}, tmp_path)
    assert got.group is None
    assert not [name for name in got.changes if "dropped" in name]


def test_broken_metadata_is_dropped_and_counted(tmp_path):
    got = draft({**ROW, "metadata": "{broken", "general_metadata": '{"a": 1, "a": 2}'}, tmp_path)
    assert got.metadata == {}
    assert got.changes == {"image_slots": 1, "metadata_dropped": 1, "general_metadata_dropped": 1}


@pytest.mark.parametrize(
    ("metadata", "general", "url"),
    [
        (None, {"url": "https://page"}, "https://page"),
        ([None, {"document_url": "https://doc", "src": "https://img"}], None, "https://doc"),
        ([{"url": "https://img"}], None, None),
        ([{"document_url": "https://doc"}], {"url": "https://page"}, "https://page"),
    ],
)
def test_the_group_is_the_address_of_the_document(tmp_path, metadata, general, url):
    row = {**ROW, "metadata": json.dumps(metadata), "general_metadata": json.dumps(general)}
    got = draft(row, tmp_path)
    assert got.group == url
    assert got.metadata.get("url") == url


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"bytes": None, "path": None}, "asset_missing"),
        ({"bytes": ""}, "asset_missing"),
        ({"bytes": "!!"}, "bad_data_uri"),
    ],
)
def test_a_picture_that_was_never_fetched_loses_its_place_and_not_its_document(tmp_path, entry, reason):
    (tmp_path / "in").mkdir()
    rows = [{"images": [None, entry], "texts": ["a", None]}]
    (tmp_path / "in" / "d.jsonl").write_bytes(jsonl(rows))
    got = Ingested(tmp_path / "out", "obelics", tmp_path / "in")
    assert (got.rows["1"].text, got.changes[f"image_dropped:{reason}"]) == ("a", 1)
    whole = Ingested(tmp_path / "whole", "obelics", tmp_path / "in", on_missing_image="drop-document")
    assert whole.exclusions == {"1": reason}
