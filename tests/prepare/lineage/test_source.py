"""From a raw row forward: where it is now, or at which stage it was left out and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.lineage.trace import Tracer, trace_source
from shardkit.store.dataset import Dataset
from tests.prepare.builders import write
from tests.prepare.lineage.conftest import TABLE, WEB, Road


def outcomes(found: dict[str, Any]) -> list[tuple[str, str]]:
    (row,) = found["rows"]
    return [(step["stage"], step["outcome"]) for step in row["history"]]


def test_a_kept_row_is_followed_to_its_sequences(lineage: Road) -> None:
    found = trace_source(lineage.tokens, "rows.jsonl:2")
    assert (found["input"], found["position"]) == ("rows.jsonl", "2")
    assert outcomes(found) == [("ingest", "kept"), ("dedup", "kept"), ("split", "kept"), ("tokenize", "kept")]
    (row,) = found["rows"]
    assert row["example_id"] == WEB[1].example_id
    (now,) = row["examples"]
    assert [one["window"] for one in now["sequences"]] == list(range(len(now["sequences"]))) != []
    assert {one["example_id"] for one in now["sequences"]} == {WEB[1].example_id}
    last = row["history"][-1]
    assert (now["shard"], now["row"]) == (last["shard"], last["row"])


def test_a_removed_duplicate_names_its_keeper(lineage: Road) -> None:
    found = trace_source(lineage.tokens, "rows.jsonl:3")
    assert outcomes(found) == [("ingest", "kept"), ("dedup", "duplicate_exact")]
    (row,) = found["rows"]
    assert WEB[0].example_id in row["history"][-1]["detail"]
    assert row["examples"] == []


def test_what_tokenize_left_out(lineage: Road) -> None:
    assert outcomes(trace_source(lineage.tokens, "rows.jsonl:5"))[-1] == ("tokenize", "has_roles")
    assert outcomes(trace_source(lineage.split, "rows.jsonl:5"))[-1] == ("split", "kept")


def test_every_raw_row_is_accounted_for(lineage: Road) -> None:
    tracer = Tracer(lineage.tokens)
    ends: Counter[str] = Counter()
    places = [("rows.jsonl", row) for row in range(1, len(WEB) + 1)]
    places += [("table.csv", row) for row in range(1, len(TABLE) + 1)]
    for name, row in places:
        ends[outcomes(tracer.source(f"{name}:{row}"))[-1][1]] += 1
    left: Counter[str] = Counter()
    for stage in (lineage.web, lineage.table, lineage.clean, lineage.split, lineage.tokens):
        left.update(Dataset.open(stage).manifest.counts["excluded_by_reason"])
    assert ends == left + Counter({"kept": Dataset.open(lineage.tokens).manifest.counts["kept"]})
    assert sum(ends.values()) == len(WEB) + len(TABLE)


def test_a_longer_path_names_the_file_too(lineage: Road) -> None:
    assert outcomes(trace_source(lineage.tokens, "/data/dump/table.csv:2"))[-1] == ("tokenize", "kept")


def test_files_and_rows_may_hold_colons(tmp_path: Path) -> None:
    names = ["a:1.jsonl", "a:1.jsonl", "a"]
    path = write(tmp_path / "set", WEB[3:6], inputs=names, positions=["1", "x:2", "1.jsonl:x:2"]).path
    assert trace_source(path, "a:1.jsonl:1")["rows"][0]["example_id"] == WEB[3].example_id
    assert trace_source(path, "a:1.jsonl:x:2")["rows"][0]["example_id"] == WEB[4].example_id


def test_a_file_of_one_row_needs_no_row(tmp_path: Path, lineage: Road) -> None:
    path = write(tmp_path / "set", WEB[:2], inputs=["a.jpg", "b.jpg"], positions=["a", "b"]).path
    assert trace_source(path, "b.jpg")["position"] == "b"
    with pytest.raises(ConfigError, match="holds 15 rows"):
        trace_source(lineage.web, "rows.jsonl")


def test_rows_that_nobody_read(lineage: Road) -> None:
    with pytest.raises(ConfigError, match="has no such row"):
        trace_source(lineage.tokens, "rows.jsonl:99")
    with pytest.raises(ConfigError, match=r"no row 'other\.jsonl:1' was ever read") as error:
        trace_source(lineage.tokens, "other.jsonl:1")
    assert "rows.jsonl, table.csv" in error.value.hint


def test_two_sources_may_call_a_file_by_one_name(tmp_path: Path) -> None:
    write(tmp_path / "one", WEB[:2])
    write(tmp_path / "two", TABLE[:2])
    dedup(DedupConfig(inputs=(tmp_path / "one", tmp_path / "two"), output=tmp_path / "both", levels=("exact",)))
    found = trace_source(tmp_path / "both", "rows.jsonl:2")
    assert {row["example_id"] for row in found["rows"]} == {WEB[1].example_id, TABLE[1].example_id}
    assert all([step["outcome"] for step in row["history"]] == ["kept", "kept"] for row in found["rows"])
