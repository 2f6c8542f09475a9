"""Folders of pages with ALTO, PAGE-XML and hOCR, from the command's side; real ones where the shared data is there."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from PIL import Image

from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.store.dataset import Dataset
from tests.prepare.ingest.builders import examples, picture, tiff


def ingest(out, kind: str, *paths, **settings):
    return run(IngestConfig(format=kind, paths=paths, output=out, **settings)).tally


def exclusions(out) -> dict[str, str]:
    entries = map(json.loads, Dataset.open(out).exclusions())
    return {entry["position"]: entry["reason"] for entry in entries}


def levels(example) -> Counter[str]:
    return Counter(item.level for item in example.images[0].layout)


def alto(text: str, size: tuple[int, int] = (12, 8), unit: str = "pixel", image: str = "") -> str:
    string = f'<String CONTENT="{text}" HPOS="2" VPOS="2" WIDTH="4" HEIGHT="3"/>'
    name = f"<sourceImageInformation><fileName>{image}</fileName></sourceImageInformation>"
    pages = f'<Page WIDTH="{size[0]}" HEIGHT="{size[1]}"><PrintSpace><TextBlock><TextLine>{string}</TextLine></TextBlock></PrintSpace></Page>'
    return f"<alto><Description><MeasurementUnit>{unit}</MeasurementUnit>{name}</Description><Layout>{pages}</Layout></alto>"


def hocr(*pages: tuple[str, str]) -> str:
    parts = (
        f"<div class='ocr_page' title='image \"{image}\"; bbox 0 0 12 8'><span class='ocr_line' title='bbox 1 1 5 5'>{text}</span></div>"
        for image, text in pages
    )
    return f"<html><body>{''.join(parts)}</body></html>"


def test_boxes_in_any_unit_are_stored_in_pixels(tmp_path):
    (tmp_path / "in").mkdir()
    for name, size, unit in (("a", (12, 8), "pixel"), ("b", (24, 16), "mm10"), ("c", (120, 80), "inch1200")):
        (tmp_path / "in" / f"{name}.png").write_bytes(picture())
        (tmp_path / "in" / f"{name}.xml").write_text(alto(name, size, unit))
    assert ingest(tmp_path / "out", "ocr", tmp_path / "in").kept == 3
    got = {position: example.images[0].layout[-1].polygon for position, example in examples(tmp_path / "out").items()}
    assert got == {"a": (2, 2, 6, 5), "b": (1, 1, 3, 2.5), "c": pytest.approx((0.2, 0.2, 0.6, 0.5))}


def test_a_layout_of_another_image_is_excluded_and_its_neighbour_is_not(tmp_path):
    (tmp_path / "in").mkdir()
    for name, size in (("a", (12, 8)), ("b", (8, 12))):
        (tmp_path / "in" / f"{name}.png").write_bytes(picture())
        (tmp_path / "in" / f"{name}.alto.xml").write_text(alto(name, size))
    ingest(tmp_path / "out", "alto", tmp_path / "in")
    assert exclusions(tmp_path / "out") == {"b": "image_sizes_wrong"}
    assert set(examples(tmp_path / "out")) == {"a"}


def test_pages_of_a_tiff_take_the_pages_of_their_layout_and_a_blank_one_harms_no_other(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f.tif").write_bytes(tiff(3))
    (tmp_path / "in" / "f.hocr").write_text(
        hocr(("f.tif", "one"), ("f.tif", ""), ("f.tif", "three")).replace("bbox 0 0 12 8", "bbox 0 0 8 8")
    )
    ingest(tmp_path / "out", "ocr", tmp_path / "in")
    got = examples(tmp_path / "out")
    assert {p: (e.text, e.images[0].frame) for p, e in got.items()} == {"f#1": ("one", 0), "f#3": ("three", 2)}
    assert exclusions(tmp_path / "out") == {"f#2": "layout_without_text"}


def test_one_document_may_name_an_image_a_page(tmp_path):
    (tmp_path / "in").mkdir()
    for n in (1, 2):
        (tmp_path / "in" / f"p{n}.png").write_bytes(picture(n))
    (tmp_path / "in" / "book.hocr").write_text(hocr(("p2.png", "two"), ("p1.png", "one")))
    ingest(tmp_path / "out", "hocr", tmp_path / "in")
    got = examples(tmp_path / "out")
    assert {p: (e.text, e.images[0].path) for p, e in got.items()} == {
        "book#1": ("two", "p2.png"), "book#2": ("one", "p1.png"),
    }  # fmt: skip


def test_a_blank_page_and_one_without_its_image_cost_no_other_of_their_document(tmp_path):
    (tmp_path / "in").mkdir()
    for name, size in (("p1.png", (12, 8)), ("p2.png", (12, 8)), ("p4.jpg", (12, 8))):
        (tmp_path / "in" / name).write_bytes(picture(0, size, "JPEG" if name.endswith("jpg") else "PNG"))
    pages = (("C:\\x\\p1.png", "one"), ("p2.png", ""), ("p3.png", "three"), ("p4.tif", "four"))
    (tmp_path / "in" / "book.hocr").write_text(hocr(*pages))
    tally = ingest(tmp_path / "out", "hocr", tmp_path / "in")
    got = examples(tmp_path / "out")
    assert {p: (e.text, e.images[0].path) for p, e in got.items()} == {
        "book#1": ("one", "p1.png"), "book#4": ("four", "p4.jpg"),
    }  # fmt: skip
    assert exclusions(tmp_path / "out") == {"book#2": "layout_without_text", "book#3": "asset_missing"}
    assert tally.read == 4


def test_a_layout_given_by_itself_finds_its_image_in_the_roots_and_nowhere_else(tmp_path):
    for folder in ("labels", "images", "elsewhere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "images" / "a.png").write_bytes(picture())
    (tmp_path / "elsewhere" / "b.png").write_bytes(picture())
    (tmp_path / "labels" / "x.xml").write_text(alto("here", image="/scans/a.png"))
    (tmp_path / "labels" / "y.xml").write_text(alto("there", image=str(tmp_path / "elsewhere" / "b.png")))
    ingest(tmp_path / "out", "alto", tmp_path / "labels", images=(tmp_path / "images",))
    assert examples(tmp_path / "out")["x"].text == "here"
    assert set(exclusions(tmp_path / "out")) == {"y"}


def test_a_text_beside_a_layout_bears_witness_whatever_its_spaces(tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in (("a", "two\nwords\n"), ("b", "other words")):
        (tmp_path / "in" / f"{name}.png").write_bytes(picture())
        (tmp_path / "in" / f"{name}.xml").write_text(alto("two words"))
        (tmp_path / "in" / f"{name}.txt").write_text(text)
    assert ingest(tmp_path / "out", "ocr", tmp_path / "in").changes["label_witness"] == 1
    assert exclusions(tmp_path / "out") == {"b": "ambiguous_label"}


def test_one_page_described_in_several_folders_is_one_example(tmp_path):
    for folder in ("alto", "page"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    page = '<PcGts><Page imageFilename="{0}"><TextRegion><TextLine><TextEquiv><Unicode>{1}</Unicode></TextEquiv></TextLine></TextRegion></Page></PcGts>'
    for name, said in (("a", "the same"), ("b", "something else")):
        (tmp_path / "in" / f"{name}.png").write_bytes(picture())
        (tmp_path / "in" / "alto" / f"{name}.xml").write_text(alto("the same", image=f"{name}.png"))
        (tmp_path / "in" / "page" / f"{name}.xml").write_text(page.format(f"{name}.png", said))
    tally = ingest(tmp_path / "out", "ocr", tmp_path / "in")
    assert (tally.read, tally.kept, tally.changes["label_witness"]) == (2, 1, 1)
    assert examples(tmp_path / "out")["a"].text == "the same"
    assert exclusions(tmp_path / "out") == {"b": "ambiguous_label"}


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_boxes_of_a_picture_that_its_file_turns_follow_it(tmp_path, suffix):
    (tmp_path / "in").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (12, 8)).save(tmp_path / "in" / f"a.{suffix}", exif=exif)
    (tmp_path / "in" / "a.xml").write_text(alto("turned").replace("<Page ", '<Page PC="0.5" '))
    tally = ingest(tmp_path / "out", "ocr", tmp_path / "in")
    example = examples(tmp_path / "out")["a"]
    assert (example.images[0].width, example.images[0].height) == (8, 12)
    assert example.images[0].layout[-1].polygon == (3, 2, 6, 6)
    assert tally.changes["layout_turned"] == 1
    assert example.relations[0].confidence == 0.5


def test_boxes_of_a_page_follow_what_turns_that_page(tmp_path):
    (tmp_path / "in").mkdir()
    turned = Image.new("L", (12, 8), 200)
    turned.encoderinfo = {"tiffinfo": {0x0112: 6}}
    Image.new("L", (12, 8), 20).save(tmp_path / "in" / "f.tif", save_all=True, append_images=[turned])
    (tmp_path / "in" / "f.hocr").write_text(hocr(("f.tif", "one"), ("f.tif", "two")))
    ingest(tmp_path / "out", "ocr", tmp_path / "in")
    got = {p: (e.images[0].width, e.images[0].layout[-1].polygon) for p, e in examples(tmp_path / "out").items()}
    assert got == {"f#1": (12, (1, 1, 5, 5)), "f#2": (8, (3, 1, 7, 5))}
    assert verify(VerifyConfig(dataset=tmp_path / "out", deep=True)).problems == ()


# --------------------------------------------------------------------------- real data
def test_a_page_of_a_book_in_hocr(shared, tmp_path):
    ingest(tmp_path / "out", "hocr", shared / "data" / "ocr_hocr")
    example = examples(tmp_path / "out")["tess"]
    # The class names stand 504 and 38 times in the file; once each of that in its list of capabilities.
    assert levels(example) == {"word": 503, "line": 37, "region": 10}
    assert example.text.startswith(
        "1 Down the Rabbit-Hole\nAlice was beginning to get very tired of sitting by her sister on the"
    )
    assert example.relations[0].annotator == "tesseract@3.03"
    assert json.loads(example.metadata)["page"] == 1
    # The other document's text file has a quotation mark more.
    assert exclusions(tmp_path / "out") == {"sample": "ambiguous_label"}


def test_pages_in_page_xml_and_alto_some_of_them_broken_on_purpose(shared, tmp_path):
    tally = ingest(tmp_path / "out", "ocr", shared / "data" / "ocr_pagexml")
    got = examples(tmp_path / "out")
    assert (tally.read, tally.kept) == (11, 4)
    assert exclusions(tmp_path / "out") == {
        "kraken/alto/bsb00084914_00007": "asset_missing",
        "kraken/alto/invalid/dims": "bad_label",
        "kraken/alto/invalid/image": "no_image",
        "kraken/page/explicit_ro": "asset_missing",
        "kraken/page/explicit_ro_unordered": "asset_missing",
        "kraken/page/invalid/dims": "bad_label",
        "kraken/page/zero_dims": "empty_text",
    }
    assert levels(got["kant/WORD_0017"]) == {"region": 11, "line": 23, "word": 125}
    assert levels(got["kant/PAGE_0017_PAGE"]) == {"region": 13, "line": 24, "word": 161}
    assert levels(got["kraken/170025120000003,0074"]) == {"region": 4, "line": 44}
    assert got["kant/WORD_0017"].text.startswith(
        "Berlini\u017fche Monats\u017fchrift.\n1 7 8 4.\nZwo\u0364lftes Stu\u0364k. December.\nI."
    )
    assert got["kant/WORD_0017"].images[0].path == "INPUT_0017.tif"


def test_scanned_pages_with_and_without_text(shared, tmp_path):
    tally = ingest(tmp_path / "out", "ocr", shared / "data" / "ocr_pages_tesseract")
    assert (tally.read, tally.kept, dict(tally.excluded)) == (7, 3, {"missing_label": 4})
    kept = ingest(tmp_path / "kept", "ocr", shared / "data" / "ocr_pages_tesseract", on_missing_label="keep")
    assert (kept.read, kept.kept, kept.changes["label_missing"]) == (7, 7, 4)
