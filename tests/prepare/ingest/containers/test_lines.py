"""JSON lines: every line once, under its number, whatever the unit size and the compression."""

from __future__ import annotations

import bz2
import gzip
import json
import random

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers import lines
from tests.prepare.ingest.builders import changes, config, entries, found, input_file, packed, pieces


def test_blank_lines_crlf_and_the_byte_order_mark_are_no_rows(tmp_path):
    file = input_file(tmp_path, "a.jsonl", b'\xef\xbb\xbf{"n": 1}\r\n\r\n \t\r\n{"n": "\xe2\x80\xa8"}\n\n{"n": 3}')
    got = entries("jsonl", file, config())
    assert found(got) == [("1", {"n": 1}), ("4", {"n": "\u2028"}), ("6", {"n": 3})]
    assert changes(got) == {"byte_order_mark": 1, "crlf_line": 3, "blank_line": 3}


def test_a_cut_last_line_says_that_the_file_may_be_incomplete(tmp_path):
    file = input_file(tmp_path, "a.jsonl", b'{"n": 1}\n{"n": "M\xc3')
    got = entries("jsonl", file, config())
    assert found(got) == [("1", {"n": 1}), ("2", "cut_off")]
    assert "may be incomplete" in got[1].detail


def test_a_bad_line_harms_no_other(tmp_path):
    rows = [json.dumps({"n": n}).encode() for n in range(1000)]
    rows[299] = b'{"n": "\xe9"}'
    got = found(entries("jsonl", input_file(tmp_path, "a.jsonl", b"\n".join(rows)), config()))
    assert got[299] == ("300", "invalid_utf8")
    assert [value["n"] for _, value in got if isinstance(value, dict)] == [n for n in range(1000) if n != 299]


def test_any_unit_size_gives_the_same_rows(tmp_path):
    chance = random.Random(2)
    rows = [json.dumps({"n": n, "pad": "x" * chance.randrange(400)}).encode() for n in range(700)]
    rows[100] = rows[500] = b""
    data = b"\n".join(rows) + b"\n"
    plain = input_file(tmp_path, "a.jsonl", data)
    whole = found(entries("jsonl", plain, config()))
    assert [position for position, _ in whole] == [str(n + 1) for n in range(700) if n not in (100, 500)]
    for packer in (bytes, packed, bz2.compress):
        file = input_file(tmp_path, f"{packer.__name__}.jsonl", packer(data))
        for unit_size in (1, 300, 1000, 7777, len(data) - 1):
            assert found(entries("jsonl", file, config(unit_size=unit_size))) == whole
    sizes = [piece.size for piece in pieces("jsonl", plain, config(unit_size=1000))]
    assert len(sizes) > 50
    assert max(sizes) <= 1000


def test_a_line_over_the_limit_is_excluded_and_its_neighbours_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MAX_LINE", 3000)
    monkeypatch.setattr(lines, "_BLOCK", 1000)
    data = b'{"n": 1}\n{"n": "' + b"x" * 5000 + b'"}\n{"n": 3}\n{"n": "' + b"y" * 9000
    got = entries("jsonl", input_file(tmp_path, "a.jsonl", data), config())
    assert found(got) == [("1", {"n": 1}), ("2", "line_too_long"), ("3", {"n": 3}), ("4", "line_too_long")]
    assert "5009 bytes" in got[1].detail


def test_chunks_hold_few_rows_and_bytes(tmp_path):
    rows = b"".join(b'{"n": %d}\n' % n for n in range(1000))
    file = input_file(tmp_path, "a.jsonl", rows)
    opener = lines.Opener()
    piece = pieces("jsonl", file, config())[0]
    chunks = list(lines.chunks(piece, config(), opener))
    opener.close()
    assert [chunk.data.count(b"\n") + 1 for chunk in chunks] == [256, 256, 256, 232]


@pytest.mark.parametrize("name", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_refused_by_name(tmp_path, name):
    file = input_file(tmp_path, "a.jsonl", '{"text": "plain"}\n'.encode(name))
    with pytest.raises(SourceError, match=name[:6].upper()) as error:
        lines.check(file, (), config())
    assert "iconv" in error.value.hint


def test_a_cut_stream_is_refused_and_salvaged_on_demand(tmp_path):
    data = b"".join(b'{"n": %d}\n' % n for n in range(5000))
    cut = gzip.compress(data)[:-200]
    file = input_file(tmp_path, "a.jsonl.gz", cut)
    with pytest.raises(SourceError, match=r"a\.jsonl\.gz.*cut off"):
        entries("jsonl", file, config())
    got = found(entries("jsonl", file, config(salvage=True)))
    assert got[-1][1] == "damaged_input"
    assert [value["n"] for _, value in got[:-1]] == list(range(len(got) - 1))
    assert 1000 < len(got) < 5000


def test_lines_that_end_in_carriage_returns_alone_are_refused(tmp_path):
    file = input_file(tmp_path, "a.jsonl", b'{"n": 1}\r{"n": 2}\r')
    with pytest.raises(SourceError, match="carriage returns") as error:
        lines.check(file, (), config())
    assert "tr " in error.value.hint
    lines.check(input_file(tmp_path, "b.jsonl", b'{"n":\r1}\n'), (), config())


def test_an_array_over_several_lines_is_refused_and_one_on_a_line_is_a_bad_row(tmp_path):
    with pytest.raises(SourceError, match="one JSON array") as error:
        lines.check(input_file(tmp_path, "a.jsonl", b'[\n {"n": 1},\n {"n": 2}\n]\n'), (), config())
    assert ".json" in error.value.hint
    lines.check(input_file(tmp_path, "b.jsonl", b'[{"n": 1}]\n{"n": 2}\n'), (), config())
