"""A tokenized dataset goes where its examples go: whole, read by the loader, and as if it had been split before."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from shardkit.cli import run as shardkit
from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.prepare.audit.run import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.prepare.lineage.trace import Tracer
from shardkit.prepare.report.stats import StatsConfig
from shardkit.prepare.report.stats import run as stats
from shardkit.prepare.split import sequences
from shardkit.prepare.split.write_sequences import write_sequences
from shardkit.store import Dataset
from tests.prepare.builders import example, write
from tests.prepare.split.builders import books, files, places, split
from tests.prepare.split.tokens import pages, rows_of, tokenize


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenized pages, beside `pages` itself; only to be read."""
    folder = tmp_path_factory.mktemp("tokenized")
    write(folder / "pages", pages(), unit_rows=25)
    return tokenize(folder / "pages", out=folder / "tokens")


@pytest.fixture(scope="module")
def divided(tokens: Path) -> Path:
    """Their split, with a shard of sequences for each split; only to be read."""
    split(tokens, tokens.with_name("divided"))
    return tokens.with_name("divided")


def content(rows: Sequence[dict[str, object]]) -> list[tuple[object, ...]]:
    """What a sequence is, wherever it stands."""
    names = ("sequence_id", "example_id", "window", "source", "input_ids", "objectives", "num_tokens", "num_supervised")
    return sorted(tuple(str(row[name]) for name in names) for row in rows)


def test_sequences_go_where_a_split_before_tokenize_puts_their_examples(tokens: Path, tmp_path: Path):
    result = split(tokens, tmp_path / "s")
    before = split(tokens.with_name("pages"), tmp_path / "before")
    rows = rows_of(tmp_path / "s")
    where = places(tmp_path / "before")
    assert {row["text"]: row["split"] for row in rows} == where
    assert places(tmp_path / "s") == where
    assert content(rows) == content(rows_of(tokens))
    assert len(rows) > 110
    assert result.counts == {"read": 90, "kept": 90, "excluded": 0, "excluded_by_reason": {}}
    for name in ("splits", "by_source", "by_language", "groups", "method", "conflicts", "notes"):
        assert result.report[name] == before.report[name], name


def test_no_group_and_no_example_stands_on_two_sides(tokens: Path, tmp_path: Path):
    split(tokens, tmp_path / "s", unit_size=4000)
    rows = rows_of(tmp_path / "s")
    for key in ("example_id", "group"):
        sides = defaultdict(set)
        for row in rows:
            sides[row[key]].add(row["split"])
        assert {len(where) for where in sides.values()} == {1}
    windows = Counter(row["example_id"] for row in rows)
    assert max(windows.values()) > 2
    # Windows of one example follow one another.
    firsts = [k for k, row in enumerate(rows) if row["window"] == 0]
    assert len(firsts) == 90
    assert all(row["example_id"] == rows[k - 1]["example_id"] for k, row in enumerate(rows) if k not in firsts)


