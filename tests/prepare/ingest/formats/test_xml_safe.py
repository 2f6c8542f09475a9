"""XML from anywhere: what is in it, and what it cannot make a reader do."""

from __future__ import annotations

import contextlib
import time

import pytest

from shardkit.prepare.ingest.formats.html_tree import parse_html
from shardkit.prepare.ingest.formats.xml_safe import MAX_DEPTH, decoded_xml, parse_xml
from shardkit.prepare.ingest.reasons import Bad


def reason(data: bytes, parse=parse_xml) -> str:
    with pytest.raises(Bad) as bad:
        parse(data)
    return bad.value.reason


def test_elements_and_attributes_go_by_their_local_names():
    root = parse_xml(b'<p:a xmlns:p="urn:x" p:k="v"><b xmlns="urn:y">one<c/>two</b></p:a>')
    assert (root.name, root.get("k")) == ("a", "v")
    assert [element.name for element in root.below()] == ["a", "b", "c"]
    assert root.text() == "onetwo"


def test_a_bare_document_type_is_nothing_and_its_named_characters_are_those_of_html():
    dtd = b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://127.0.0.1:9/xhtml1.dtd">'
    assert parse_xml(dtd + b"<p>a&nbsp;b&amp;c&eacute;</p>").text() == "a\u00a0b&c\u00e9"
    assert reason(dtd + b"<p>&nosuch;</p>") == "invalid_xml"


@pytest.mark.parametrize(
    "subset",
    [b'<!ENTITY x "y">', b'<!ENTITY x SYSTEM "file:///etc/hostname">', b'<!ENTITY % x SYSTEM "http://127.0.0.1:9/x">%x;', b""],
)  # fmt: skip
def test_an_internal_subset_is_not_taken(subset):
    assert reason(b"<!DOCTYPE a [" + subset + b"]><a>&x;</a>") == "document_type"
    assert (
        reason(b"<!doctype a [" + subset + b"]><a>&x;</a>", lambda data: parse_html(data.decode())) == "document_type"
    )


def test_nested_entities_never_grow():
    lines = b"".join(b'<!ENTITY e%d "%s">' % (n, b"&e%d;" % (n - 1) * 10) for n in range(1, 12))
    begin = time.monotonic()
    assert reason(b'<!DOCTYPE a [<!ENTITY e0 "ha">' + lines + b"]><a>&e11;</a>") == "document_type"
    assert time.monotonic() - begin < 1


def test_depth_and_number_of_elements_are_bounded(monkeypatch):
    assert parse_xml(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH).name == "a"
    assert reason(b"<a>" * (MAX_DEPTH + 1) + b"</a>" * (MAX_DEPTH + 1)) == "too_deep"
    assert reason(b"<a>" * 10_000, lambda data: parse_html(data.decode())) == "too_deep"
    monkeypatch.setattr("shardkit.prepare.ingest.formats.xml_safe.MAX_ELEMENTS", 10)
    assert parse_xml(b"<a>" + b"<b/>" * 9 + b"</a>").name == "a"
    assert reason(b"<a>" + b"<b/>" * 10 + b"</a>") == "too_many_elements"


@pytest.mark.parametrize("data", [b"", b"   ", b"<a>", b"<a></b>", b"<a>&x;</a>", b"<a/><b/>", b"<a>\0</a>", b"no xml"])
def test_what_is_not_well_formed_is_named_with_its_place(data):
    assert reason(data) == "invalid_xml"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<a>Gr\u00fc\u00dfe</a>".encode(), "Gr\u00fc\u00dfe"),
        (b"\xef\xbb\xbf" + "<a>Gr\u00fc\u00dfe</a>".encode(), "Gr\u00fc\u00dfe"),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><a>Gr\u00fc\u00dfe</a>".encode("latin-1"), "Gr\u00fc\u00dfe"),
        (
            "<?xml version='1.0' encoding='windows-1252'?><a>\u201cGr\u00fc\u00dfe\u201d</a>".encode("cp1252"),
            "\u201cGr\u00fc\u00dfe\u201d",
        ),
        ("<?xml version='1.0' encoding='GB18030'?><a>\u6c49\u5b57</a>".encode("gb18030"), "\u6c49\u5b57"),
        ("<?xml version='1.0' encoding='UTF-16'?><a>\u6c49\u5b57</a>".encode("utf-16"), "\u6c49\u5b57"),
        ("<?xml version='1.0' encoding='UTF-16'?><a>\u6c49\u5b57</a>".encode("utf-16-be"), "\u6c49\u5b57"),
        (b"<?xml version='1.0' encoding='UTF-16'?><a>plain after all</a>", "plain after all"),
    ],
)
def test_the_encoding_is_that_of_the_mark_or_the_declaration(data, text):
    assert parse_xml(data).text() == text


def test_bytes_of_another_encoding_are_named_with_their_place():
    with pytest.raises(Bad, match="byte 5, 0xfc") as bad:
        parse_xml("<a>Gr\u00fc\u00dfe</a>".encode("latin-1"))
    assert bad.value.reason == "invalid_utf8"
    assert reason("<?xml version='1.0' encoding='shift_jis'?><a>Gr\xfc\xdfe</a>".encode("latin-1")) == "bad_encoding"


@pytest.mark.parametrize("name", ["klingon", "rot13", "punycode", "unicode_escape", "base64", "idna"])
def test_encodings_that_are_none_of_texts_are_not_known(name):
    assert reason(f"<?xml version='1.0' encoding='{name}'?><a/>".encode()) == "bad_encoding"


def test_html_says_its_encoding_in_a_meta_element():
    head = '<html><head><meta http-equiv=Content-Type content="text/html; charset=ISO-8859-1"></head><p>Gr\u00fc\u00dfe</html>'
    assert "Gr\u00fc\u00dfe" in decoded_xml(head.encode("latin-1"), is_html=True)


def test_html_without_its_end_tags():
    root = parse_html(
        "<HTML><head><meta name=a content='b'><body><P Class=x>one<br>two<p>three &lt; &eacute;</p></b></HTML>"
    )
    assert [(p.get("class"), p.text()) for p in root.below("p")] == [("x", "onetwo"), ("", "three < \u00e9")]
    assert next(root.below("meta")).attributes == {"name": "a", "content": "b"}
    assert parse_html("<div><!-- <p> --><script>if (a<b) x='</p>'</script>text</div>").text() == "text"


def test_html_that_is_cut_off_is_no_shorter_document():
    with pytest.raises(Bad, match="end tag") as bad:
        parse_html("<html><body><p>one</p><p>tw")
    assert bad.value.reason == "cut_off"


@pytest.mark.parametrize(
    "piece", ["<", "<a ", '<a "', "<a '<b \"", "<!--", "<!", "<script>", "&", "&#", "<p>", "</x>", "<?"]
)
def test_html_takes_time_in_proportion_to_its_length(piece):
    begin = time.monotonic()
    with contextlib.suppress(Bad):
        parse_html("<div>" + piece * (200_000 // len(piece)))
    assert time.monotonic() - begin < 4
