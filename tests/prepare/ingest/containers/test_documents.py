"""Documents and lists of labels: entries in order, and files that are refused as a whole."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers import documents
from shardkit.prepare.ingest.containers.documents import Entries, Entry
from shardkit.prepare.ingest.containers.naming import Naming
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.units import Slice
from tests.prepare.ingest.builders import changes, config, entries, found, input_file


def split(value: object) -> Entries:
    if not isinstance(value, list):
        raise Bad("bad_label", "no list")
    return Entries(entries=tuple(Entry(position=f"p{one}", value=one) for one in value), changes=Counter(whole=1))


def read(folder, data: bytes, name: str = "in/x.json"):
    file = input_file(folder, name, data)
    documents.check(file, (), config())
    (piece,) = documents.plan(file, config(), None)
    return [entry for chunk in documents.chunks(piece, split) for entry in documents.records(chunk, config())]


def test_entries_come_in_order_over_chunks_and_what_is_said_of_the_whole_once(tmp_path):
    count = 600
    got = read(tmp_path, b"\xef\xbb\xbf" + str(list(range(count))).encode())
    assert found(got) == [(f"p{one}", one) for one in range(count)]
    assert changes(got) == {"whole": 1}
    assert found(read(tmp_path, gzip.compress(b"[7]"), "y.json.gz")) == [("p7", 7)]


@pytest.mark.parametrize(
    "data", [b"{}", b"[1", b'[{"a": 1, "a": 2}]', "[1]".encode("utf-16"), gzip.compress(b"[1]", mtime=0)[:-9]]
)
def test_a_document_that_is_not_whole_or_not_known_is_refused_by_name(tmp_path, data):
    with pytest.raises(SourceError, match=r"x\.json"):
        read(tmp_path, data)


def test_a_document_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MAX_DOCUMENT", 10)
    with pytest.raises(SourceError, match="limit is 10"):
        read(tmp_path, b"[1, 2, 3, 4]")
    file = input_file(tmp_path, "z.json.gz", gzip.compress(b"[" + b"1," * 4000 + b"1]", 9))
    monkeypatch.setattr(documents, "MAX_DOCUMENT", 1000)
    with pytest.raises(SourceError, match="more than 1000"):
        list(documents.chunks(Slice(container="json", file=file), split))


def test_lines_of_text_keep_their_numbers_and_lose_their_ends(tmp_path):
    file = input_file(tmp_path, "l.txt", b"\xef\xbb\xbfone \r\n\n \t\r\nbad \xff\ntwo\tand more")
    got = entries("lines", file, config())
    assert found(got) == [("1", "one "), ("4", "invalid_utf8"), ("5", "two\tand more")]
    assert changes(got) == {"byte_order_mark": 1, "blank_line": 2, "crlf_line": 2}


def test_long_lists_are_cut_at_line_ends(tmp_path):
    lines = [f"line {number}" for number in range(1, 400)]
    file = input_file(tmp_path, "l.txt", "\n".join(lines).encode())
    got = entries("lines", file, config(unit_size=1000))
    assert found(got) == [(str(number), line) for number, line in enumerate(lines, start=1)]


@pytest.mark.parametrize(
    ("stem", "is_image", "right"),
    [
        ("set/img/a", True, "set/a"),
        ("img/gt/gt_a", False, "img/a"),
        ("set/a_ori", True, "set/a"),
        ("set/a_ann", True, None),
        ("gt_a", True, "gt_a"),
        ("a_ann", False, "a_ann"),
        ("img", True, "img"),
        ("set/train_imgs/a", True, "set/train:a"),
        ("set/train_gt/gt_a_res", False, "set/train:a"),
        ("Task1_GT/gt_a", False, "test:a"),
        ("task(626p)/a", True, "a"),
        ("a_res", False, "a"),
    ],
)
def test_what_is_no_part_of_a_stem(stem, is_image, right):
    naming = Naming(
        folders=("img", "gt"),
        folder_ends=("_imgs", "_gt"),
        parts={"Task1_GT": "test", "task(626p)": ""},
        label_starts=("gt_",),
        label_ends=("_res",),
        image_ends=("_ori",),
        passed_over=("_ann",),
    )
    assert naming.stem(stem, is_image=is_image) == right
