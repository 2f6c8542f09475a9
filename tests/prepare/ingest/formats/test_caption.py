"""Captions in tables, samples and folders."""

from __future__ import annotations

import json

import pytest

from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.formats import caption
from shardkit.prepare.ingest.reasons import Bad
from shardkit.store.tar_walk import Member
from tests.prepare.ingest.builders import config, picture, reader, record


def draft(value, tmp_path, **settings):
    (one,) = caption.drafts(record(value), config(format="caption", **settings), reader(tmp_path))
    return one


def sample(**members: bytes) -> list[Member]:
    return [Member(name=f"k.{suffix}", offset=0, size=len(data), data=data) for suffix, data in members.items()]


def texts(draft) -> list[str]:
    return [segment.text for segment in draft.segments if segment.kind == "text"]


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("image", "caption"),
        ("URL", "TEXT"),
        ("filepath", "title"),
        ("file_name", "alt_text"),
        ("Image_Path", "Caption"),
    ],
)
def test_common_headers_are_known(tmp_path, image, text):
    got = draft({"id": "7", text: "a cat", image: "folder/cat.png"}, tmp_path)
    assert got.images[0].path == "folder/cat.png"
    assert texts(got) == ["a cat"]
    assert got.metadata == {"id": "7"}
    assert (got.relations[0].kind, got.group_by_asset) == ("caption", True)


def test_a_path_comes_before_an_address_and_the_address_stays(tmp_path):
    got = draft({"url": "https://x/y.png", "image": "y.png", "caption": "c", "similarity": "0.31"}, tmp_path)
    assert got.images[0].path == "y.png"
    assert got.metadata == {"url": "https://x/y.png", "similarity": "0.31"}
    assert got.relations[0].confidence == 0.31


@pytest.mark.parametrize(
    "row", [[], [1], [None], ["a.png", "a cat"], [{"image": "a.png", "caption": "a cat"}], 5, "x", None]
)
def test_a_line_that_is_no_object_is_excluded_and_harms_nothing(tmp_path, row):
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == "not_an_object"


def test_columns_can_be_named(tmp_path):
    row = {"image": "no", "pic": "yes.png", "caption": "no", "words": "yes"}
    got = draft(row, tmp_path, fields={"image": "pic", "caption": "words"})
    assert (got.images[0].path, texts(got)) == ("yes.png", ["yes"])
    assert texts(draft(row, tmp_path, fields={"text": "words"})) == ["yes"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"image": "a.png", "caption": ""}, "empty_text"),
        ({"image": "a.png", "caption": None}, "null_text"),
        ({"image": "", "caption": "c"}, "no_image"),
        ({"picture": "a.png", "caption": "c"}, "missing_field"),
        ({"image": "a.png", "words": "c"}, "missing_field"),
        ({"image": ["a", "b"], "caption": "c"}, "image_value"),
        ("text", "not_an_object"),
    ],
)
def test_a_row_is_excluded_for_its_own_reason(tmp_path, row, reason):
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == reason


def test_a_sample_has_its_caption_beside_it_or_in_its_json(tmp_path):
    facts = json.dumps({"caption": "in the json", "url": "https://x", "width": 3}).encode()
    assert texts(draft(sample(jpg=b"i", txt=b"beside\n"), tmp_path)) == ["beside"]
    inside = draft(sample(jpg=b"i", json=facts), tmp_path)
    assert texts(inside) == ["in the json"]
    assert inside.metadata == {"url": "https://x", "width": 3}
    assert inside.images[0].origin == "https://x"
    assert texts(draft(sample(jpg=b"i", txt=b"beside", json=facts), tmp_path)) == ["beside"]


def test_several_captions_of_one_record_are_one_example_with_a_relation_each(tmp_path):
    facts = json.dumps({"captions": [{"caption": "one"}, {"caption": "two"}, {"caption": "one"}]}).encode()
    got = draft(sample(jpg=b"i", txt=b"one", json=facts), tmp_path)
    assert texts(got) == ["one", "two"]
    assert [relation.segments for relation in got.relations] == [(1,), (2,)]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"txt": b"no image"}, "no_image"),
        ({"jpg": b"i"}, "missing_label"),
        ({"jpg": b"i", "png": b"j", "txt": b"t"}, "ambiguous_image"),
        ({"jpg": b"i", "txt": b" \n"}, "empty_text"),
        ({"jpg": b"i", "txt": b"\xff"}, "invalid_utf8"),
        ({"jpg": b"i", "json": b"{"}, "invalid_json"),
        ({"jpg": b"i", "json": b"[]"}, "not_an_object"),
        ({"jpg": b"i", "json": b'{"width": 3}'}, "missing_label"),
    ],
)
def test_a_sample_is_excluded_for_its_own_reason(tmp_path, members, reason):
    with pytest.raises(Bad) as bad:
        draft(sample(**members), tmp_path)
    assert bad.value.reason == reason


def test_a_picture_in_a_folder_with_its_text(tmp_path):
    (tmp_path / "a.png").write_bytes(picture())
    (tmp_path / "a.txt").write_bytes(b"in a folder\n")
    got = draft(Pair(stem="a", images=("a.png",), labels=((".txt", "a.txt"),)), tmp_path)
    assert texts(got) == ["in a folder"]
    assert got.images[0].data == picture()
    assert got.input == "a.png"
