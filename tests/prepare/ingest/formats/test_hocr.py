"""hOCR, well-formed and not."""

from __future__ import annotations

import html
import time
from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import hocr
from shardkit.prepare.ingest.formats.layout_head import of_html
from shardkit.prepare.ingest.reasons import Bad


def word(text: str, more: str = "; x_wconf 91") -> str:
    return f"<span class='ocrx_word' id='w' title='bbox 1 2 3 4{more}'>{text}</span>"


def line(*words: str, kind: str = "ocr_line", between: str = " ") -> str:
    return f"<span class='{kind}' title=\"bbox 0 0 40 9; baseline 0.01 -2; textangle 180\">{between.join(words)}</span>"


def page(*inner: str, title: str = 'image "a b.png"; bbox 0 0 50 60; ppageno 2') -> str:
    return f"<div class='ocr_page' id='p' title='{title}'>{''.join(inner)}</div>"


def document(*pages: str, end: str = "</body></html>") -> bytes:
    head = "<head><title/><meta name='ocr-system' content='tesseract 5.3.0'/></head>"
    return f"<html xmlns='http://www.w3.org/1999/xhtml' lang='de'>{head}<body>{''.join(pages)}{end}".encode()


def read(data: bytes):
    changes: Counter[str] = Counter()
    return hocr.read(data, changes), +changes


def test_areas_paragraphs_lines_and_words():
    area = f"<div class='ocr_carea' title='bbox 0 0 45 50'><p class='ocr_par' title='bbox 0 0 44 49'>{line(word('two'), word('words'))}</p></div>"
    label, changes = read(document(page(area)))
    assert label.text == "two words"
    assert [(i.level, i.text, i.polygon, i.parent, i.confidence) for i in label.layout] == [
        ("region", None, (0, 0, 45, 50), None, None), ("region", None, (0, 0, 44, 49), 0, None),
        ("line", "two words", (0, 0, 40, 9), 1, None), ("word", "two", (1, 2, 3, 4), 2, 0.91), ("word", "words", (1, 2, 3, 4), 2, 0.91),
    ]  # fmt: skip
    assert (label.page_size, label.image) == ((60, 50), "a b.png")
    assert label.fields == {"page": 3, "annotator": "tesseract@5.3.0", "language": "de"}
    assert changes == {}


@pytest.mark.parametrize("kind", ["ocr_line", "ocrx_line", "ocr_header", "ocr_caption", "ocr_textfloat"])
def test_all_kinds_of_lines(kind):
    assert read(document(page(line(word("a"), kind=kind))))[0].text == "a"


def test_space_is_what_html_makes_of_it():
    assert read(document(page(line(word("a"), word("b"), between="\n      "))))[0].text == "a b"
    assert read(document(page(line(word("a"), word("<strong> b </strong>"), between=""))))[0].text == "a b"
    joined = page(line(word("\u6c49"), word("\u5b57"), between=""), line(word("a"), word("b")))
    assert read(document(joined))[0].text == "\u6c49\u5b57\na b"


def test_lines_without_words_and_words_without_lines():
    loose = f"<p class='ocr_par' title='bbox 0 0 9 9'>{word('no')} {word('line')}</p><p class='ocr_par' title='bbox 0 0 9 9'>mere text</p>"
    label, _ = read(document(page(line("only  a\n line"), loose)))
    assert label.text == "only a line\nno line\nmere text"


def test_html_that_is_no_xml_is_read_all_the_same():
    broken = document(page(line(word("a"), word("b &nbsp; c")), "<br><p>")).replace(b"<meta", b"<meta name=x><meta")
    label, changes = read(broken)
    assert label.text == "a b c"
    assert changes["html_repaired"] == 1
    assert label.fields["annotator"] == "tesseract@5.3.0"


def test_each_page_is_a_label_with_the_image_that_it_names():
    pages = [page(line(word(f"p{n}")), title=f'image "{n}.png"; bbox 0 0 50 60; ppageno {n}') for n in (0, 1)]
    label, _ = read(document(*pages))
    assert [(one.text, one.image, one.fields["page"]) for one in label.pages] == [
        ("p0", "0.png", 1),
        ("p1", "1.png", 2),
    ]


