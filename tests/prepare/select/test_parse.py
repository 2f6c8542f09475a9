"""The language of --where: what it means, and what it refuses without running anything."""

from __future__ import annotations

import time

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.select.bind import bind
from shardkit.prepare.select.parse import MAX_DEPTH, MAX_LENGTH, parse
from shardkit.prepare.select.tree import written


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (
            "width>=256 AND lang='en' and licence <> \"unknown\"",
            "width >= 256 and lang == 'en' and licence != 'unknown'",
        ),
        ("a == 1 or b == 2 and c == 3", "a == 1 or b == 2 and c == 3"),
        ("(a == 1 or b == 2) and c == 3", "(a == 1 or b == 2) and c == 3"),
        ("not a == 1 and b == 2", "not a == 1 and b == 2"),
        ("not (a == 1 and b == 2)", "not (a == 1 and b == 2)"),
        ("a - b - c > -1", "((a - b) - c) > -1"),
        ("a + b * 2 == 1e3", "(a + (b * 2)) == 1000"),
        ("x in ('a', \"b\") or y not in (1, -2.5)", "x in ('a', 'b') or y not in (1, -2.5)"),
        ("x is null or y IS NOT NULL", "x is null or y is not null"),
        ("text like '%it''s%' and not text matches '\\d+'", "text like '%it''s%' and not text matches '\\d+'"),
        ("any(class == 'blank')", "any(class == 'blank')"),
        ("android == 'yes' and inner == 'no' and any == 1", "android == 'yes' and inner == 'no' and any == 1"),
        ("metadata.'clip score'.and > 0.3", "metadata.'clip score'.and > 0.3"),
        ("((((a))))", "a"),
    ],
)
def test_a_condition_has_one_way_of_writing(text: str, canonical: str):
    tree = parse(text)
    assert written(tree) == canonical
    assert parse(canonical) == tree


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "--where is empty"),
        (" \n", "--where is empty"),
        ("__import__('os').system('true')", "character 11 begins what has no place there: ('os').system('true')"),
        ("width.__class__()", "character 16 begins what has no place there: ()"),
        ("open('/etc/passwd') is null", "character 5 begins"),
        ("2 ** 99999999 > width", "character 4 begins what has no place there: * 99999999 > width"),
        ("width ^ 2 > 1", "character 7 begins"),
        ("[x for x in width] == 1", "character 1 begins"),
        ("lambda: 1", "character 7 begins"),
        ("width; drop", "character 6 begins"),
        ("1 < width < 3", "character 11 begins"),
        ("width == 'x", "the text that begins at character 10 has no end: 'x"),
        ("width ==", "it ends too early"),
        ("width == 1 and", "it ends too early"),
        ("width in ()", "character 11 begins"),
        ("width == 1\x00", "character 11 begins what has no place there: \\x00"),
        ("width == 0x10", "character 10 begins"),
        ("width == \ud800", "character 10 begins what has no place there: \\ud800"),
        ("1e999 == width", "the number 1e999 is too large"),
        (f"width == {'9' * 5000}", "is too large"),
        ("not " * 2400 + "has_gps", f"nested more than {MAX_DEPTH} deep"),
        ("width == " + "-" * 9000 + "(width)", f"nested more than {MAX_DEPTH} deep"),
        ("width" + " + width" * 1200 + " > 1", f"nested more than {MAX_DEPTH} deep"),
        ("any(" * 60 + "has_gps" + ")" * 60, f"nested more than {MAX_DEPTH} deep"),
        ("x" * (MAX_LENGTH + 1), f"has {MAX_LENGTH + 1} characters, the limit is {MAX_LENGTH}"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, told: str):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert told in caught.value.what
    assert "docs/select.md" in caught.value.hint or "brackets" in caught.value.hint or "smaller" in caught.value.hint


def test_long_conditions_are_no_deep_ones():
    start = time.monotonic()
    tree = parse("(" * 2000 + " or ".join(["width == 1"] * 400) + ")" * 2000)
    assert (tree.depth, len(tree.parts)) == (3, 400)
    assert parse("text == '" + "a" * 9000 + "'").depth == 2
    assert time.monotonic() - start < 30  # seconds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("widht >= 3", "widht is neither a column nor a metadata field of the first rows; did you mean width?"),
        ("score >= 3", "did you mean scores or source?"),
        ("qqq == 1", "qqq is neither a column nor a metadata field of the first rows"),
        ("width == 'wide'", "width == 'wide' compares a number with text"),
        ("text > 3", "compares text with a number"),
        ("width and has_email", "width is a number, not true or false"),
        ("has_email > false", "asks for an order of true and false"),
        ("width in (1, 'a')", "mixes a number and text"),
        ("width in ('a')", "width is a number, not text"),
        ("width like '1%'", "width is a number, not text"),
        ("text + 1 > 2", "text is text, not a number"),
        ("width.x == 1", "width is a column and has no parts"),
        ("metadata == 1", "metadata is neither a column"),
        ("any(any(has_gps))", "any() stands inside any()"),
        ("all(text_length > 3)", "all(text_length > 3) says nothing of an image"),
        ("text matches '(a'", "'(a' is no pattern for matches"),
        ("text matches 'a(?=b)'", "is no pattern for matches"),
        ("text matches '(a{1000}){1000}'", "is no pattern for matches"),
        ("1 == 1", "--where names no column"),
        ("true", "--where names no column"),
    ],
)
def test_names_and_types_are_judged_before_a_row_is_read(text: str, told: str):
    with pytest.raises(ConfigError) as caught:
        bind(parse(text), ["scores"])
    assert told in caught.value.what


def test_a_field_is_read_as_what_it_is_compared_with():
    bound = bind(
        parse("scores > 3 and metadata.width == 'x' and scores is not null and lang == metadata.tongue"), ["scores"]
    )
    assert bound.fields == {
        (("scores",), "a number"), (("width",), "text"), (("scores",), "present"), (("tongue",), "text"),
    }  # fmt: skip
    assert bound.columns == {"language"}
    assert not bound.of_images
