"""Two files of lines that belong together: their rows in order, and pairs that are refused as a whole."""

from __future__ import annotations

import gzip

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers.line_pairs import both, check, partner
from tests.prepare.ingest.builders import changes, config, entries, found, input_file, picture
from tests.prepare.ingest.runs import Ingested


def write(folder, captions: bytes, addresses: bytes, end: str = ""):
    file = input_file(folder, f"d/SBU_captions.txt{end}", captions)
    input_file(folder, f"d/SBU_urls.txt{end}", addresses)
    return both(file)


@pytest.mark.parametrize(("end", "packed"), [("", lambda data: data), (".gz", gzip.compress)])
def test_a_row_for_each_pair_of_lines_blank_ones_too(tmp_path, end, packed):
    file = write(tmp_path, packed("\ufeffone, \u2028two\r\n\nbad \ufffd three\n".encode()), packed(b"u1\nu2 \nu3"), end)
    check(file, (), config())
    got = entries("line_pairs", file, config())
    assert found(got) == [
        ("1", {"url": "u1", "caption": "one, \u2028two"}),
        ("2", {"url": "u2", "caption": ""}),
        ("3", {"url": "u3", "caption": "bad \ufffd three"}),
    ]
    assert changes(got) == {"crlf_line": 1}


def test_lines_keep_their_numbers_over_chunks_and_behind_a_bad_one(tmp_path):
    lines = [b"c%d" % number for number in range(600)]
    lines[300] = b"caf\xe9"
    file = write(tmp_path, b"\n".join(lines), b"".join(b"u%d\n" % number for number in range(600)))
    rows = found(entries("line_pairs", file, config()))
    assert rows[300] == ("301", "invalid_utf8")
    assert (rows[599], len(rows)) == (("600", {"url": "u599", "caption": "c599"}), 600)


@pytest.mark.parametrize(
    ("captions", "addresses", "what"),
    [
        (b"a\nb\n", b"u\n", "2 captions and 1 addresses"),
        (b"a\n", b"u\n\n", "1 captions and 2 addresses"),
        (b"", b"u\n", "0 captions"),
        ("a\n".encode("utf-16"), b"u\n", "UTF-16"),
    ],
)
def test_files_that_do_not_belong_together_are_refused_by_name(tmp_path, captions, addresses, what):
    with pytest.raises(SourceError, match=what) as error:
        check(write(tmp_path, captions, addresses), (), config())
    assert "SBU_captions.txt" in str(error.value)


def test_a_packed_file_that_breaks_off_is_refused(tmp_path):
    file = write(tmp_path, gzip.compress(b"a\n" * 100)[:-9], gzip.compress(b"u\n" * 100), ".gz")
    with pytest.raises(SourceError, match=r"SBU_captions\.txt\.gz"):
        check(file, (), config())


def test_one_file_without_the_other_is_refused_and_other_names_are_of_no_pair(tmp_path):
    with pytest.raises(SourceError, match=r"x_urls\.txt.*not beside"):
        both(input_file(tmp_path, "x_captions.txt", b"a\n"))
    assert [partner(name) for name in ("a/x_captions.txt.gz", "a.txt", "my_captions.txt.old", "x_urls.txt")] == [
        "a/x_urls.txt.gz", None, None, "x_captions.txt",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["caption", "auto"])
def test_either_file_or_the_folder_names_the_pair(tmp_path, kind):
    write(tmp_path, b"one\ntwo\n", b"a.png\nb.png\n")
    for number, name in enumerate(("a.png", "b.png")):
        (tmp_path / "d" / name).write_bytes(picture(number))
    places = (["d/SBU_urls.txt"], ["d/SBU_captions.txt", "d/SBU_urls.txt"], ["d"])
    for number, names in enumerate(places):
        if kind == "auto" and len(names) == 1 and names != ["d"]:
            continue
        got = Ingested(tmp_path / str(number), kind, *(tmp_path / name for name in names))
        assert (got.counts, {row.text for row in got.rows.values()}) == ((2, 2, 0), {"one", "two"})