def test_odd_properties_lose_only_themselves():
    odd = line(word("a", "; x_wconf 180"), "<span class='ocrx_word' title='bbox 1 2 x 4'>b</span>")
    label, changes = read(document(page(odd, title="image &quot;a.png&quot;; bbox 10 10 50 60")))
    assert label.text == "a b"
    assert label.page_size is None
    assert changes == {"confidence_unusable": 1, "box_unusable": 1}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (document(page(line(word("")))), "layout_without_text"),
        (document(page()), "empty_text"),
        (document("<p>a page of the web</p>"), "bad_label"),
        (document(page(line(word("a"))), end=""), "cut_off"),
        (b"<!DOCTYPE html [<!ENTITY x 'y'>]>" + document(page(line(word("&x;")))), "document_type"),
        (b"", "invalid_xml"),
    ],
)
def test_documents_that_cannot_be_used(data, reason):
    with pytest.raises(Bad) as bad:
        read(data)
    assert bad.value.reason == reason


@pytest.mark.parametrize(
    ("said", "image"),
    [
        ('image "/tmp/it\'s here; 1.png"', "/tmp/it's here; 1.png"),
        ("image 'page-000.pbm'", "page-000.pbm"),
        ("image my scan 02.png", "my scan 02.png"),
        ("image dog's.png", "dog's.png"),
        ("file book/0001.bin.png", "book/0001.bin.png"),
        ("image", ""),
    ],
)
def test_a_page_names_its_image_with_and_without_quotation_marks(said, image):
    title = f"{said}; bbox 0 0 50 60"
    data = document(page(line(word("a")), title=html.escape(title)))
    label, _ = read(data)
    assert (label.image, label.page_size) == (image, (60, 50))
    assert of_html(data).images == ((image,) if image else ())


def test_a_title_takes_time_in_proportion_to_its_length():
    begin = time.process_time()
    for title in ("a" * 100_000 + "'", "'x\"" * 40_000, 'image "' * 20_000, "; " * 50_000):
        hocr.properties(title)
    assert time.process_time() - begin < 2


def test_a_header_of_several_lines_is_a_region():
    lines = line(word("The"), word("Times")) + line(word("London"))
    header = (
        f"<div class='ocr_header' title='bbox 0 0 45 20'><p class='ocr_par' title='bbox 0 0 45 20'>{lines}</p></div>"
    )
    label, _ = read(document(page(header, line(word("News")))))
    assert label.text == "The Times\nLondon\nNews"
    assert Counter(item.level for item in label.layout) == {"line": 3, "word": 4, "region": 2}


def test_documents_that_were_joined_to_one_file_keep_all_their_pages():
    one, two = (document(page(line(word(text)), title=f'image "{text}.png"; bbox 0 0 50 60')) for text in ("a", "b"))
    label, changes = read(one + b"\n<?xml version='1.0'?>\n" + two)
    assert [(part.text, part.image) for part in label.pages] == [("a", "a.png"), ("b", "b.png")]
    assert label.pages[0].fields["language"] == "de"
    assert changes["html_repaired"] == 1
    fragments = (
        b"<div class='ocr_page'><p class='ocr_par'>one</p></div><div class='ocr_page'><p class='ocr_par'>two</p></div>"
    )
    assert [part.text for part in read(fragments)[0].pages] == ["one", "two"]


def test_lines_and_regions_side_by_side_stay_as_they_stand():
    def area(inner: str) -> str:
        return f"<div class='ocr_carea' title='bbox 0 0 45 50'>{inner}</div>"

    label, _ = read(document(page(line("1"), area(""), area(line("2")), line("3"), area(line("4")), line("5"))))
    assert label.text == "1\n2\n3\n4\n5"
    # Pictures between lines come behind them.
    label, _ = read(document(page(line("1"), area(""), line("2"))))
    assert [item.level for item in label.layout] == ["line", "line", "region"]
