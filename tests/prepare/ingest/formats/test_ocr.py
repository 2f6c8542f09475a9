"""Pages and lines with their labels, several pages of one file among them."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.formats import ocr
from shardkit.prepare.ingest.formats.tiff_pages import page_frames, tiff_pages
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, picture, reader, record, tiff


def drafts(root, pair: Pair, **settings):
    return list(ocr.drafts(record(pair, pair.stem), config(format="ocr", **settings), reader(root)))


def page(root, name: str, data: bytes, text: bytes | None) -> Pair:
    stem = name.rpartition(".")[0]
    path = root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    if text is not None:
        (root / f"{stem}.txt").write_bytes(text)
    return Pair(stem=stem, images=(name,), labels=((".txt", f"{stem}.txt"),) if text is not None else ())


def test_a_page_is_its_picture_then_its_text(tmp_path):
    (draft,) = drafts(tmp_path, page(tmp_path, "book/p1.png", picture(), b"words\n"))
    assert [(s.kind, s.text) for s in draft.segments] == [("image", None), ("text", "words")]
    assert (draft.input, draft.position, draft.group) == ("book/p1.png", "book/p1", "book")
    assert draft.relations[0].kind == "ocr"


def test_the_group_of_a_file_in_the_input_root_is_the_file(tmp_path):
    (draft,) = drafts(tmp_path, page(tmp_path, "p1.png", picture(), b"words"))
    assert draft.group == "p1.png"


def test_a_picture_without_label_is_excluded_or_kept_as_asked(tmp_path):
    pair = page(tmp_path, "p1.png", picture(), None)
    with pytest.raises(Bad) as bad:
        drafts(tmp_path, pair)
    assert bad.value.reason == "missing_label"
    (draft,) = drafts(tmp_path, pair, on_missing_label="keep")
    assert [s.kind for s in draft.segments] == ["image"]
    assert draft.changes == {"label_missing": 1}


def test_every_page_of_a_tiff_is_a_record_with_its_part_of_the_label(tmp_path):
    got = drafts(tmp_path, page(tmp_path, "box/f.tif", tiff(3), b"one\n\ftwo\n\fthree\n\f"))
    assert [(d.position, d.images[0].frame, d.segments[1].text) for d in got] == [
        ("box/f#1", 0, "one"), ("box/f#2", 1, "two"), ("box/f#3", 2, "three"),
    ]  # fmt: skip
    assert {d.group for d in got} == {"box"}


def test_a_label_of_another_number_of_pages_is_no_label(tmp_path):
    with pytest.raises(Bad, match="3 pages, its label 2"):
        drafts(tmp_path, page(tmp_path, "f.tif", tiff(3), b"one\ftwo"))


@pytest.mark.parametrize("pages", [1, 2, 5])
def test_pages_of_a_tiff_are_counted_without_decoding(pages):
    assert tiff_pages(tiff(pages)) == pages


def levels(*kinds: dict[int, int], **settings) -> bytes:
    """A TIFF of pictures with these tags, each of another grey."""
    frames = [Image.new("L", (8, 8), 20 * k) for k in range(len(kinds))]
    for frame, tags in zip(frames, kinds, strict=True):
        frame.encoderinfo = {"tiffinfo": tags}
    out = io.BytesIO()
    frames[0].save(out, "TIFF", save_all=True, append_images=frames[1:], tiffinfo=kinds[0], **settings)
    return out.getvalue()


@pytest.mark.parametrize("big", [False, True])
def test_previews_levels_of_a_pyramid_and_masks_are_no_pages(tmp_path, big):
    page_of_many, preview, mask, old_preview, old_page = {254: 2}, {254: 1}, {254: 4}, {255: 2}, {255: 3}
    assert page_frames(levels({}, preview, preview, big_tiff=big)) == [0]
    assert page_frames(levels(preview, {}, big_tiff=big)) == [1]
    assert page_frames(levels(page_of_many, preview, old_page, old_preview, mask, big_tiff=big)) == [0, 2]
    assert page_frames(levels(preview, preview, big_tiff=big)) == [0, 1], "there is nothing else"
    assert page_frames(levels({}, preview, big_tiff=big), num_said=2) == [0, 1], "the label has a page for each"
    got = drafts(tmp_path, page(tmp_path, "f.tif", levels({}, preview, {}, preview, big_tiff=big), b"one\ftwo"))
    assert [(d.position, d.images[0].frame, d.segments[1].text) for d in got] == [("f#1", 0, "one"), ("f#2", 2, "two")]
    (alone,) = drafts(tmp_path, page(tmp_path, "g.tif", levels({}, preview, big_tiff=big), b"one"))
    assert (alone.position, alone.images[0].has_siblings, alone.metadata) == ("g", False, {})


def test_what_is_no_tiff_or_ends_early_or_runs_in_circles_has_one_page_at_least():
    assert tiff_pages(picture()) == 1
    assert tiff_pages(b"II*\0") == 1
    whole = tiff(3)
    assert all(1 <= tiff_pages(whole[:cut]) <= 3 for cut in range(0, len(whole), 5))
    # The only directory, without entries, names itself as the next one.
    circle = b"II*\0" + (8).to_bytes(4, "little") + b"\0\0" + (8).to_bytes(4, "little") + bytes(8)
    assert tiff_pages(circle) == 1
