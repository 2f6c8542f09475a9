"""What strangers wrote, as it may stand in a message."""

from __future__ import annotations

from shardkit.text.excerpt import excerpt


def test_a_short_text_stands_as_it_is_and_a_long_one_is_cut_to_the_limit():
    assert excerpt("n\u00e9 \u6f22", 4) == "n\u00e9 \u6f22"
    assert excerpt("abcdefgh", 7) == "abcd..."


def test_nothing_in_it_moves_a_cursor_or_hides():
    assert excerpt("a\x1b[2J\n\u202e") == "a\\x1b[2J\\n\\u202e"
