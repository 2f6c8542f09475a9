"""--split-by-time: what is a time, where it goes, and what becomes of rows without one."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.audit.run import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.split.times import BAD, MISSING, parse_cutoffs, parse_time, time_of
from shardkit.store import Dataset
from tests.prepare.builders import example, write
from tests.prepare.split.builders import places, split

MICRO = 1_000_000


def at(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=timezone.utc).timestamp()) * MICRO


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2021-06-30", at(2021, 6, 30)),
        ("2021-06", at(2021, 6, 1)),
        ("2021", at(2021, 1, 1)),
        (1784, at(1784, 1, 1)),
        ("1784", at(1784, 1, 1)),
        (" 2021-06-30T12:00:00Z ", at(2021, 6, 30, 12)),
        ("2021-06-30 12:00", at(2021, 6, 30, 12)),
        ("2021-06-30T14:30:00+02:30", at(2021, 6, 30, 12)),
        ("2021-06-30T09:30:00-0230", at(2021, 6, 30, 12)),
        ("2021-06-30T12:00:00.25", at(2021, 6, 30, 12) + 250_000),
        ("2021-06-30T12:00:00.123456789Z", at(2021, 6, 30, 12) + 123_456),
        ("Wed, 30 Jun 2021 12:00:00 GMT", at(2021, 6, 30, 12)),
        ("Wed, 30 Jun 2021 14:00:00 +0200", at(2021, 6, 30, 12)),
        (1625054400, at(2021, 6, 30, 12)),
        ("1625054400", at(2021, 6, 30, 12)),
        (1625054400000, at(2021, 6, 30, 12)),
        (1625054400.5, at(2021, 6, 30, 12) + 500_000),
        (-86400, at(1969, 12, 31)),
        ("2021-02-30", None),
        ("2021-13", None),
        ("0001-01-01T00:00:00+10:00", None),
        ("30.06.2021", None),
        ("yesterday", None),
        ("", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**30, None),
        (["2021"], None),
        (None, None),
    ],
)
def test_what_is_a_time(value, expected: int | None):
    assert parse_time(value) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [({"t": "2021"}, at(2021, 1, 1)), ({"a": {"t": 2021}}, MISSING), ({"t": None}, MISSING), ({"t": " "}, MISSING),
     ({"t": "soon"}, BAD), ({"t": {}}, BAD)],
)  # fmt: skip
def test_the_time_of_a_row(metadata: dict, expected: int):
    assert time_of(orjson.dumps(metadata).decode(), "t") == expected
    if "a" in metadata:
        assert time_of(orjson.dumps(metadata).decode(), "a.t") == at(2021, 1, 1)


def test_cutoffs_are_sorted_by_time_and_test_is_meant_where_no_name_is():
    assert parse_cutoffs(["2021"]) == (("test", "2021"),)
    assert parse_cutoffs(["test=2022-01-01", " val = 2021-06-30T12:00Z"]) == (
        ("val", "2021-06-30T12:00Z"), ("test", "2022-01-01"),
    )  # fmt: skip
    assert parse_cutoffs([]) == ()


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (["soon"], "--cutoff 'soon' is no time"),
        (["test=2021", "2022"], "--cutoff names a split or a time twice"),
        (["val=2021", "test=2021-01-01"], "--cutoff names a split or a time twice"),
    ],
)
def test_cutoffs_that_cannot_be(values: list[str], what: str):
    with pytest.raises(ConfigError) as caught:
        parse_cutoffs(values)
    assert caught.value.what == what


def by_time(source: Path, out: Path | None, *cutoffs: str, **options):
    return split(source, out, None, time_field="date", cutoffs=parse_cutoffs(cutoffs), **options)


def test_rows_go_by_their_time_and_a_cutoff_belongs_to_the_split_it_begins(tmp_path: Path):
    write(tmp_path / "a", [example(f"day {d:02}", date=f"2021-06-{d:02}") for d in range(1, 31)])
    result = by_time(tmp_path / "a", tmp_path / "s", "val=2021-06-11", "test=2021-06-21")
    assert places(tmp_path / "s") == {
        f"day {d:02}": "train" if d < 11 else "val" if d < 21 else "test" for d in range(1, 31)
    }
    assert result.report["method"] == "time"
    assert {name: (s["asked"], s["deviation"]) for name, s in result.report["splits"].items()} == dict.fromkeys(
        ("train", "val", "test"), (None, None)
    )
    assert Dataset.open(tmp_path / "s").recipe["time"] == {
        "field": "date", "cutoffs": [["val", "2021-06-11"], ["test", "2021-06-21"]],
    }  # fmt: skip


def test_a_group_goes_whole_to_its_latest_row_and_what_is_older_is_counted(tmp_path: Path):
    rows = [example(f"story {s} day {d}", group=f"story {s}", date=f"2021-06-{10 * s + d:02}") for s in range(3) for d in (1, 9)]  # fmt: skip
    write(tmp_path / "a", rows)
    result = by_time(tmp_path / "a", tmp_path / "s", "2021-06-15")
    where = places(tmp_path / "s")
    assert [where[f"story {s} day {d}"] for s in range(3) for d in (1, 9)] == ["train"] * 2 + ["test"] * 4
    assert result.report["straddling"] == {"components": 1, "examples": 1}
    assert any("older than their split begins" in note and note.endswith(": 1") for note in result.report["notes"])
    assert audit(AuditConfig(dataset=tmp_path / "s")).error is None


def test_rows_without_a_time_are_left_out_by_name_or_stop_the_run(tmp_path: Path):
    rows = [example(f"day {d:02}", date=f"2021-06-{d:02}") for d in range(1, 31)]
    rows += [example("none"), example("null", date=None), example("bad", date="soon")]
    rows += [example("of a story", group="story"), example("of a story, dated", group="story", date="2021-06-30")]
    write(tmp_path / "a", rows)
    result = by_time(tmp_path / "a", tmp_path / "s", "2021-06-21")
    assert result.counts["excluded_by_reason"] == {"missing_time": 3, "bad_time": 1}
    assert set(places(tmp_path / "s")) == {e.text for e in rows} - {"none", "null", "bad", "of a story"}
    excluded = [orjson.loads(line) for line in Dataset.open(tmp_path / "s").exclusions()]
    assert {e["reason"]: e["detail"] for e in excluded} == {
        "missing_time": "the metadata field 'date' is missing", "bad_time": "the metadata field 'date' holds no time",
    }  # fmt: skip
    keys = Dataset.open(tmp_path / "s").table("ledger")["key"].to_pylist()
    assert len(keys) == 31, "what could not be placed is not in the ledger"
    with pytest.raises(SourceError, match="4 of 35 examples have no time that can be read"):
        by_time(tmp_path / "a", tmp_path / "f", "2021-06-21", on_missing_time="fail")
    with pytest.raises(ConfigError, match="no example has a time in a metadata field 'when'"):
        split(tmp_path / "a", None, None, time_field="when", cutoffs=parse_cutoffs(["2021"]))


def test_like_goes_on_by_the_same_time_and_moves_nothing(tmp_path: Path):
    write(tmp_path / "a", [example(f"day {d:02}", date=f"2021-06-{d:02}") for d in range(1, 31)])
    by_time(tmp_path / "a", tmp_path / "s", "2021-06-21")
    late = example("day 05", date="2021-06-29", n=1)  # the text of a row in train, seen again in test's time
    write(tmp_path / "b", [*(example(f"more {d:02}", date=f"2021-06-{d:02}") for d in range(1, 31)), late])
    split(tmp_path / "b", tmp_path / "t", None, like=tmp_path / "s")
    where = places(tmp_path / "t")
    assert where["day 05"] == "train"
    assert [where[f"more {d:02}"] for d in (1, 20, 21, 30)] == ["train", "train", "test", "test"]
    with pytest.raises(ConfigError, match="the older split was by the time date"):
        split(tmp_path / "b", None, "train=0.5,test=0.5", like=tmp_path / "s")


def test_a_split_that_nothing_is_late_enough_for_is_refused(tmp_path: Path):
    write(tmp_path / "a", [example(f"day {d:02}", date=f"2021-06-{d:02}") for d in range(1, 31)])
    with pytest.raises(ConfigError, match="test would be empty: nothing is as late as test"):
        by_time(tmp_path / "a", None, "2022")
    assert by_time(tmp_path / "a", None, "2022", allow_empty=True).counts["kept"] == 30
