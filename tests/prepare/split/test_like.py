"""--like: nothing that was placed moves, and what new data ties is said."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run as select
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write
from tests.prepare.split.builders import RATIOS, books, places, split


def test_like_moves_nothing_that_was_placed(tmp_path: Path):
    write(tmp_path / "a", books(60))
    split(tmp_path / "a", tmp_path / "s")
    before = places(tmp_path / "s")
    grown = [*books(60), *(example(f"book {b} page 9", group=f"book {b}") for b in range(60)), *books(300, first=60)]
    write(tmp_path / "b", grown[::-1])
    split(tmp_path / "b", tmp_path / "fresh")
    split(tmp_path / "b", tmp_path / "t", like=tmp_path / "s")
    after = places(tmp_path / "t")
    assert {text: after[text] for text in before} == before
    assert any(places(tmp_path / "fresh")[text] != where for text, where in before.items()), "a fresh split moves some"
    for b in range(60):
        assert after[f"book {b} page 9"] == before[f"book {b} page 0"]
    old, new = (Dataset.open(tmp_path / name).table("ledger").to_pylist() for name in ("s", "t"))
    assert new[: len(old)] == old
    assert [row["order"] for row in new] == list(range(360))
    assert {(row["kind"], row["rows"]) for row in old} == {("group", 3)}


def test_like_sees_what_new_data_shares_with_the_old_split_itself(tmp_path: Path):
    write(tmp_path / "a", [example(f"old {k}", png(k)) for k in range(40)])
    split(tmp_path / "a", tmp_path / "s")
    before = places(tmp_path / "s")
    write(tmp_path / "b", [example(f"new {k}", png(k, level=0)) for k in range(40)])
    split(tmp_path / "b", tmp_path / "t", like=tmp_path / "s", allow_empty=True)
    after = places(tmp_path / "t")
    assert {f"new {k}": before[f"old {k}"] for k in range(40)} == after
    assert len(set(after.values())) == 3


def test_like_leaves_training_rows_out_that_new_data_ties_to_the_test_set(tmp_path: Path):
    write(tmp_path / "a", books(60))
    split(tmp_path / "a", tmp_path / "s")
    before = places(tmp_path / "s")
    trained = next(b for b in range(60) if before[f"book {b} page 0"] == "train")
    tested = next(b for b in range(60) if before[f"book {b} page 0"] == "test")
    bridge = [example(f"book {trained} page 0", group="new", n=1), example(f"book {tested} page 0", group="new", n=2)]
    write(tmp_path / "b", [*books(60), *bridge])
    result = split(tmp_path / "b", tmp_path / "t", like=tmp_path / "s")
    dataset = Dataset.open(tmp_path / "t")
    assert result.report["conflicts"] == {
        "components": 1, "examples": 3, "bridges": 0,
        "listed": [{"component": "new", "placed": {"train": 3, "test": 3}, "takes": "test", "left_out": 3}],
    }  # fmt: skip
    assert result.counts == {"read": 182, "kept": 179, "excluded": 3, "excluded_by_reason": {"split_conflict": 3}}
    excluded = [orjson.loads(line) for line in dataset.exclusions()]
    assert [e["position"] for e in excluded] == [str(3 * trained + p + 1) for p in range(3)]
    assert excluded[0]["detail"] == "it was placed in train, and new data ties it to test; rows are never moved"
    assert not [e for _, _, e in dataset.examples("train") if e.group == f"book {trained}"]
    assert len([e for _, _, e in dataset.examples("test") if e.group == "new"]) == 2
    ledger = {row["key"]: row["split"] for row in dataset.table("ledger").to_pylist()}
    assert (ledger[f"book {trained}"], ledger["new"]) == ("train", "test")


def test_like_must_be_a_split_with_the_same_names(tmp_path: Path):
    write(tmp_path / "a", books(30))
    split(tmp_path / "a", tmp_path / "s")
    with pytest.raises(ConfigError, match="has no ledger"):
        split(tmp_path / "a", tmp_path / "t", like=tmp_path / "a")
    with pytest.raises(ConfigError, match="'test', which --ratios does not name"):
        split(tmp_path / "a", tmp_path / "t", "train=0.9,val=0.1", like=tmp_path / "s")


def test_like_goes_on_as_the_older_split_where_nothing_else_is_asked_for(tmp_path: Path):
    write(tmp_path / "a", books(60))
    split(tmp_path / "a", tmp_path / "s", "train=0.6,dev=0.3,test=0.1", group_by="book", salt="x")
    write(tmp_path / "b", books(90))
    split(tmp_path / "b", tmp_path / "t", None, like=tmp_path / "s")
    recipe = Dataset.open(tmp_path / "t").recipe
    assert recipe["ratios"] == [["train", "0.6"], ["dev", "0.3"], ["test", "0.1"]]
    assert (recipe["group_by"], recipe["salt"], recipe["like"]) == ("book", "x", Dataset.open(tmp_path / "s").id)
    other = split(tmp_path / "b", None, "train=0.5,dev=0.25,test=0.25", like=tmp_path / "s", salt="y")
    assert other.report["splits"]["train"]["asked"] == 0.5
    with pytest.raises(ConfigError) as caught:
        split(tmp_path / "b", None, None, like=tmp_path / "s", group_by="@source")
    assert caught.value.what == "the older split was grouped by book, this one by @source"


def test_like_may_name_what_selects_rows_of_a_split(tmp_path: Path):
    write(tmp_path / "a", books(60))
    split(tmp_path / "a", tmp_path / "s", group_by="book", salt="x")
    select(SelectConfig(input=tmp_path / "s", output=tmp_path / "v", where="source == 'odd'"))
    before = places(tmp_path / "s")
    write(tmp_path / "b", [*books(60), *books(40, first=60)])
    split(tmp_path / "b", tmp_path / "t", None, like=tmp_path / "v")
    assert Dataset.open(tmp_path / "t").recipe["salt"] == "x"
    after = places(tmp_path / "t")
    assert {text: after[text] for text in before} == before


@pytest.mark.parametrize("options", [{}, {"time_field": "date", "cutoffs": (("test", "2021"),)}])
def test_nothing_can_be_split_and_gone_on_with(tmp_path: Path, options: dict):
    write(tmp_path / "none", [])
    ratios = None if options else RATIOS
    result = split(tmp_path / "none", tmp_path / "s", ratios, **options)
    assert result.counts["kept"] == 0
    assert "the input is empty" in result.report["notes"]
    assert split(tmp_path / "none", tmp_path / "t", None, like=tmp_path / "s").counts["kept"] == 0
    write(tmp_path / "a", [example(f"day {d}", date=f"20{d}") for d in range(10, 40)])
    assert split(tmp_path / "a", tmp_path / "u", None, like=tmp_path / "s").counts["kept"] == 30
    assert split(tmp_path / "none", tmp_path / "v", None, like=tmp_path / "u", allow_empty=True).counts["kept"] == 0


def test_new_rows_alone_that_tie_old_ones_of_two_splits_are_left_out_because_those_cannot_be(tmp_path: Path):
    write(tmp_path / "a", books(60))
    split(tmp_path / "a", tmp_path / "s")
    before = places(tmp_path / "s")
    trained, tested = (next(b for b in range(60) if before[f"book {b} page 0"] == name) for name in ("train", "test"))
    bridge = [example(f"book {b} page 0", group="new", n=b) for b in (trained, tested)]
    more = [example(f"book {trained} page 7", group=f"book {trained}"), *books(40, first=60)]
    write(tmp_path / "b", [*bridge, *more])
    result = split(tmp_path / "b", tmp_path / "t", None, like=tmp_path / "s")
    # The page of the training book is left out as well: its book hangs together with the test set now.
    assert result.counts["excluded_by_reason"] == {"split_bridge": 2, "split_conflict": 1}
    assert result.report["conflicts"]["bridges"] == 2
    assert any("split_bridge: 2" in note for note in result.report["notes"])
    excluded = [orjson.loads(line) for line in Dataset.open(tmp_path / "t").exclusions()]
    assert {e["detail"] for e in excluded if e["reason"] == "split_bridge"} == {
        "it is tied to rows of the older split that are in different splits; wherever it went, it would leak"
    }
    # A row that is tied to the older split's test set alone goes there.
    write(tmp_path / "c", [example(f"book {tested} page 0", group="new", n=1), *books(40, first=60)])
    alone = split(tmp_path / "c", tmp_path / "u", None, like=tmp_path / "s")
    assert alone.counts["excluded"] == 0
    assert places(tmp_path / "u")[f"book {tested} page 0"] == "test"
