"""CSV and TSV: strict borders, strings only, and a bad record costs its own line."""

from __future__ import annotations

import csv
import io
import random

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers import tables
from tests.prepare.ingest.builders import changes, config, entries, found, input_file, packed, pieces


def rows_of(tmp_path, data: bytes, name: str = "t.csv", **settings) -> list:
    return found(entries("table", input_file(tmp_path, name, data), config(**settings)))


def test_quoted_fields_hold_delimiters_quotes_and_line_ends(tmp_path):
    data = b'\xef\xbb\xbfURL,TEXT\r\na,"x, y"\r\nb,"say ""hi"""\r\nc,"two\r\nlines"\r\n\r\nd,""\r\n'
    got = entries("table", input_file(tmp_path, "t.csv", data), config())
    assert [value["TEXT"] for _, value in found(got)] == ["x, y", 'say "hi"', "two\r\nlines", ""]
    assert [position for position, _ in found(got)] == ["1", "2", "3", "4"]
    assert changes(got) == {"byte_order_mark": 1, "crlf_line": 6, "blank_line": 1}


def test_every_value_is_a_string(tmp_path):
    assert rows_of(tmp_path, b"id,n\n007,\n1e3,null\n") == [
        ("1", {"id": "007", "n": ""}),
        ("2", {"id": "1e3", "n": "null"}),
    ]


def test_tab_separated_text_has_no_quoting(tmp_path):
    data = b'p\tt\n1\tFirst\n2\t"Second\n3\tThird "x"\n4\t5" nail\n'
    assert [value["t"] for _, value in rows_of(tmp_path, data, "t.tsv")] == ["First", '"Second', 'Third "x"', '5" nail']


def test_a_record_with_another_number_of_fields_is_excluded(tmp_path):
    got = rows_of(tmp_path, b"a,b\n1,2\n1,2,3\n1\n4,5\n")
    assert got == [("1", {"a": "1", "b": "2"}), ("2", "field_count"), ("3", "field_count"), ("4", {"a": "4", "b": "5"})]


def test_a_stray_quote_inside_a_field_is_an_ordinary_sign(tmp_path):
    assert rows_of(tmp_path, b'a,b\n1,5" nail\n2,plain\n') == [
        ("1", {"a": "1", "b": '5" nail'}),
        ("2", {"a": "2", "b": "plain"}),
    ]


def test_a_quote_that_never_closes_costs_its_own_line_only(tmp_path):
    got = rows_of(tmp_path, b'a,b\n1,x\n2,"open\n3,y\n4,"good, one"\n5,"z" tail\n6,w')
    assert [(p, v if isinstance(v, str) else v["b"]) for p, v in got] == [
        ("1", "x"), ("2", "bad_quoting"), ("3", "y"), ("4", "good, one"), ("5", "bad_quoting"), ("6", "w"),
    ]  # fmt: skip


def test_a_byte_that_is_no_utf8_costs_its_record_only(tmp_path):
    assert [v for _, v in rows_of(tmp_path, b"a,b\n1,\xe9\n2,ok\n")] == ["invalid_utf8", {"a": "2", "b": "ok"}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_it_agrees_with_the_standard_reader_on_good_tables_of_any_unit_size(tmp_path, delimiter):
    chance = random.Random(3)
    values = ["", "plain", 'q"uote', "a,b;c\td", "line\nend", "ünï", '"', "x" * 300]
    table = [[str(n), chance.choice(values), chance.choice(values)] for n in range(400)]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([["n", "a", "b"], *table])
    data = text.getvalue().encode()
    for name, packer in (("t.csv", bytes), ("t.csv.gz", packed)):
        for unit_size in (10**9, 20_000, 900, 50):
            got = rows_of(tmp_path, packer(data), name, unit_size=unit_size)
            assert [list(value.values()) for _, value in got] == table
            assert [position for position, _ in got] == [str(n + 1) for n in range(400)]
    assert len(pieces("table", input_file(tmp_path, "u.csv", data), config(unit_size=900))) > 10


def test_a_header_that_names_a_column_twice_is_refused(tmp_path):
    with pytest.raises(SourceError, match="twice"):
        rows_of(tmp_path, b"a,a\n1,2\n")


def test_columns_without_a_name_get_their_number(tmp_path):
    assert rows_of(tmp_path, b",a,,\n0,x,,\n") == [("1", {"column_1": "0", "a": "x", "column_3": "", "column_4": ""})]
    with pytest.raises(SourceError, match="twice"):
        rows_of(tmp_path, b"column_2,\n1,2\n")


def test_a_missing_column_is_refused_with_those_that_are_there(tmp_path):
    file = input_file(tmp_path, "t.csv", b"picture,words\na.png,hello\n")
    with pytest.raises(SourceError, match="picture, words") as error:
        tables.check(file, (("image", ("image", "path")),), config())
    assert error.value.hint == "name the column with --field image=COLUMN"
    tables.check(file, (("image", ("image",)),), config(fields={"image": "picture"}))
    with pytest.raises(SourceError, match="foto"):
        tables.check(file, (("image", ("image",)),), config(fields={"image": "foto"}))


def test_a_table_without_a_line_has_no_records(tmp_path):
    assert rows_of(tmp_path, b"") == []
    assert rows_of(tmp_path, b"a,b\n") == []


def test_a_record_over_the_limit_is_excluded_and_its_neighbours_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_LINE", 3000)
    monkeypatch.setattr(tables, "_BLOCK", 1000)
    data = b"a,b\n1,x\n2," + b"y" * 9000 + b'\n3,z\n4,"' + b"line\n" * 1500 + b'"\n5,end\n6,' + b"w" * 9000
    got = [(p, v if isinstance(v, str) else v["b"]) for p, v in rows_of(tmp_path, data)]
    assert got[:4] == [("1", "x"), ("2", "line_too_long"), ("3", "z"), ("4", "bad_quoting")]
    assert got[-2:] == [(got[-2][0], "end"), (got[-1][0], "line_too_long")]
