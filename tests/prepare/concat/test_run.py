"""concat: all rows of all inputs, in shards that stay where they are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError, IntegrityError, OutputError
from shardkit.prepare.audit import run as audit
from shardkit.prepare.audit import verify
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.result import StageResult
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run as select
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write
from tests.prepare.split.builders import books, split


def concat(out: Path | None, *inputs: Path, **options) -> StageResult:
    return run(ConcatConfig(inputs=inputs, output=out, dry_run=out is None, **options))


def assert_whole(path: Path) -> None:
    found = verify.run(verify.VerifyConfig(dataset=path, deep=True))
    assert (found.problems, found.stray) == ((), ())


def rows(name: str, count: int, *, first: int = 0) -> list:
    return [example(f"{name} {k}", png(first + k), source=name) for k in range(count)]


def test_all_rows_are_there_and_no_shard_is_written(tmp_path: Path):
    write(tmp_path / "a", rows("a", 5), shard_size=300)
    write(tmp_path / "b", rows("b", 3, first=50), shards="tar")
    result = concat(tmp_path / "c", tmp_path / "a", tmp_path / "b")
    joined = Dataset.open(tmp_path / "c")
    assert texts(joined) == [f"a {k}" for k in range(5)] + [f"b {k}" for k in range(3)]
    assert result.counts == {"read": 8, "kept": 8, "excluded": 0, "excluded_by_reason": {}}
    parts = [shard.entry for name in "ab" for shard in Dataset.open(tmp_path / name).shards]
    assert not (tmp_path / "c" / "shards").exists()
    assert Counter(s.entry.xxh3 for s in joined.shards) == Counter(entry.xxh3 for entry in parts)
    assert result.report["shards"] == len(parts) > 2
    assert joined.manifest.totals["by_source"]["a"] == Dataset.open(tmp_path / "a").manifest.totals["by_source"]["a"]
    assert joined.manifest.totals["by_split"]["all"]["examples"] == 8
    assert joined.table("assets").num_rows == 8
    assert joined.table("provenance").num_rows == 8
    assert_whole(tmp_path / "c")


def test_the_order_of_the_inputs_does_not_matter(tmp_path: Path):
    for name, count in (("a", 2), ("b", 3), ("c", 1)):
        write(tmp_path / name, rows(name, count))
    one = concat(tmp_path / "x", tmp_path / "a", tmp_path / "b", tmp_path / "c")
    two = concat(tmp_path / "y", tmp_path / "c", tmp_path / "a", tmp_path / "b")
    assert one.dataset_id == two.dataset_id
    assert concat(tmp_path / "x", tmp_path / "b", tmp_path / "a", tmp_path / "c").unchanged
    with pytest.raises(OutputError, match="inputs differ"):
        concat(tmp_path / "x", tmp_path / "a", tmp_path / "b")
    assert concat(tmp_path / "x", tmp_path / "a", tmp_path / "b", overwrite=True).counts["kept"] == 5
    assert concat(None, tmp_path / "a", tmp_path / "b").dataset_id is None


def test_rows_may_repeat_and_views_may_be_joined(tmp_path: Path):
    write(tmp_path / "a", [*rows("a", 4), *rows("a", 2)])
    write(tmp_path / "b", rows("b", 2))
    select(SelectConfig(input=tmp_path / "a", output=tmp_path / "s", where="text in ('a 0', 'a 3')"))
    concat(tmp_path / "c", tmp_path / "a", tmp_path / "s")
    assert Counter(texts(Dataset.open(tmp_path / "c"))) == {"a 0": 4, "a 1": 2, "a 2": 1, "a 3": 2}
    assert_whole(tmp_path / "c")
    concat(tmp_path / "d", tmp_path / "c", tmp_path / "b")
    assert len(texts(Dataset.open(tmp_path / "d"))) == 11
    assert_whole(tmp_path / "d")


def test_what_dedup_found_is_still_known(tmp_path: Path):
    for name, first in (("a", 0), ("b", 100)):
        write(tmp_path / name, [*rows(name, 4, first=first), *rows(name, 2, first=first)])
        dedup(DedupConfig(inputs=(tmp_path / name,), output=tmp_path / f"{name}-clean"))
    concat(tmp_path / "c", tmp_path / "a-clean", tmp_path / "b-clean")
    joined = Dataset.open(tmp_path / "c")
    clusters = joined.table("clusters").to_pylist()
    assert len({row["cluster"] for row in clusters}) == 4
    assert joined.table("edges").num_rows == 4
    for row in clusters:
        reader = joined.reader(joined.shards[row["shard_index"]])
        assert reader.example(row["row"]).example_id == row["example_id"]
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5")
    assert len(texts(Dataset.open(tmp_path / "s"))) == 8


def test_splits_are_kept_by_name(tmp_path: Path):
    write(tmp_path / "a", books(40))
    write(tmp_path / "b", books(40, first=1000))
    split(tmp_path / "a", tmp_path / "sa", "train=0.7,test=0.3")
    split(tmp_path / "b", tmp_path / "sb", "train=0.5,val=0.5")
    concat(tmp_path / "c", tmp_path / "sa", tmp_path / "sb")
    joined = Dataset.open(tmp_path / "c")
    assert set(joined.splits) == {"train", "val", "test"}
    for name in ("train", "val", "test"):
        apart = [texts(one, name) for one in map(Dataset.open, (tmp_path / "sa", tmp_path / "sb"))]
        assert texts(joined, name) == sorted(apart[0] + apart[1])
    ledger = joined.table("ledger").to_pylist()
    assert [row["order"] for row in ledger] == list(range(80))
    assert len({row["key"] for row in ledger}) == 80
    assert joined.table("groups")["example_id"].to_pylist() == joined.table("examples")["example_id"].to_pylist()
    assert audit.run(audit.AuditConfig(dataset=tmp_path / "c")).error is None
    assert_whole(tmp_path / "c")


def test_a_group_in_two_splits_is_refused(tmp_path: Path):
    write(tmp_path / "a", books(40))
    for salt in ("x", "y"):
        split(tmp_path / "a", tmp_path / salt, "train=0.5,test=0.5", salt=salt)
    with pytest.raises(ConfigError, match=r"groups stand in different splits of the inputs; first, 'book \d+'"):
        concat(tmp_path / "c", tmp_path / "x", tmp_path / "y")
    assert not (tmp_path / "c").exists()


def test_a_split_and_an_unsplit_input_are_refused(tmp_path: Path):
    write(tmp_path / "a", books(10))
    split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5")
    for inputs in (("a", "s"), ("s", "a")):
        with pytest.raises(ConfigError, match=r"has the splits|has all") as caught:
            concat(tmp_path / "c", *(tmp_path / name for name in inputs))
        assert "train, test" in caught.value.what
        assert "--like" in caught.value.hint
    with pytest.raises(ConfigError, match="the input is named twice"):
        concat(tmp_path / "c", tmp_path / "a", tmp_path / "a")
    with pytest.raises(OutputError, match="lie in each other"):
        concat(tmp_path / "a" / "c", tmp_path / "a")


def test_a_moved_input_is_found_below_a_base(tmp_path: Path):
    for name in "ab":
        write(tmp_path / "in" / name, rows(name, 2))
    concat(tmp_path / "c", tmp_path / "in" / "a", tmp_path / "in" / "b")
    manifest = orjson.loads((tmp_path / "c" / "manifest.json").read_bytes())
    assert sorted(manifest["locations"].values()) == ["../in/a", "../in/b"]
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match=r"is not at .* any more"):
        texts(Dataset.open(tmp_path / "c"))
    assert len(texts(Dataset.open(tmp_path / "c", base=[tmp_path / "elsewhere"]))) == 4
