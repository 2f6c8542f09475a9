"""Texts, one a row."""

from __future__ import annotations

import gzip

import pytest

from shardkit.media.limits import MediaLimits
from shardkit.prepare.ingest.formats import text
from shardkit.prepare.ingest.reasons import Bad
from shardkit.store.dataset import Dataset
from tests.prepare.ingest.builders import config, packed, reader, record
from tests.prepare.ingest.runs import Ingested


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


def test_files_are_texts_too(tmp_path):
    folder = tmp_path / "books"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "one.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (folder / "blank.TXT").write_bytes(b" \n")
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    (folder / "other.log").write_bytes(b"no")
    got = Ingested(tmp_path / "out", "text", folder)
    assert got.counts == (3, 1, 2)
    assert got.exclusions == {"blank.TXT": "empty_text", "latin.txt": "invalid_utf8"}
    assert got.rows["a/one.txt"].text == "one\ntwo"
    assert got.rows["a/one.txt"].group == "a/one.txt"
    assert got.changes == {"byte_order_mark": 1, "crlf_text": 1}


def test_packed_files_are_read_and_bounded(tmp_path):
    folder = tmp_path / "books"
    folder.mkdir()
    (folder / "one.txt.gz").write_bytes(packed(b"page one\n\x0cpage two\n"))
    (folder / "bomb.txt.gz").write_bytes(gzip.compress(b"a" * 5000))
    (folder / "cut.txt.gz").write_bytes(gzip.compress(b"whole")[:-4])
    got = Ingested(tmp_path / "out", "auto", folder, limits=MediaLimits(max_bytes=4096))
    assert got.exclusions == {"bomb.txt.gz": "too_many_bytes", "cut.txt.gz": "damaged_input"}
    assert got.rows["one.txt.gz"].text == "page one\n\x0cpage two"


def test_tables_come_before_files(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(b'{"text": "row"}\n')
    (tmp_path / "in" / "LICENSE.txt").write_bytes(b"licence")
    assert [row.text for row in Ingested(tmp_path / "out", "text", tmp_path / "in").examples] == ["row"]
    assert Ingested(tmp_path / "one", "text", tmp_path / "in" / "LICENSE.txt").rows["LICENSE.txt"].text == "licence"


def test_an_array_of_texts_is_read_and_no_other_array(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('[{"text": "one", "lang": "en"}, {"text": 2}, {"text": "three"}]')
    (folder / "notes.json").write_text('[{"title": "none of ours"}]')
    result = Ingested(tmp_path / "out", "text", folder)
    assert result.counts == (3, 2, 1)
    assert sorted(row.text for row in result.rows.values()) == ["one", "three"]
    assert Dataset.open(tmp_path / "out").manifest.report["ignored_files"] == 1
