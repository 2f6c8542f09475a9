"""Texts, one a row."""

from __future__ import annotations

import pytest

from shardkit.prepare.ingest.formats import text
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, reader, record


def draft(row, tmp_path, **settings):
    (one,) = text.drafts(record(row), config(format="text", **settings), reader(tmp_path))
    return one


def test_the_text_is_kept_to_the_character_and_the_rest_as_metadata(tmp_path):
    got = draft({"text": " <image> a\r\n", "id": 3}, tmp_path)
    assert [segment.text for segment in got.segments] == [" <image> a\r\n"]
    assert got.metadata == {"id": 3}
    assert draft({"text": "no", "content": "yes"}, tmp_path, fields={"text": "content"}).segments[0].text == "yes"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": [], "prompt": "x"}, "missing_field"),
        ({"text": 12}, "wrong_type"),
        ({"text": None}, "null_text"),
        ({"text": ""}, "empty_text"),
        ({"text": "  \n"}, "empty_text"),
        (7, "not_an_object"),
    ],
)
def test_a_row_is_excluded_for_its_own_reason(tmp_path, row, reason):
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == reason
    if reason == "missing_field":
        assert "conversations, prompt" in bad.value.detail
