"""ALTO of several versions: units, hyphens, alternatives, orders, pages."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import alto
from shardkit.prepare.ingest.reasons import Bad

VERSIONS = [
    "http://www.loc.gov/standards/alto/ns-v2#",
    "http://www.loc.gov/standards/alto/ns-v4#",
    "http://schema.ccs-gmbh.com/ALTO",
    "",
]


def string(text: str, more: str = "", inner: str = "", name: str = "") -> str:
    return f'<String ID="{name}" CONTENT="{text}" HPOS="1" VPOS="2" WIDTH="3" HEIGHT="4" {more}>{inner}</String>'


def line(*parts: str, name: str = "l") -> str:
    return f'<TextLine ID="{name}" HPOS="0" VPOS="0" WIDTH="40" HEIGHT="9">{"".join(parts)}</TextLine>'


def block(*lines: str, name: str = "b") -> str:
    return f'<TextBlock ID="{name}" HPOS="0" VPOS="0" WIDTH="40" HEIGHT="30">{"".join(lines)}</TextBlock>'


def page(*blocks: str, attributes: str = 'WIDTH="50" HEIGHT="60" PHYSICAL_IMG_NR="3"') -> str:
    return f'<Page ID="p" {attributes}><PrintSpace>{"".join(blocks)}</PrintSpace></Page>'


def file(*pages: str, unit: str = "pixel", order: str = "", space: str = VERSIONS[1]) -> bytes:
    software = "<OCRProcessing><ocrProcessingStep><processingSoftware><softwareName>tess</softwareName><softwareVersion>5.3</softwareVersion></processingSoftware></ocrProcessingStep></OCRProcessing>"
    description = f"<Description><MeasurementUnit>{unit}</MeasurementUnit><sourceImageInformation><fileName>a.tif</fileName></sourceImageInformation>{software}</Description>"
    return f'<alto xmlns="{space}">{description}{order}<Layout>{"".join(pages)}</Layout></alto>'.encode()


def read(data: bytes):
    changes: Counter[str] = Counter()
    return alto.read(data, changes), +changes


@pytest.mark.parametrize("space", VERSIONS)
def test_blocks_lines_and_words_of_any_version(space):
    label, _ = read(file(page(block(line(string("two", 'WC="0.25"'), "<SP/>", string("words")))), space=space))
    assert label.text == "two words"
    assert [(i.level, i.text, i.polygon, i.parent, i.order, i.confidence) for i in label.layout] == [
        ("region", None, (0, 0, 40, 30), None, 0, None), ("line", "two words", (0, 0, 40, 9), 0, 0, None),
        ("word", "two", (1, 2, 4, 6), 1, 0, 0.25), ("word", "words", (1, 2, 4, 6), 1, 1, None),
    ]  # fmt: skip
    assert (label.page_size, label.image) == ((60, 50), "a.tif")
    assert label.fields == {"page": 3, "annotator": "tess@5.3"}


def test_spaces_stand_where_the_file_puts_them_or_between_words_where_it_puts_none():
    assert read(file(page(block(line(string("a"), string("b"))))))[0].text == "a b"
    assert (
        read(file(page(block(line(string("\u6c49"), string("\u5b57")), line(string("a"), "<SP/>", string("b"))))))[
            0
        ].text
        == "\u6c49\u5b57\na b"
    )


def test_a_divided_word_stays_as_it_is_printed():
    first = line(string("hy", 'SUBS_TYPE="HypPart1" SUBS_CONTENT="hyphen"'), '<HYP CONTENT="-"/>')
    second = line(string("phen", 'SUBS_TYPE="HypPart2" SUBS_CONTENT="hyphen"'))
    assert read(file(page(block(first, second))))[0].text == "hy-\nphen"
    doubled = line(string("hy-"), '<HYP CONTENT="-"/>')
    assert read(file(page(block(doubled, second))))[0].text == "hy-\nphen"


def test_alternatives_are_counted_and_a_polygon_comes_before_the_box():
    inner = (
        '<Shape><Polygon POINTS="1,1 9,1 9,9"/></Shape><ALTERNATIVE>hallo</ALTERNATIVE><ALTERNATIVE>hullo</ALTERNATIVE>'
    )
    label, changes = read(file(page(block(line(string("hello", 'WC="7"', inner))))))
    assert label.text == "hello"
    assert (label.layout[2].polygon, label.layout[2].confidence) == ((1, 1, 9, 1, 9, 9), None)
    assert changes == {"alternatives_left_out": 2, "confidence_unusable": 1, "order_of_document": 1}


def test_the_order_of_nested_groups_names_blocks_lines_and_words():
    blocks = (
        block(line(string("1", name="s1"), name="l1"), line(string("2"), name="l2"), name="b1"),
        block(line(string("3"), name="l3"), name="b2"),
    )
    order = '<ReadingOrder><UnorderedGroup><OrderedGroup><ElementRef REF="b2"/><ElementRef REF="l2"/></OrderedGroup><ElementRef REF="s1"/></UnorderedGroup></ReadingOrder>'
    label, changes = read(file(page(*blocks), order=order))
    assert label.text == "3\n2\n1"
    assert changes == {}
    partial = '<ReadingOrder><OrderedGroup><ElementRef REF="b2"/><ElementRef REF="b2"/></OrderedGroup></ReadingOrder>'
    label, changes = read(file(page(*blocks), order=partial))
    assert label.text == "3\n1\n2"
    assert changes == {"order_repeated": 1, "not_in_order": 1}


def test_margins_composed_blocks_and_pictures():
    composed = f'<ComposedBlock ID="c">{block(line(string("in")), name="i")}<Illustration ID="pic" HPOS="5" VPOS="5" WIDTH="5" HEIGHT="5"/></ComposedBlock>'
    data = file(
        f'<Page WIDTH="50" HEIGHT="60"><TopMargin>{block(line(string("top")), name="t")}</TopMargin><PrintSpace>{composed}</PrintSpace></Page>'
    )
    label, _ = read(data)
    assert label.text == "top\nin"
    regions = [(i.parent, i.polygon) for i in label.layout if i.level == "region"]
    assert regions == [(None, (0, 0, 40, 30)), (None, ()), (3, (0, 0, 40, 30)), (3, (5, 5, 10, 10))]


def test_pages_of_one_file_are_labels_of_their_own_and_a_blank_one_harms_no_other():
    pages = [
        page(block(line(string(f"p{n}"), name=f"l{n}")), attributes=f'WIDTH="5" HEIGHT="6" PHYSICAL_IMG_NR="{n}"')
        for n in (1, 2)
    ]
    order = '<ReadingOrder><OrderedGroup><ElementRef REF="l2"/><ElementRef REF="l1"/></OrderedGroup></ReadingOrder>'
    label, changes = read(file(pages[0], page(), pages[1], order=order))
    assert [(one.text, one.fields.get("page")) for one in label.pages] == [("p1", 1), ("", None), ("p2", 2)]
    assert [one.bad and one.bad.reason for one in label.pages] == [None, "empty_text", None]
    assert changes == {}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (file(page(block(line(string(""))))), "layout_without_text"),
        (file(page()), "empty_text"),
        (file(), "bad_label"),
        (file(page(block(line(string("x")))), unit="furlong"), "bad_label"),
        (file(page(block(line(string("x"))), attributes=""), unit="mm10"), "bad_label"),
        (file(page(block(line(string("x"))), attributes='WIDTH="a" HEIGHT="b"')), "bad_label"),
        (file(page(block(line(string("x"))), attributes='WIDTH="nan" HEIGHT="-1"')), "bad_label"),
    ],
)
def test_files_that_cannot_be_used(data, reason):
    with pytest.raises(Bad) as bad:
        read(data)
    assert bad.value.reason == reason


def test_a_page_of_a_hebrew_manuscript_with_two_orders(shared):
    folder = shared / "data" / "ocr_pagexml" / "kraken" / "alto"
    label, changes = read((folder / "bsb00084914_00007.xml").read_bytes())
    assert Counter(item.level for item in label.layout) == {"region": 5, "line": 31, "word": 86}
    # The second group orders the same lines another way: the first mention counts.
    assert changes == {"order_repeated": 29}
    assert label.text.split("\n")[2] == "\u05d9\u05d5\u05e0\u05d4"
    assert (label.page_size, label.image, label.fields) == ((4308, 3177), "bsb00084914_00007.jpg", {"page": 6})


def test_blocks_follow_their_links_where_the_file_has_no_order():
    def linked(text: str, name: str, following: str = "") -> str:
        more = f' IDNEXT="{following}"' if following else ""
        return block(line(string(text)), name=name).replace("<TextBlock", f"<TextBlock{more}", 1)

    got, changes = read(file(page(linked("one", "a", "c"), linked("three", "b"), linked("two", "c", "b"))))
    assert (got.text, changes) == ("one\ntwo\nthree", {})
    looped, changes = read(file(page(linked("one", "a", "b"), linked("two", "b", "a"))))
    assert (looped.text, changes["not_in_order"]) == ("one\ntwo", 2)
    astray, changes = read(file(page(linked("one", "a", "gone"), linked("two", "b"))))
    assert (astray.text, changes) == ("one\ntwo", {})


def test_a_decimal_comma_is_a_point_and_no_box_is_lost_uncounted():
    comma = string("a").replace('HPOS="1" VPOS="2"', 'HPOS="1,5" VPOS="2,25"')
    label, changes = read(file(page(block(line(comma)))))
    assert (label.layout[2].polygon, changes) == ((1.5, 2.25, 4.5, 6.25), {"order_of_document": 1})
    _, changes = read(file(page(block(line(string("a").replace('WIDTH="3"', 'WIDTH="3 4 5"'))))))
    assert changes["box_unusable"] == 1
