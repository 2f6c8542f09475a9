"""PAGE-XML: regions, lines and words, in the order that the file states."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import page_xml
from shardkit.prepare.ingest.reasons import Bad

SPACE = "http://schema.primaresearch.org/PAGE/gts/pagecontent/2019-07-15"


def line(name: str, text: str | None, inner: str = "", points: str = "0,0 9,0 9,9 0,9", custom: str = "") -> str:
    said = "" if text is None else f"<TextEquiv><Unicode>{text}</Unicode></TextEquiv>"
    return f'<TextLine id="{name}" custom="{custom}"><Coords points="{points}"/>{inner}{said}</TextLine>'


def region(name: str, *inner: str, custom: str = "", kind: str = "TextRegion") -> str:
    return f'<{kind} id="{name}" custom="{custom}"><Coords points="0,0 50,0 50,60 0,60"/>{"".join(inner)}</{kind}>'


def page(*inner: str, order: str = "", attributes: str = 'imageWidth="50" imageHeight="60"') -> bytes:
    stated = f"<ReadingOrder>{order}</ReadingOrder>" if order else ""
    head = "<Metadata><Creator>TRP</Creator></Metadata>"
    return (
        f'<PcGts xmlns="{SPACE}" pcGtsId="d7">{head}<Page imageFilename="a.png" {attributes}>{stated}{"".join(inner)}</Page></PcGts>'
    ).encode()


def read(data: bytes):
    changes: Counter[str] = Counter()
    return page_xml.read(data, changes), +changes


def three(order: str = "") -> bytes:
    return page(*(region(name, line(f"{name}_l", name)) for name in ("r1", "r2", "r3")), order=order)


def refs(*names: str) -> str:
    return "".join(f'<RegionRefIndexed index="{k}" regionRef="{name}"/>' for k, name in enumerate(names))


@pytest.mark.parametrize(
    ("order", "text", "changes"),
    [
        ("", "r1\nr2\nr3", {"order_of_document": 1}),
        (f"<OrderedGroup>{refs('r3', 'r1', 'r2')}</OrderedGroup>", "r3\nr1\nr2", {}),
        # The index decides, not the place.
        ('<OrderedGroup><RegionRefIndexed index="7" regionRef="r1"/><RegionRefIndexed index="2" regionRef="r3"/></OrderedGroup>',
         "r3\nr1\nr2", {"not_in_order": 1}),
        # Groups in groups: an ordered one by index, an unordered one as it stands.
        ('<OrderedGroup><UnorderedGroupIndexed index="1"><RegionRef regionRef="r1"/></UnorderedGroupIndexed>'
         '<OrderedGroupIndexed index="0">' + refs("r3", "r2") + "</OrderedGroupIndexed></OrderedGroup>", "r3\nr2\nr1", {}),
        ("<UnorderedGroup><OrderedGroup>" + refs("r2") + '</OrderedGroup><RegionRef regionRef="r1"/></UnorderedGroup>',
         "r2\nr1\nr3", {"not_in_order": 1}),
        (f"<OrderedGroup>{refs('r2', 'r2', 'gone')}</OrderedGroup>", "r2\nr1\nr3",
         {"order_repeated": 1, "order_of_nothing": 1, "not_in_order": 2}),
    ],
)  # fmt: skip
def test_the_text_follows_the_reading_order(order, text, changes):
    label, found = read(three(order))
    assert label.text == text
    assert found == changes
    regions = [item for item in label.layout if item.level == "region"]
    assert [item.order for item in regions] == [0, 1, 2]


def test_regions_hold_lines_and_lines_hold_words():
    word = '<Word id="w{0}"><Coords points="{0},0 9,0 9,9"/><TextEquiv conf="0.5"><Unicode>{1}</Unicode></TextEquiv></Word>'
    label, _ = read(page(region("r", line("l", None, word.format(1, "two") + word.format(2, "words")))))
    assert label.text == "two words"
    assert [(i.level, i.text, i.parent, i.order, i.confidence) for i in label.layout] == [
        ("region", None, None, 0, None), ("line", "two words", 0, 0, None),
        ("word", "two", 1, 0, 0.5), ("word", "words", 1, 1, 0.5),
    ]  # fmt: skip
    assert label.layout[2].polygon == (1, 0, 9, 0, 9, 9)
    assert label.page_size == (60, 50)
    assert label.image == "a.png"
    assert label.fields == {"document_id": "d7", "annotator": "TRP"}


def test_a_region_inside_a_region_comes_with_it_unless_it_has_a_place_of_its_own():
    table = region("t", line("tl", "head"), region("c1", line("c1l", "cell 1")), region("c2", line("c2l", "cell 2")))
    other = region("r", line("rl", "after"))
    inside = read(page(table, other, order=f"<OrderedGroup>{refs('t', 'r')}</OrderedGroup>"))[0]
    assert inside.text == "head\ncell 1\ncell 2\nafter"
    assert [i.parent for i in inside.layout if i.level == "region"] == [None, 0, 0, None]
    assert read(page(table, other, order=f"<OrderedGroup>{refs('c2', 't', 'r')}</OrderedGroup>"))[0].text == (
        "cell 2\nhead\ncell 1\nafter"
    )


def test_of_several_texts_the_lowest_index_is_the_text():
    choices = (
        '<TextEquiv index="2"><Unicode>third</Unicode></TextEquiv><TextEquiv index="0" conf="0.9"><Unicode>first</Unicode></TextEquiv>'
        "<TextEquiv><Unicode>none</Unicode></TextEquiv>"
    )
    label, changes = read(page(region("r", f'<TextLine id="l"><Coords points="0,0 5,0 5,5"/>{choices}</TextLine>')))
    assert (label.text, label.layout[1].confidence) == ("first", 0.9)
    assert changes["alternatives_left_out"] == 2


def test_points_may_be_elements_and_a_bad_outline_loses_only_itself():
    old = '<TextLine id="l"><Coords><Point x="1" y="2"/><Point x="8" y="2"/><Point x="8" y="9"/></Coords><TextEquiv><Unicode>old</Unicode></TextEquiv></TextLine>'
    label, changes = read(page(region("r", old, line("m", "bad", points="1,2 x,4"), line("n", "none", points=""))))
    assert label.text == "old\nbad\nnone"
    assert [i.polygon for i in label.layout if i.level == "line"] == [(1, 2, 8, 2, 8, 9), (), ()]
    assert changes["box_unusable"] == 2


def test_a_regions_own_text_counts_where_its_lines_say_nothing():
    own = "<TextEquiv><Unicode>of the region</Unicode></TextEquiv>"
    assert read(page(region("r", line("l", None), own)))[0].text == "of the region"
    assert read(page(region("r", line("l", "of the line"), own)))[0].text == "of the line"


def test_places_in_the_custom_attribute_order_what_has_no_other_order():
    def at(n: int) -> str:
        return f"readingOrder {{index:{n};}} structure {{type:paragraph;}}"

    data = page(
        region("r1", line("a", "3"), custom=at(1)), region("r2", line("b", "2", custom=at(1)), line("c", "1", custom=at(0)), custom=at(0)),
    )  # fmt: skip
    assert read(data)[0].text == "1\n2\n3"


def test_a_mark_of_what_cannot_be_read_is_no_text():
    label, changes = read(page(region("r", line("l", "###"), line("m", "clear"))))
    assert label.text == "clear"
    assert [i.text for i in label.layout] == [None, None, "clear"]
    assert changes["illegible_text"] == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (page(region("r", line("l", None), line("m", ""))), "layout_without_text"),
        (page(region("r", kind="ImageRegion")), "empty_text"),
        (page(), "empty_text"),
        (page(region("r", line("l", "x")), attributes='imageWidth="foo" imageHeight="bar"'), "bad_label"),
        (b"<PcGts/>", "bad_label"),
        (b"<alto><Layout><Page/></Layout></alto>", "bad_label"),
        (page(region("r", line("l", "x")))[:-20], "invalid_xml"),
    ],
)
def test_pages_that_cannot_be_used(data, reason):
    with pytest.raises(Bad) as bad:
        read(data)
    assert bad.value.reason == reason


@pytest.mark.parametrize("space", ["http://schema.primaresearch.org/PAGE/gts/pagecontent/2010-03-19", "urn:any", ""])
def test_any_namespace_will_do(space):
    data = three().replace(SPACE.encode(), space.encode())
    assert read(data)[0].text == "r1\nr2\nr3"


def test_plain_text_counts_where_there_is_no_unicode():
    data = b"<PcGts><Page><TextRegion id='r'><TextEquiv><PlainText>plain</PlainText></TextEquiv></TextRegion></Page></PcGts>"
    assert page_xml.read(data, Counter()).text == "plain"


def test_cells_of_a_table_are_regions_and_come_row_by_row():
    def cell(row: int, col: int, *inner: str) -> str:
        name = f"c{row}{col}"
        return region(name, *inner, kind="TableCell").replace("<TableCell", f'<TableCell row="{row}" col="{col}"', 1)

    cells = [cell(r, c, line(f"l{r}{c}", f"{r}{c}")) for r, c in ((0, 1), (1, 1), (0, 0), (10, 0), (2, 0))]
    table = region("t", *cells, cell(1, 0), kind="TableRegion")
    label, _ = read(
        page(region("r", line("rl", "head")), table, order=f"<OrderedGroup>{refs('r', 't')}</OrderedGroup>")
    )
    assert label.text == "head\n00\n01\n11\n20\n100"
    assert Counter(item.level for item in label.layout) == {"region": 8, "line": 6}


def test_a_blank_text_of_a_line_gives_way_to_its_words():
    inner = '<Word id="w"><TextEquiv><Unicode>word</Unicode></TextEquiv></Word>'
    label, changes = read(page(region("r", line("l", "  ", inner))))
    assert (label.text, changes["line_differs_from_words"]) == ("word", 0)
