"""HTML as a reader sees it."""

from __future__ import annotations

import time

import pytest

from shardkit.prepare.ingest.formats.web_text import Picture, read_html

pytest.importorskip("lxml", reason="unavailable: reading HTML needs lxml")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one\n  <b>two</b>,\tthree", "one two, three"),
        ("<p>a</p><p>b</p>c", "a\n\nb\n\nc"),
        ("a<br>b", "a\nb"),
        ("<pre>\nif a:\n    b &amp; c\n\n</pre>d", "if a:\n    b & c\n\nd"),
        ("<ul><li>x<li>y</ul>", "- x\n- y"),
        ("<ol start=3><li><p>x</p><ul><li>inner</ul><li>y</ol>", "3. x\n\n  - inner\n4. y"),
        ("<table><tr><th>a<th>b<tr><td>1<td>2</table>", "a\tb\n1\t2"),
        ("&eacute;&#x4e2d;&nbsp;&lt;img src=x&gt; &unknown;", "\u00e9\u4e2d\u00a0<img src=x> &unknown;"),
        ("a<script>if (a < b) { document.write('<p>no') }</script>b", "ab"),
        ("<style>p {}</style><noscript><img src=n></noscript><select><option>o</select>b", "b"),
        ("<svg><text>no</text></svg><iframe>no</iframe><template><p>no</template>b", "b"),
        ("<!DOCTYPE html [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><p>&x;", "]>\n\n&x;"),
        ("</p></div>loose &amp; open <b>text", "loose & open text"),
        ("<p>a<embed src=x>b</p>c<frameset><frame src=y><noframes><p>no</noframes></frameset>", "ab\n\nc"),
        ("<embed src=x>a</p><object><embed src=y>no</object><pre>b</pre>", "a\n\nb"),
    ],
)
def test_text(html, text):
    assert read_html(html).parts == [text]


def test_pictures_stand_between_texts():
    page = read_html("<p>a <img src=1.png alt='x &amp; y' title=t> b<img src=2.png><img alt=none>")
    assert page.parts == ["a", Picture(src="1.png", alt="x & y", title="t"), "b", Picture(src="2.png")]
    assert page.changes == {"picture_without_address": 1}


def test_a_picture_that_is_loaded_later_is_taken():
    page = read_html("<img data-src=1.png src='data:image/gif;base64,R0lGOD'><img src=2.png data-src=3.png>")
    assert [part.src for part in page.parts] == ["1.png", "2.png"]


INLINE = "data:image/gif;base64,R0lGOD"


@pytest.mark.parametrize(
    ("html", "addresses"),
    [
        ("<img class='lazyload' src=blank.gif data-src=1.png>", ["1.png", "blank.gif"]),
        (f"<img src='{INLINE}' srcset='1.png 1x, 2.png 2x'>", [INLINE, "2.png", "1.png"]),
        ("<picture><source srcset=1.avif type=image/avif><source data-srcset='2.webp 2x'><img src=3.png></picture>",
            ["3.png", "1.avif", "2.webp"]),
        ("<picture><source srcset=1.avif><img alt=x></picture>", ["1.avif"]),
        ("<picture><source srcset=1.avif></picture><img src=2.png>", ["2.png"]),
        ("<amp-img src=1.png></amp-img>", ["1.png"]),
        (f"<img src='{INLINE}'> <noscript><img src=1.png></noscript>", ["1.png"]),
        ("<img src=1.png><noscript><img src=2.png></noscript>", ["1.png"]),
    ],
)  # fmt: skip
def test_all_addresses_of_a_picture_are_known_the_one_that_is_shown_first(html, addresses):
    (picture,) = (part for part in read_html(html).parts if isinstance(part, Picture))
    assert [picture.src, *picture.others] == addresses


@pytest.mark.parametrize(
    ("srcset", "src"),
    [
        ("a.png 100w, b.png 200w", "b.png"),
        ("a.png, b.png 2x", "b.png"),
        ("a.png 3x,b.png 2x", "a.png"),
        ("https://x/a,b_1.png 1x, , c.png", "https://x/a,b_1.png"),
        ("a.png", "a.png"),
        ("a.png 1z", "a.png"),
    ],
)
def test_the_largest_of_a_set_stands_in_where_no_address_is_given(srcset, src):
    assert [part.src for part in read_html(f"<img srcset='{srcset}'>").parts if isinstance(part, Picture)] == [src]
    assert [part.src for part in read_html(f"<img src=own.png srcset='{srcset}'>").parts] == ["own.png"]


def test_a_set_without_an_address_is_no_picture():
    page = read_html("<img srcset=' , '>x")
    assert (page.parts, page.changes["picture_without_address"]) == (read_html("x").parts, 1)


def test_what_a_page_hides_is_dropped_and_counted():
    page = read_html("<p>a</p><div hidden>b<div>c</div>d</div><p hidden>e<p>f")
    assert page.parts == ["a\n\nf"]
    assert page.changes == {"element_dropped:hidden": 2}


def test_what_a_page_says_of_itself():
    page = read_html(
        "<html lang=de><title> A &amp;\nB </title><base href='https://x/y/'><meta property='og:url' content=one>"
        "<link rel=canonical href=two><p>c<!-- d -->"
    )
    assert (page.title, page.language, page.base, page.url) == ("A & B", "de", "https://x/y/", "two")
    assert page.parts == ["c"]
    assert page.changes == {"comment_dropped": 1}


@pytest.mark.parametrize("html", ["", "  \n", "<p>", "<!-- x -->", "<script>x</script>"])
def test_nothing_to_read_is_nothing(html):
    assert read_html(html).parts == []


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", "<a b='", "<![CDATA[", "</a ", "<div>", "<i><p>", "<ol><li>", "<ul><li>a", "&", "<"]
)
def test_time_grows_with_length_and_not_faster(piece):
    def seconds(count: int) -> float:
        begin = time.process_time()
        read_html(piece * count)
        return time.process_time() - begin

    few, many = min(seconds(20_000) for _ in range(2)), seconds(160_000)
    assert many < 32 * few + 0.5
