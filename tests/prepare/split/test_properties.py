"""Splits of random inputs: nothing shared by two sides, nothing lost, the same whatever the workers and the order."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import orjson
import pytest

from shardkit.prepare.audit.run import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write
from tests.prepare.split.builders import files, split

WORDS = [f"word{k}" for k in range(400)]
RATIOS = "train=0.5,dev=0.2,val=0.2,test=0.1"


def random_rows(seed: int, count: int = 150) -> list[Example]:
    """Rows that share groups, pictures, pixels and texts here and there, and texts that are nearly those of others."""
    chance = random.Random(seed)
    long = [chance.choices(WORDS, k=60) for _ in range(8)]
    rows = []
    for number in range(count):
        kind = chance.randrange(6)
        words = list(chance.choice(long)) if kind == 0 else [f"row{number}", *chance.choices(WORDS, k=5)]
        if kind == 0:
            words[chance.randrange(60)] = f"changed{number}"
        pictures = []
        if chance.random() < 0.4:
            shown = chance.randrange(40)
            pictures = [png(shown, level=chance.choice([0, 6]), note=chance.choice([None, "a"]))]
            if chance.random() < 0.2:
                pictures.append(png(chance.randrange(40)))
        group = f"g{chance.randrange(60)}" if chance.random() < 0.6 else None
        text = "the same caption" if kind == 1 and chance.random() < 0.3 else " ".join(words)
        rows.append(example(text, *pictures, group=group, source=chance.choice("abc"), n=number))
    return rows


def sides_of(path: Path) -> dict[tuple[str, str], set[str]]:
    """(kind, value) -> splits that have it."""
    dataset = Dataset.open(path)
    found = defaultdict(set)
    for shard, _, made in dataset.examples():
        where = dataset.shards[shard].split
        values = [("text", made.text.casefold())]
        values += [(kind, getattr(one, kind)) for one in made.images for kind in ("asset_id", "pixel_id")]
        values += [("group", made.group)] if made.group else []
        for value in values:
            found[value].add(where)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_no_two_sides_share_anything_and_nothing_is_lost(tmp_path: Path, seed: int):
    rows = random_rows(seed)
    write(tmp_path / "a", rows, unit_rows=40)
    result = split(tmp_path / "a", tmp_path / "s", RATIOS, allow_empty=True, max_group_share=1.0, salt=str(seed))
    assert texts(Dataset.open(tmp_path / "s")) == sorted(row.text for row in rows)
    shared = {value: where for value, where in sides_of(tmp_path / "s").items() if len(where) > 1}
    assert shared == {}
    assert audit(AuditConfig(dataset=tmp_path / "s")).error is None
    assert result.report["groups"]["joined"] > 0, "this was not vacuous"
    assert result.report["groups"]["near_pairs"] > 0, "this was not vacuous"
    assert sum(cell["examples"] > 0 for cell in result.report["splits"].values()) > 1, "this was not vacuous"


@pytest.mark.parametrize("seed", range(2))
def test_neither_workers_nor_the_order_of_rows_change_where_they_go(tmp_path: Path, seed: int):
    rows = random_rows(seed)
    write(tmp_path / "a", rows, unit_rows=40)
    write(tmp_path / "b", sorted(rows, key=lambda row: row.example_id), unit_rows=1000)
    options = {"allow_empty": True, "max_group_share": 1.0, "shard_size": 4000}
    split(tmp_path / "a", tmp_path / "one", RATIOS, **options)
    split(tmp_path / "a", tmp_path / "two", RATIOS, workers=2, **options)
    split(tmp_path / "b", tmp_path / "other", RATIOS, **options)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    one, other = (Dataset.open(tmp_path / name) for name in ("one", "other"))
    assert where_of(one) == where_of(other)
    assert len(set(where_of(one).values())) > 1
    ledgers = [dataset.table("ledger", ["key", "kind", "split", "rows"]).to_pylist() for dataset in (one, other)]
    assert ledgers[0] == ledgers[1]


def where_of(dataset: Dataset) -> dict[int, str]:
    return {orjson.loads(made.metadata)["n"]: dataset.shards[shard].split for shard, _, made in dataset.examples()}


def test_a_ledger_only_grows_and_what_it_placed_stays_or_goes_out_by_name(tmp_path: Path):
    rows = random_rows(9, 240)
    options = {"allow_empty": True, "max_group_share": 1.0}
    write(tmp_path / "0", rows[:60])
    split(tmp_path / "0", tmp_path / "s0", RATIOS, **options)
    left_out = 0
    for step, count in enumerate((120, 180, 240), 1):
        write(tmp_path / str(step), rows[:count][:: 1 if step % 2 else -1])
        result = split(tmp_path / str(step), tmp_path / f"s{step}", None, like=tmp_path / f"s{step - 1}", **options)
        old, new = (Dataset.open(tmp_path / f"s{k}") for k in (step - 1, step))
        grown = new.table("ledger").to_pylist()
        assert grown[: old.table("ledger").num_rows] == old.table("ledger").to_pylist()
        assert [row["order"] for row in grown] == list(range(len(grown)))
        assert len({(row["kind"], row["key"]) for row in grown}) == len(grown)
        before, after = where_of(old), where_of(new)
        assert all(after.get(n, where) == where for n, where in before.items())
        assert len(after) + result.counts["excluded"] == count
        assert set(result.counts["excluded_by_reason"]) <= {"split_conflict", "split_bridge"}
        assert {value: where for value, where in sides_of(tmp_path / f"s{step}").items() if len(where) > 1} == {}
        left_out += result.counts["excluded"]
    assert left_out > 0, "this was not vacuous"