def test_workers_and_a_second_run_change_no_byte(tokens: Path, tmp_path: Path):
    split(tokens, tmp_path / "one", unit_size=3000)
    split(tokens, tmp_path / "two", unit_size=3000, workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert split(tokens, tmp_path / "one", unit_size=3000).unchanged
    assert len(Dataset.open(tmp_path / "one").sequence_shards) > 5


def test_a_run_that_was_stopped_goes_on_after_its_units(tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    split(tokens, tmp_path / "whole", unit_size=1500)
    calls: list[str] = []

    def some(job):
        if len(calls) % 4 == 3:
            calls.append("stop")
            raise KeyboardInterrupt
        receipt = write_sequences(job)
        calls.append(receipt.unit)
        return receipt

    monkeypatch.setattr(sequences.SequencePlan, "work", staticmethod(some))
    while not (tmp_path / "s" / "manifest.json").exists():
        try:
            split(tokens, tmp_path / "s", unit_size=1500)
        except KeyboardInterrupt:
            assert not (tmp_path / "s" / "manifest.json").exists()
    written = [name for name in calls if name != "stop"]
    assert calls.count("stop") > 1
    assert len(written) == len(set(written))
    assert files(tmp_path / "s") == files(tmp_path / "whole")


def test_audit_verify_stats_and_trace_take_it(tokens: Path, divided: Path):
    rows = rows_of(divided)
    found = audit(AuditConfig(dataset=divided))
    assert found.error is None
    assert (found.examples, found.sequences) == (90, len(rows))
    assert verify(VerifyConfig(dataset=divided, deep=True)).problems == ()
    accounts = stats(StatsConfig(dataset=divided))
    assert accounts["accounts"]["raw_rows"] == accounts["accounts"]["final_rows"] == 90
    sums = Counter()
    for totals in Dataset.open(divided).manifest.totals["by_split"].values():
        sums.update(totals)
    assert sums == Counter(Dataset.open(tokens).manifest.totals["by_split"]["all"])
    row = next(row for row in rows if row["window"] == 2)
    tracer = Tracer(divided)
    traced = tracer.trace(row["sequence_id"])
    assert [one["example_id"] for one in traced["examples"]] == [row["example_id"]]
    assert traced["examples"][0]["split"] == row["split"]
    again = tracer.trace(row["example_id"])
    assert row["sequence_id"] in [one["sequence_id"] for one in again["sequences"]]


def test_another_key_than_ingests_holds_for_sequences_and_audit(tokens: Path, tmp_path: Path):
    """The examples' shards keep ingest's group, which was not kept together: audit goes by the key."""
    split(tokens, tmp_path / "s", group_by="shelf")
    assert audit(AuditConfig(dataset=tmp_path / "s")).error is None
    shelves = defaultdict(set)
    for row in rows_of(tmp_path / "s"):
        shelves[row["group"]].add(row["split"])
    assert sorted(shelves) == sorted({f"shelf {k}" for k in range(10)})
    assert {len(where) for where in shelves.values()} == {1}
    careless = [
        example(f"page {k} " + "abcdefghijklmnop"[k % 16] * 30, group=f"g{k}", topic=f"t{k % 4}") for k in range(40)
    ]
    write(tmp_path / "c", careless)
    tokenize(tmp_path / "c", out=tmp_path / "ct")
    split(tmp_path / "ct", tmp_path / "cs", "train=0.5,test=0.5", edges="exact")
    leaks = audit(AuditConfig(dataset=tmp_path / "cs", group_by="topic")).leaks
    assert leaks["group"] == 4


def test_what_was_placed_stays_and_new_sequences_follow(tokens: Path, tmp_path: Path):
    split(tokens.with_name("pages"), tmp_path / "old")
    where = places(tmp_path / "old")
    split(tokens, tmp_path / "s", None, like=tmp_path / "old")
    assert {row["text"]: row["split"] for row in rows_of(tmp_path / "s")} == where
    # More pages: the split of sequences is itself one to go on with.
    write(tmp_path / "more", [*pages(), *books(20, first=100)])
    tokenize(tmp_path / "more", out=tmp_path / "moretokens")
    split(tmp_path / "moretokens", tmp_path / "next", None, like=tmp_path / "s")
    now = {row["text"]: row["split"] for row in rows_of(tmp_path / "next")}
    assert len(now) == 150
    assert where.items() <= now.items()
    assert audit(AuditConfig(dataset=tmp_path / "next")).error is None


def test_a_split_of_sequences_is_split_again(tokens: Path, divided: Path, tmp_path: Path):
    result = split(divided, tmp_path / "t", "train=0.5,test=0.5")
    assert content(rows_of(tmp_path / "t")) == content(rows_of(tokens))
    assert result.report["groups"]["components"] == 30
    assert audit(AuditConfig(dataset=tmp_path / "t")).error is None
    assert verify(VerifyConfig(dataset=tmp_path / "t")).problems == ()


def test_splits_of_sequences_that_were_made_apart_are_joined(divided: Path, tmp_path: Path):
    write(tmp_path / "more", [example(f"story {k} " + "word " * 80, source="more") for k in range(40)])
    tokenize(tmp_path / "more", out=tmp_path / "moretokens")
    split(tmp_path / "moretokens", tmp_path / "t", None, like=divided)
    concat(ConcatConfig(inputs=(divided, tmp_path / "t"), output=tmp_path / "both"))
    joined = Dataset.open(tmp_path / "both")
    by_source = stats(StatsConfig(dataset=tmp_path / "both"))["shares"]["source"]
    assert {name: row["amounts"]["sequence"] for name, row in by_source.items()} == {
        name: totals["sequences"] for name, totals in joined.manifest.totals["by_source"].items()
    }
    tracer = Tracer(tmp_path / "both")
    for shard in joined.sequence_shards:
        row = joined.sequence_reader(shard).table(["sequence_id", "example_id"]).to_pylist()[0]
        (found,) = tracer.trace(row["sequence_id"])["examples"]
        assert (found["example_id"], found["split"]) == (row["example_id"], shard.split)
    assert verify(VerifyConfig(dataset=tmp_path / "both")).problems == ()


def test_examples_without_a_sequence_tie_and_are_not_counted(tmp_path: Path):
    # Every third example is too long for one sequence; it is of the group of the one before.
    rows = [
        example(f"alpha {k}", group=f"a{k}", position=k) if k % 3 == 0 else
        example(f"gamma {k}", group=f"c{k}") if k % 3 == 2 else
        example(f"beta {k} " + "long " * 200, group=f"a{k - 1}")
        for k in range(90)
    ]  # fmt: skip
    write(tmp_path / "d", rows)
    tokenize(tmp_path / "d", out=tmp_path / "e", overlong="drop")
    assert Dataset.open(tmp_path / "e").manifest.counts["kept"] == 60
    result = split(tmp_path / "e", tmp_path / "s")
    split(tmp_path / "d", tmp_path / "before")
    assert (result.counts["read"], result.counts["kept"]) == (60, 60)
    assert places(tmp_path / "s").items() <= places(tmp_path / "before").items()
    assert stats(StatsConfig(dataset=tmp_path / "s"))["accounts"]["num_excluded"] == 30


def test_several_inputs_and_an_empty_one(tokens: Path, tmp_path: Path):
    write(tmp_path / "more", books(20, first=100))
    tokenize(tokens.with_name("pages"), tmp_path / "more", out=tmp_path / "both")
    split(tmp_path / "both", tmp_path / "s")
    assert len(places(tmp_path / "s")) == 150
    assert audit(AuditConfig(dataset=tmp_path / "s")).error is None
    assert verify(VerifyConfig(dataset=tmp_path / "s")).problems == ()
    write(tmp_path / "none", [])
    tokenize(tmp_path / "none", out=tmp_path / "nothing")
    result = split(tmp_path / "nothing", tmp_path / "t")
    assert result.counts["read"] == 0
    assert Dataset.open(tmp_path / "t").sequence_shards == ()


def test_missing_lineage_is_said_with_what_to_name(tokens: Path, tmp_path: Path):
    moved, away = shutil.copytree(tokens, tmp_path / "tokens"), tokens.parent
    with pytest.raises(IntegrityError, match=r"the input dataset .* is not at") as caught:
        split(moved, tmp_path / "s")
    assert "--base" in caught.value.hint
    split(moved, tmp_path / "s", bases=(away,))
    with pytest.raises(ConfigError, match="sequences are never in tar shards"):
        split(moved, tmp_path / "t", bases=(away,), shards="tar")


def test_a_sequence_of_no_known_example_stops_the_run(tokens: Path, tmp_path: Path):
    sequenced = Dataset.open(tokens)
    write(tmp_path / "others", books(5))
    with pytest.raises(
        SourceError, match=r"90 of its examples are not in .*others, so their groups are not known"
    ) as caught:
        sequences.read_sequences(sequenced, Dataset.open(tmp_path / "others"))
    assert "--base" in caught.value.hint


@pytest.mark.parametrize(
    ("source", "ingest", "recipe"),
    [
        ("chat/sft.jsonl", ["chat"], ["--recipe", "sft"]),
        ("captions_alttext", ["caption"], ["--recipe", "vlm", "--set", "image_size=56"]),
    ],
)
def test_real_dumps_by_the_command_line(
    shared: Path, tmp_path: Path, source: str, ingest: list[str], recipe: list[str]
):
    def at(name: str) -> str:
        return str(tmp_path / name)

    def command(*words: object, code: int = 0) -> None:
        assert shardkit([*map(str, words), "--quiet"]) == code, words

    data = shared / "data"
    ratios = ["--ratios", "train=0.8,val=0.1,test=0.1"]
    words = ["--tokenizer", data / "tokenizers" / "minimind", "--add-control-tokens", "--max-tokens", 64, *recipe]
    command("ingest", *ingest, data / source, "-o", at("d"), "--limit", 60)
    command("tokenize", at("d"), "-o", at("e"), *words)
    command("split", at("e"), "-o", at("s"), *ratios)
    command("split", at("d"), "-o", at("before"), *ratios)
    command("tokenize", at("before"), "-o", at("after"), *words)
    assert places(tmp_path / "s") == places(tmp_path / "before")
    one, other = ({(row["sequence_id"], row["split"]) for row in rows_of(tmp_path / name)} for name in ("s", "after"))
    assert one == other
    command("audit", at("s"))
    command("verify", at("s"), "--deep")
    command("plan", at("s"), "--max-tokens", 128)
    command("split", at("after"), "-o", at("t"), *ratios, code=3)
