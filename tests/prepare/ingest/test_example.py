"""Draft -> example: pictures once, places dropped or the record left out, sizes judged."""

from __future__ import annotations

import pytest

from shardkit.errors import SourceError
from shardkit.media.limits import MediaLimits
from shardkit.prepare.ingest.draft import Draft, ImageRef
from shardkit.prepare.ingest.example import Policy, finish
from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem, Relation, Segment
from tests.prepare.ingest.builders import picture, reader


def policy(**settings) -> Policy:
    defaults = {
        "source": "src", "revision": "r1", "retrieved_at": None, "licence": None, "recipe": "f" * 32,
        "on_missing_image": "drop-document", "keep_metadata": False, "limits": MediaLimits(), "group": None,
        "group_by_path": False,
    }  # fmt: skip
    return Policy(**{**defaults, **settings})


def draft(*refs: ImageRef, texts: str = "", **settings) -> Draft:
    segments = [Segment(kind="image", image=k) for k in range(len(refs))]
    segments += [Segment(kind="text", text=text) for text in texts]
    return Draft(**{"input": "in", "position": "7", "segments": tuple(segments), "images": refs, **settings})


A, B = ImageRef(data=picture(1), name="a.png"), ImageRef(data=picture(2), name="b.png")
GONE = ImageRef(path="gone.png", name="gone.png")


def test_a_picture_that_is_shown_three_times_is_stored_once(tmp_path):
    got = finish(draft(A, B, A, A, texts="x"), policy(), reader(tmp_path)).example
    assert [s.image for s in got.segments] == [0, 1, 0, 0, None]
    assert [image.path for image in got.images] == ["a.png", "b.png"]


def test_equal_pictures_with_other_labels_are_kept_apart(tmp_path):
    labelled = ImageRef(data=A.data, ocr_labels=(1, 2))
    assert len(finish(draft(A, labelled), policy(), reader(tmp_path)).example.images) == 2


def test_a_dropped_place_moves_no_picture_and_no_relation(tmp_path):
    relations = (
        Relation(kind="caption", images=(0,), segments=(4,)),
        Relation(kind="caption", images=(1,), segments=(5,)),
        Relation(kind="interleaved", images=(0, 1, 2), segments=(0, 1, 2, 3, 4, 5)),
    )
    segments = tuple(Segment(kind="image", image=k) for k in (0, 1, 2, 1)) + tuple(
        Segment(kind="text", text=text) for text in "xy"
    )
    got = finish(
        draft(A, GONE, B, segments=segments, relations=relations),
        policy(on_missing_image="drop-image"),
        reader(tmp_path),
    )
    assert [s.image if s.kind == "image" else s.text for s in got.example.segments] == [0, 1, "x", "y"]
    assert [(r.images, r.segments) for r in got.example.relations] == [((0,), (2,)), ((0, 1), (0, 1, 2, 3))]
    assert got.changes["image_dropped"] == got.changes["image_dropped:asset_missing"] == 1


def test_a_missing_picture_leaves_the_record_out_or_ends_the_run(tmp_path):
    with pytest.raises(Bad, match=r"gone\.png") as bad:
        finish(draft(A, GONE), policy(), reader(tmp_path))
    assert bad.value.reason == "asset_missing"
    with pytest.raises(SourceError, match=r"in:7.*gone\.png"):
        finish(draft(A, GONE), policy(on_missing_image="fail"), reader(tmp_path))


def test_nothing_left_is_a_reason(tmp_path):
    with pytest.raises(Bad) as bad:
        finish(draft(GONE), policy(on_missing_image="drop-image"), reader(tmp_path))
    assert bad.value.reason == "no_content"


def test_a_bad_picture_is_named_with_its_reason(tmp_path):
    with pytest.raises(Bad, match=r"page\.jpg.*HTML") as bad:
        finish(draft(ImageRef(data=b"<html></html>", name="page.jpg")), policy(), reader(tmp_path))
    assert bad.value.reason == "not_an_image"


@pytest.mark.parametrize(("stated", "outcome"), [((8, 12), {}), ((12, 8), {"image_size_swapped": 1}), ((8, 8), None)])
def test_stated_sizes_are_judged_by_the_decoded_picture(tmp_path, stated, outcome):
    one = draft(ImageRef(data=picture(1, size=(12, 8)), stated_size=stated))
    if outcome is None:
        with pytest.raises(Bad) as bad:
            finish(one, policy(), reader(tmp_path))
        assert bad.value.reason == "image_sizes_wrong"
    else:
        got = finish(one, policy(), reader(tmp_path))
        assert got.changes == outcome
        assert (got.example.images[0].height, got.example.images[0].width) == (8, 12)


def test_boxes_are_clipped_to_the_picture(tmp_path):
    layout = (LayoutItem(level="line", text="t", polygon=(-2.0, 0.0, 40.0, 4.0)),)
    got = finish(draft(ImageRef(data=picture(1, size=(12, 8)), layout=layout)), policy(), reader(tmp_path))
    assert got.example.images[0].layout[0].polygon == (0.0, 0.0, 12.0, 4.0)


def test_the_group_is_the_users_else_the_formats(tmp_path):
    metadata = {"site": "s1"}
    one = draft(A, metadata=metadata, group="own")
    assert finish(one, policy(), reader(tmp_path)).example.group == "own"
    assert finish(one, policy(group=lambda path, m: m["site"]), reader(tmp_path)).example.group == "s1"
    by_asset = finish(draft(A, group_by_asset=True), policy(), reader(tmp_path)).example
    assert by_asset.group == by_asset.images[0].asset_id
    member = policy(group=lambda path, _: path if path == "7" else None, group_by_path=True)
    assert finish(one, member, reader(tmp_path)).example.group == "7"


def test_provenance_holds_the_seven_fields_of_every_picture(tmp_path):
    one = draft(
        A, B, texts="c", metadata={"licence": "CC0"}, relations=(Relation(kind="caption", images=(0,), segments=(2,), annotator="me"),)
    )  # fmt: skip
    got = finish(one, policy(), reader(tmp_path))
    first, second = got.provenance
    assert first["asset_id"] == got.example.images[0].asset_id
    assert first["digest"] == f"sha256:{first['asset_id']}"
    assert (first["source"], first["revision"], first["licence"]) == ("src", "r1", "CC0")
    assert (first["input"], first["position"], first["example_id"]) == ("in", "7", got.example.example_id)
    assert first["decoder"].startswith("pillow-rgb/")
    assert (first["relation"], first["annotator"], second["relation"]) == ("caption", "me", None)
    assert (first["derived_recipe"], first["tokenizer"], first["processor"]) == ("f" * 32, None, None)
    assert [row["size"] for row in got.assets] == [len(A.data), len(B.data)]
