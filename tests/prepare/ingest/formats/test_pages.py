"""Folders of Markdown and HTML: generated sites, where pictures lie, encodings, hostile pages."""

from __future__ import annotations

import base64
from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import html, markdown
from shardkit.prepare.ingest.formats.page_file import page_text
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import jsonl, picture
from tests.prepare.ingest.generate_web import BROKEN, EXTENSIONS, write
from tests.prepare.ingest.runs import Ingested

for needed in ("lxml", "markdown_it"):
    pytest.importorskip(needed, reason=f"unavailable: reading pages needs {needed}")

KINDS = sorted(EXTENSIONS)


def shape(example) -> list[str | int | None]:
    return [segment.image if segment.kind == "image" else segment.text for segment in example.segments]


@pytest.mark.parametrize("kind", KINDS)
def test_a_site_of_twenty_pages(tmp_path, kind):
    write(tmp_path / "site", kind)
    got = Ingested(tmp_path / "out", kind, tmp_path / "site")
    assert got.counts == (20, 19, 1)
    assert got.exclusions == {BROKEN + EXTENSIONS[kind]: "invalid_utf8"}
    name = f"posts/page-03{EXTENSIONS[kind]}"
    example = got.rows[name]
    code = '<img src="no.png"> &amp;'
    assert shape(example) == ["Page 3\n\nBefore & around", 0, f"after.\n\n{code}\n\n- first\n- second", 1]
    assert [bytes(image.data) for image in example.images] == [picture(3), picture(1000)]
    assert [(r.kind, r.images, r.segments) for r in example.relations] == [("interleaved", (0, 1), (0, 1, 2, 3))]
    assert example.group == name
    metadata = got.metadata(name)
    assert [image["alt"] for image in metadata["images"]] == ["one 3", "two"]
    assert metadata.get("title", metadata.get("front_matter")) in ("Page 3", "title: Page 3")
    assert got.changes["element_dropped:script"] == 19
    assert got.changes["image_slots"] == 38
    assert "image_dropped" not in got.changes


@pytest.mark.parametrize(
    ("src", "found"),
    [
        ("../img/x y.png", True), ("../img/x%20y.png", True), ("/img/x%20y.png?v=1#top", True), ("img/x y.png", True),
        ("../../secret.png", False), ("/../secret.png", False), ("file:///etc/hostname", False), ("/etc/hostname", False),
        ("https://host/none.png", False), ("//host/kept.png", True), ("https://host/kept.png#top", True), ("", False),
        ("data:image/png;base64,@@", False), ("\\\\host\\x.png", False), ("http://[bad/x.png", False),
    ],
)  # fmt: skip
def test_pictures_are_found_inside_the_roots_and_nowhere_else(tmp_path, src, found):
    (tmp_path / "secret.png").write_bytes(picture(9))
    site = tmp_path / "site"
    (site / "posts").mkdir(parents=True)
    (site / "img").mkdir()
    (site / "img" / "x y.png").write_bytes(picture())
    (site / "posts" / "a.html").write_text(f'<p>text<img src="{src}">')
    url_map = tmp_path / "store" / "map.jsonl"
    url_map.parent.mkdir()
    url_map.write_bytes(jsonl([{"url": "https://host/kept.png", "file": "kept.png"}]))
    (tmp_path / "store" / "kept.png").write_bytes(picture())
    got = Ingested(tmp_path / "out", "html", site, url_maps=(url_map,))
    assert len(got.rows["posts/a.html"].images) == found
    assert got.counts == (1, 1, 0)


def test_the_first_address_of_a_picture_that_is_there_is_taken(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "small.png").write_bytes(picture())
    inline = "data:image/png;base64," + base64.b64encode(picture(1)).decode()
    page = f"<img src=none.png srcset='large.png 2x, small.png 1x'><img src='{inline}' srcset='none.png 2x'>"
    (tmp_path / "site" / "a.html").write_text(page)
    got = Ingested(tmp_path / "out", "html", tmp_path / "site")
    assert [bytes(image.data) for image in got.rows["a.html"].images] == [picture(), picture(1)]
    assert [image["src"] for image in got.metadata("a.html")["images"]] == ["none.png", "data:"]


def test_pictures_may_lie_below_another_root(tmp_path):
    (tmp_path / "site" / "posts").mkdir(parents=True)
    (tmp_path / "static" / "img").mkdir(parents=True)
    (tmp_path / "static" / "img" / "a.png").write_bytes(picture())
    (tmp_path / "site" / "posts" / "a.md").write_text("![a](/img/a.png)\n\n![b](../img/a.png)")
    got = Ingested(tmp_path / "out", "markdown", tmp_path / "site", images=(tmp_path / "static",))
    assert shape(got.rows["posts/a.md"]) == [0, 0]


