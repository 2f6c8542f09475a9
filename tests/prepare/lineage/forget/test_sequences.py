"""forget of a tokenized dataset: what is written is what tokenizing what is left would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardkit.digest import sha256
from shardkit.errors import IntegrityError
from shardkit.prepare.audit.config import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.lineage.forget import proof
from shardkit.prepare.lineage.forget.config import ForgetConfig, ForgetResult
from shardkit.prepare.lineage.forget.run import run
from shardkit.prepare.lineage.trace import Tracer
from shardkit.prepare.report.stats import StatsConfig
from shardkit.prepare.report.stats import run as stats
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.store.dataset import Dataset
from tests.prepare.builders import example, png, write
from tests.prepare.lineage.conftest import Road
from tests.prepare.split.tokens import pages, rows_of, tokenize


def forget(source: Path, out: Path | None, **given: Any) -> ForgetResult:
    return run(ForgetConfig(input=source, output=out, **given))


def sequences(path: Path) -> dict[str, dict[str, object]]:
    """Every sequence without its place, by its id."""
    rows = rows_of(path)
    assert len({row["sequence_id"] for row in rows}) == len(rows)
    return {str(row["sequence_id"]): {k: v for k, v in row.items() if k not in ("shard", "row")} for row in rows}


def lengths(path: Path) -> list[tuple[object, ...]]:
    table = Dataset.open(path).table("lengths")
    return sorted(
        tuple(row[name] for name in table.column_names if name not in ("shard", "row")) for row in table.to_pylist()
    )


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ninety pages, some with pictures, some of several windows; split and then tokenized."""
    root = tmp_path_factory.mktemp("books")
    write(root / "set", pages(), looks=True)
    split(
        SplitConfig(
            input=root / "set", output=root / "split", ratios=parse_ratios("train=0.7,test=0.3"), shard_size=900
        )
    )
    tokenize(root / "split", out=root / "tokens")
    return root


@pytest.mark.parametrize("shard_size", [300, 256_000_000])
def test_it_is_what_tokenizing_what_is_left_gives(books: Path, tmp_path: Path, shard_size: int) -> None:
    given = {"assets": (sha256(png(10)),), "sources": ("book 7", "book 2"), "shard_size": shard_size}
    result = forget(books / "tokens", tmp_path / "out", **given)
    plain = forget(books / "split", tmp_path / "plain", **given)
    tokenize(tmp_path / "plain", out=tmp_path / "again")
    assert sequences(tmp_path / "out") == sequences(tmp_path / "again")
    assert lengths(tmp_path / "out") == lengths(tmp_path / "again")
    assert result.counts == plain.counts
    assert result.counts["excluded"] == 7
    made, again = Dataset.open(tmp_path / "out"), Dataset.open(tmp_path / "again")
    assert {shard.holder for shard in (*made.shards, *made.sequence_shards)} == {made}
    assert made.manifest.totals == again.manifest.totals
    assert made.splits == ("train", "test")
    assert result.proof is not None
    assert result.proof["sequences"] == len(sequences(tmp_path / "out"))
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert png(10) not in everything
    assert verify(VerifyConfig(dataset=tmp_path / "out", deep=True)).problems == ()
    assert audit(AuditConfig(dataset=tmp_path / "out")).error is None
    assert stats(StatsConfig(dataset=tmp_path / "out"))["accounts"]["complete"]


def test_rows_of_lengths_are_those_of_the_shards(books: Path, tmp_path: Path) -> None:
    forget(books / "tokens", tmp_path / "out", sources=("book 7",))
    made = Dataset.open(tmp_path / "out")
    table = made.table("lengths").to_pylist()
    places = [(row["shard"], row["row"]) for row in table]
    assert places == [(shard.index, row) for shard in made.sequence_shards for row in range(shard.num_rows)]
    rows = [row for shard in made.sequence_shards for row in made.sequence_reader(shard).table().to_pylist()]
    assert [row["key"] for row in table] == [int(str(row["sequence_id"])[:16], 16) for row in rows]
    assert [row["split"] for row in table] == [made.sequence_shards[row["shard"]].split for row in table]


def test_the_way_leads_back_and_workers_and_a_second_run_change_nothing(lineage: Road, tmp_path: Path) -> None:
    given = {"assets": (sha256(png(2)),)}
    one = forget(lineage.tokens, tmp_path / "one", **given)
    two = forget(lineage.tokens, tmp_path / "two", workers=2, **given)
    assert one.dataset_id == two.dataset_id
    again = forget(lineage.tokens, tmp_path / "one", **given)
    assert again.unchanged
    assert again.proof == one.proof
    row = rows_of(tmp_path / "one")[0]
    chain = Tracer(tmp_path / "one").trace(str(row["sequence_id"]))
    assert [found["example_id"] for found in chain["examples"]] == [row["example_id"]]


