"""The row schema: placeholders, images in every form, labels and their short forms."""

from __future__ import annotations

import base64

import pytest

from shardkit.prepare.ingest.formats import rows
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, picture, reader, record

PNG = picture()


def draft(row, tmp_path, **settings):
    drafts = list(rows.drafts(record(row), config(**settings), reader(tmp_path)))
    assert len(drafts) == 1
    return drafts[0]


def shape(draft) -> list[object]:
    return [segment.text if segment.kind == "text" else segment.image for segment in draft.segments]


def test_each_placeholder_is_the_place_of_the_next_image(tmp_path):
    row = {"text": "a<image><image> b\n<image>", "images": ["1.png", "2.png", "3.png"]}
    assert shape(draft(row, tmp_path)) == ["a", 0, 1, " b\n", 2]


@pytest.mark.parametrize("images", [None, []])
def test_a_row_without_images_is_a_text_row(tmp_path, images):
    got = draft({"text": " kept to the character\n", "images": images}, tmp_path)
    assert shape(got) == [" kept to the character\n"]
    assert got.images == ()
    assert got.relations == ()


@pytest.mark.parametrize(
    "value",
    ["x.png", ["x.png"], [{"path": "x.png"}], {"path": "folder/x.png", "bytes": None}],
)
def test_one_image_by_path(tmp_path, value):
    (image,) = draft({"text": "<image>", "images": value}, tmp_path).images
    assert image.data is None
    assert image.path.endswith("x.png")
    assert image.name == "x.png"


@pytest.mark.parametrize(
    "value",
    [
        PNG,
        {"bytes": PNG, "path": "/home/me/x.png"},
        {"bytes": base64.b64encode(PNG).decode()},
        "data:image/png;base64," + base64.b64encode(PNG).decode(),
        base64.b64encode(PNG).decode(),
        base64.encodebytes(PNG).decode(),
        base64.urlsafe_b64encode(PNG).decode(),
    ],
    ids=["bytes", "object", "base64 object", "data", "base64", "base64 in lines", "base64 of addresses"],
)
def test_one_image_by_bytes(tmp_path, value):
    (image,) = draft({"text": "<image>", "images": [value]}, tmp_path).images
    assert image.data == PNG
    assert image.name in (None, "x.png")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_base64_without_an_address_before_it_is_known_by_its_first_bytes(tmp_path, kind):
    data = picture(kind=kind)
    (image,) = draft({"text": "<image>", "images": base64.b64encode(data).decode()}, tmp_path).images
    assert (image.data, image.path) == (data, "")


@pytest.mark.parametrize(
    "path", ["/9j/" + "a" * 20, "/9j/" + "a" * 80 + ".jpg", "iVBORw0KGgo/" + "folder/" * 9 + "1.png"]
)
def test_a_path_that_begins_like_base64_stays_a_path(tmp_path, path):
    (image,) = draft({"text": "<image>", "images": path}, tmp_path).images
    assert (image.data, image.path) == (None, path)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "not_an_object"),
        ({"txt": "a"}, "missing_field"),
        ({"text": None}, "null_text"),
        ({"text": 3}, "wrong_type"),
        ({"text": " \n"}, "empty_text"),
        ({"text": "no mark", "images": ["a"]}, "placeholder_count"),
        ({"text": "<image>"}, "placeholder_count"),
        ({"text": "<image><image>", "images": "a.png"}, "placeholder_count"),
        ({"text": "<image>", "images": [None]}, "no_image"),
        ({"text": "<image>", "images": [" "]}, "no_image"),
        ({"text": "<image>", "images": [{"bytes": b""}]}, "no_image"),
        ({"text": "<image>", "images": [{"bytes": b"", "path": "/etc/hostname"}]}, "no_image"),
        ({"text": "<image>", "images": [7]}, "image_value"),
        ({"text": "<image>", "images": ["data:image/png;base64,@@"]}, "bad_data_uri"),
        ({"text": "<image>", "images": ["a"], "image_sizes": [[1, 2], [3, 4]]}, "image_sizes_count"),
        ({"text": "<image>", "images": ["a"], "image_sizes": [[1, -2]]}, "image_sizes_wrong"),
        ({"text": "<image>", "images": ["a"], "ocr_labels": [[1, -2]]}, "image_labels"),
        ({"text": "<image><image>", "images": ["a", "b"], "ocr_labels": [[1]]}, "image_labels"),
        ({"text": "<image>", "images": ["a"], "ocr_labels": [[1, True]]}, "image_labels"),
        ({"text": "<image>", "images": ["a"], "reading_order": [[0, 0]]}, "image_labels"),
        ({"text": "<image>", "images": ["a"], "reading_order": "01"}, "image_labels"),
    ],
)
def test_it_is_excluded_for_its_own_reason(tmp_path, row, reason):
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == reason


def test_a_mismatch_names_both_numbers(tmp_path):
    with pytest.raises(Bad, match=r"2 <image> marks.* 1 images"):
        draft({"text": "<image><image>", "images": ["a"]}, tmp_path)


def test_a_flat_label_is_the_short_form_for_one_image(tmp_path):
    row = {"text": "<image>", "images": ["a"]}
    flat = draft({**row, "ocr_labels": [3, 1], "reading_order": [1, 0], "image_sizes": [8, 12]}, tmp_path)
    assert flat == draft({**row, "ocr_labels": [[3, 1]], "reading_order": [[1, 0]], "image_sizes": [[8, 12]]}, tmp_path)
    (image,) = flat.images
    assert (image.ocr_labels, image.reading_order, image.stated_size) == ((3, 1), (1, 0), (8, 12))
    assert [relation.kind for relation in flat.relations] == ["interleaved", "ocr"]


def test_null_stands_for_an_image_without_labels(tmp_path):
    row = {"text": "<image><image>", "images": ["a", "b"], "ocr_labels": [None, [4]]}
    assert [image.ocr_labels for image in draft(row, tmp_path).images] == [None, (4,)]


def test_other_fields_are_metadata_and_columns_can_be_named(tmp_path):
    row = {"words": "<image>", "pic": "a.png", "videos": ["v.mp4"], "text": "not this", "id": 7}
    got = draft(row, tmp_path, fields={"text": "words", "images": "pic"})
    assert shape(got) == [0]
    assert got.metadata == {"videos": ["v.mp4"], "text": "not this", "id": 7}


def test_who_wrote_the_text_is_recorded(tmp_path):
    row = {"text": "<image> a", "images": ["a.png"], "ocr_labels": [1], "annotator": "reader@3"}
    (draft,) = rows.drafts(record(row), config(), reader(tmp_path))
    assert [(r.kind, r.annotator) for r in draft.relations] == [("interleaved", "reader@3"), ("ocr", "reader@3")]
    assert draft.metadata == {"annotator": "reader@3"}