def test_remote_pictures_of_a_page_with_a_base(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.html").write_text("<base href='https://host/docs/'><img src='../kept.png'>")
    (tmp_path / "map.jsonl").write_bytes(jsonl([{"url": "https://host/kept.png", "file": "kept.png"}]))
    (tmp_path / "kept.png").write_bytes(picture())
    got = Ingested(tmp_path / "out", "html", site, url_maps=(tmp_path / "map.jsonl",))
    assert len(got.rows["a.html"].images) == 1


def test_a_declared_encoding_is_taken_and_an_unknown_one_is_not():
    text = "<meta charset=GBK><p>\u4e2d\u6587"
    changes: Counter[str] = Counter()
    assert page_text(text.encode("gbk"), changes) == text
    assert changes == {"charset:gbk": 1}
    assert page_text(text.encode(), changes) == text, "UTF-8 that declares another encoding is UTF-8"
    assert page_text(text.encode("utf-16"), changes) == text
    for data in (b"<meta charset=x-own>\xff", b"\xff<meta charset=utf-8>", "<p>a".encode("utf-16")[2:] + b"\xff", b"\xb5\xff\xff" + b"<meta charset=euc-jp>"):  # fmt: skip
        with pytest.raises(Bad) as bad:
            page_text(data, changes)
        assert bad.value.reason == "invalid_utf8"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no_content"), (b"---\na: 1\n---\n", "no_content"), (b"<!-- x -->", "no_content"),
        (b"> " * 200 + b"deep", "too_deep"), (b"a" * (markdown.MAX_BYTES + 1), "too_many_bytes"), (b"a\xff", "invalid_utf8"),
    ],
    ids=["empty", "front matter alone", "comment alone", "deep", "large", "not utf-8"],
)  # fmt: skip
def test_a_page_that_cannot_be_used_harms_no_other(tmp_path, data, reason):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "bad.md").write_bytes(data)
    (tmp_path / "site" / "good.markdown").write_bytes(b"fine")
    got = Ingested(tmp_path / "out", "markdown", tmp_path / "site")
    assert got.exclusions == {"bad.md": reason}
    assert got.rows["good.markdown"].text == "fine"


@pytest.mark.parametrize("address", ["file:///etc/hostname", "data:image/bmp;base64,AAAA", "javascript:1"])
def test_an_address_in_markdown_is_never_text(tmp_path, address):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.md").write_text(f"Before ![alt]({address}) after, [link]({address}).\n")
    got = Ingested(tmp_path / "out", "markdown", tmp_path / "site")
    assert got.rows["a.md"].text == "Beforeafter, link."
    assert got.changes["image_dropped"] == 1


@pytest.mark.parametrize("head", ["", '<?xml version="1.0"?>\n', "<!-- a -->"])
def test_a_document_type_with_an_internal_subset_is_excluded_and_a_bare_one_ignored(head):
    assert page_text(f"{head}<!DOCTYPE html><p>a [b]".encode(), Counter()).endswith("a [b]")
    with pytest.raises(Bad) as bad:
        page_text(f'{head}<!DOCTYPE html [<!ENTITY e SYSTEM "file:///x">]><p>a'.encode(), Counter())
    assert bad.value.reason == "document_type"


def test_only_files_of_the_format_are_read(tmp_path):
    for name in ("a.md", "a.png", "b.html", "c.txt", "README.md"):
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / name).write_bytes(picture() if name.endswith("png") else b"text")
    assert sorted(Ingested(tmp_path / "md", "markdown", tmp_path / "site").rows) == ["README.md", "a.md"]
    assert sorted(Ingested(tmp_path / "html", "html", tmp_path / "site").rows) == ["b.html"]
    assert sorted(Ingested(tmp_path / "one", "html", tmp_path / "site" / "b.html").rows) == ["b.html"]
    assert sorted(Ingested(tmp_path / "text", "text", tmp_path / "site").rows) == ["c.txt"]


def test_the_same_pages_are_unchanged_and_workers_make_no_difference(tmp_path):
    write(tmp_path / "site", "html")
    one = Ingested(tmp_path / "one", "html", tmp_path / "site").result
    two = Ingested(tmp_path / "two", "html", tmp_path / "site", workers=2, unit_size=500).result
    again = Ingested(tmp_path / "one", "html", tmp_path / "site").result
    assert again.unchanged
    assert again.dataset == one.dataset
    assert (two.tally.read, two.tally.kept) == (20, 19)


def test_html_labels_are_their_own():
    assert html.LABELS == (".html", ".htm", ".xhtml")