def test_of_a_split_of_sequences_and_of_a_concat(tmp_path: Path) -> None:
    for name, rows in (("one", pages(45)), ("two", [example(f"other {k}", group=f"other {k}") for k in range(20)])):
        write(tmp_path / name, rows)
        tokenize(tmp_path / name, out=tmp_path / f"{name}-tokens")
        split(
            SplitConfig(
                input=tmp_path / f"{name}-tokens", output=tmp_path / f"{name}-split", ratios=parse_ratios("a=0.6,b=0.4")
            )
        )
    concat(ConcatConfig(inputs=(tmp_path / "one-split", tmp_path / "two-split"), output=tmp_path / "both"))
    for source in ("one-split", "both"):
        before = sequences(tmp_path / source)
        forget(tmp_path / source, tmp_path / f"{source}-out", sources=("book 3",))
        assert sequences(tmp_path / f"{source}-out") == {
            key: row for key, row in before.items() if not str(row["text"]).startswith("book 3 ")
        }
        assert len(before) > len(sequences(tmp_path / f"{source}-out"))
        made = Dataset.open(tmp_path / f"{source}-out")
        ids = made.table("examples")["example_id"].to_pylist()
        assert made.table("groups")["example_id"].to_pylist() == ids
        assert verify(VerifyConfig(dataset=made.path, deep=True)).problems == ()


def test_what_removed_duplicates_tied_stays_tied(tmp_path: Path) -> None:
    words = " ".join(f"word{k}" for k in range(60))
    rows = [example(f"{words} end{k}", group=f"g{k}") for k in range(3)]
    write(tmp_path / "set", [*rows, *(example(f"other text {k}") for k in range(9))])
    dedup(DedupConfig(inputs=(tmp_path / "set",), output=tmp_path / "clean", levels=("text",)))
    assert Dataset.open(tmp_path / "clean").table("clusters").num_rows == 3
    tokenize(tmp_path / "clean", out=tmp_path / "tokens", max_tokens=256, recipe="pretrain")
    forget(tmp_path / "tokens", tmp_path / "out", sources=("rows.jsonl:5",))
    made = Dataset.open(tmp_path / "out")
    assert made.table("groups").num_rows == made.table("examples").num_rows == 9
    result = split(SplitConfig(input=tmp_path / "out", output=tmp_path / "split", ratios=parse_ratios("a=0.5,b=0.5")))
    assert result.counts["kept"] == 9


def test_everything_may_be_forgotten(lineage: Road, tmp_path: Path) -> None:
    result = forget(lineage.tokens, tmp_path / "out", sources=("table", "web"))
    assert result.counts["kept"] == 0
    made = Dataset.open(tmp_path / "out")
    assert made.table("lengths").num_rows == len(made.sequence_shards) == 0
    assert result.proof is not None
    assert result.proof["sequences"] == 0


def test_the_proof_reads_the_sequences(lineage: Road) -> None:
    dataset = Dataset.open(lineage.tokens)
    row = rows_of(lineage.tokens)[0]
    none = np.empty(0, np.uint64)
    nothing = {"examples": none, "assets": none, "stored": frozenset[str](), "sequences": none}
    for name, key in (("sequences", "sequence_id"), ("examples", "example_id")):
        wanted = np.array([int(str(row[key])[:16], 16)], np.uint64)
        forgotten = proof.Forgotten(**{**nothing, name: wanted})
        with pytest.raises(IntegrityError, match="the proof failed"):
            proof._search_sequences(dataset, forgotten)


def test_a_run_that_was_cut_off_goes_on_and_gives_the_same(
    lineage: Road, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"assets": (sha256(png(2)),)}
    whole = forget(lineage.tokens, tmp_path / "whole", **given)
    with monkeypatch.context() as patch:
        patch.setattr("shardkit.prepare.lineage.forget.write.write_sequences", cut_off)
        with pytest.raises(KeyboardInterrupt):
            forget(lineage.tokens, tmp_path / "cut", **given)
    with monkeypatch.context() as patch:
        patch.setattr("shardkit.prepare.lineage.forget.write.write_unit", cut_off)  # examples have their receipts
        assert forget(lineage.tokens, tmp_path / "cut", **given).dataset_id == whole.dataset_id


def cut_off(*_: object) -> None:
    raise KeyboardInterrupt
