"""stats: accounts to the row over whole roads, and shares in every unit against a count by hand."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path

import orjson
import pytest

from shardkit.cli import run as command
from shardkit.errors import ConfigError, IntegrityError
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.report.chain import chain
from shardkit.prepare.report.stats import StatsConfig, run
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run as tokenize
from shardkit.sequence.objectives import spread
from shardkit.store import Dataset
from tests.prepare.builders import png

ENGLISH = "The quick brown fox jumps over the lazy dog and looks at it again, number {}."
GERMAN = "Der schnelle braune Fuchs springt immer wieder \u00fcber den faulen Hund und schaut zur\u00fcck, Nummer {}."


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """Two sources with bad rows and duplicates, from raw files to sequences."""
    root = tmp_path_factory.mktemp("road")
    for name, first in (("books", 0), ("web", 100)):
        (root / name).mkdir()
        rows = []
        for k in [*range(27), 0, 1, 2]:
            text = (GERMAN if k % 3 == 0 else ENGLISH).format(first + k)
            row: dict[str, object] = {"text": text, "annotator": f"{name}@{k % 2}"}
            if k == 5:
                row["lang"] = "fr"
            if k % 2:
                (root / name / f"{k}.png").write_bytes(png(first + k, side=4 + k % 3))
                row |= {"text": f"<image>{text}", "images": [f"{k}.png"]}
            rows.append(orjson.dumps(row))
        rows += [b"{broken", b'{"text": ""}', b'{"text": "<image>", "images": ["none.png"]}']
        (root / name / "rows.jsonl").write_bytes(b"\n".join(rows))
        ingest(IngestConfig(format="rows", paths=(root / name / "rows.jsonl",), output=root / f"i-{name}"))
    dedup(DedupConfig(inputs=(root / "i-books", root / "i-web"), output=root / "clean", levels=("exact", "text")))
    split(SplitConfig(input=root / "clean", output=root / "split", ratios=parse_ratios("train=0.8,test=0.2")))
    tokenize(
        TokenizeConfig(
            inputs=(root / "split",),
            output=root / "tokens",
            tokenizer=sample / "tokenizer",
            recipe="vlm",
            max_tokens=128,
        )
    )
    return root


def test_every_raw_row_is_here_or_excluded(road: Path):
    accounts = run(StatsConfig(dataset=road / "tokens"))["accounts"]
    lines = sum(len((road / name / "rows.jsonl").read_bytes().splitlines()) for name in ("books", "web"))
    assert (accounts["raw_rows"], accounts["complete"]) == (lines, True) == (66, True)
    assert [stage["stage"] for stage in accounts["stages"]] == ["tokenize", "split", "dedup", "ingest", "ingest"]
    excluded: Counter[tuple[str, str]] = Counter()
    for name in ("i-books", "i-web", "clean", "split", "tokens"):
        dataset = Dataset.open(road / name)
        for line in dataset.exclusions():
            excluded[dataset.stage, json.loads(line)["reason"]] += 1
    told = {(stage, reason): n for stage, reasons in accounts["excluded"].items() for reason, n in reasons.items()}
    assert told == dict(excluded)
    assert told["ingest", "invalid_json"] == told["ingest", "empty_text"] == told["ingest", "asset_missing"] == 2
    assert {stage for stage, _ in told} >= {"ingest", "dedup"}
    final = Dataset.open(road / "tokens").table("examples").num_rows
    assert accounts["final_rows"] == final
    assert accounts["raw_rows"] == final + sum(excluded.values()) == final + accounts["num_excluded"]


def test_an_input_that_is_gone_is_said(road: Path, tmp_path: Path):
    shutil.copytree(road / "split", tmp_path / "alone")
    accounts = run(StatsConfig(dataset=tmp_path / "alone"))["accounts"]
    assert not accounts["complete"]
    assert (accounts["raw_rows"], accounts["rows_of_missing_inputs"]) == (0, accounts["final_rows"])
    assert accounts["stages"][0]["inputs_not_found"] == [Dataset.open(road / "clean").id]
    found = run(StatsConfig(dataset=tmp_path / "alone", bases=(road,)))["accounts"]
    assert (found["complete"], found["raw_rows"]) == (True, 66)


def test_rows_that_come_by_two_ways_count_twice(road: Path, tmp_path: Path):
    for name, level in (("one", "exact"), ("two", "pixel")):
        dedup(DedupConfig(inputs=(road / "i-web",), output=tmp_path / name, levels=(level,)))
    dedup(DedupConfig(inputs=(tmp_path / "one", tmp_path / "two"), output=tmp_path / "both", levels=("exact",)))
    accounts = run(StatsConfig(dataset=tmp_path / "both"))["accounts"]
    assert accounts["raw_rows"] == 66 == accounts["final_rows"] + accounts["num_excluded"]
    assert [(stage["stage"], stage["times"]) for stage in accounts["stages"]] == [
        ("dedup", 1), ("dedup", 1), ("dedup", 1), ("ingest", 2),
    ]  # fmt: skip


def test_lost_rows_are_an_error(road: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    dataset = Dataset.open(road / "split")
    monkeypatch.setitem(dataset.manifest.counts, "read", 7)
    with pytest.raises(IntegrityError, match="the stage read 7 rows, its inputs kept"):
        chain(dataset)
    ingested = Dataset.open(road / "i-web")
    monkeypatch.setitem(ingested.manifest.counts, "kept", 3)
    with pytest.raises(IntegrityError, match=r"tables/examples\.parquet has 30 rows, the counts say 3"):
        chain(ingested)


def by_hand(road: Path, name: str, objectives: dict[str, int]) -> dict[str, dict[str, Counter]]:
    """dimension -> value -> amounts, from whole examples and sequences."""
    dataset = Dataset.open(road / name)
    found: dict[str, dict[str, Counter]] = {"source": {}, "annotator": {}, "modality": {}}
    sequences: dict[tuple[int, int], list[dict]] = {}
    for shard in dataset.sequence_shards:
        reader = dataset.sequence_reader(shard)
        for row in reader.table().to_pylist():
            sequences.setdefault((row["shard"], row["row"]), []).append(row)
        reader.close()
    patches = iter(dataset.table("lengths").to_pylist() if sequences else [])
    cost = {}
    for row in patches:
        key = (row["shard"], row["row"])
        cost[key] = row["num_tokens"] * (12_288 + row["num_tokens"]) + 12_288 * row["num_patches"]
    places = {}
    for shard in dataset.sequence_shards:
        reader = dataset.sequence_reader(shard)
        for number, row in enumerate(reader.table(["shard", "row"]).to_pylist()):
            places.setdefault((row["shard"], row["row"]), []).append((shard.index, number))
        reader.close()
    names = {1: "text", 2: "caption", 3: "ocr", 4: "answer"}
    for shard_index, row, e in dataset.examples():
        annotators = sorted({r.annotator for r in e.relations if r.annotator})
        modality = "image and text" if e.images else "text"
        own = sequences.get((shard_index, row), [])
        amounts = Counter(
            example=1,
            media=sum(i.width * i.height for i in e.images),
            sequence=len(own),
            token=sum(s["num_tokens"] for s in own),
            loss=sum(objectives.get(names[b], 1) for s in own for b in spread(s["objectives"]) if b),
            compute=sum(cost[place] for place in places.get((shard_index, row), [])),
        )
        for dimension, value in (
            ("source", e.source),
            ("annotator", " + ".join(annotators) or "unknown"),
            ("modality", modality),
        ):
            found[dimension].setdefault(value, Counter()).update(amounts)
    return found


@pytest.mark.parametrize("objectives", [{}, {"caption": 3, "text": 2}])
def test_shares_of_sequences(road: Path, objectives: dict[str, int]):
    figures = run(StatsConfig(dataset=road / "tokens", objectives={k: Fraction(v) for k, v in objectives.items()}))
    wanted = by_hand(road, "tokens", objectives)
    for dimension, values in wanted.items():
        told = figures["shares"][dimension]
        assert set(told) == set(values)
        for value, amounts in values.items():
            assert {unit: told[value]["amounts"][unit] for unit in amounts} == dict(amounts)
        for unit in ("example", "sequence", "token", "media", "loss", "compute", "bytes"):
            assert sum(one["shares"][unit] for one in told.values()) == pytest.approx(1)
    assert set(figures["shares"]["annotator"]) >= {"books@1", "web@1", "unknown"}


def test_before_tokenize_there_are_no_sequences_to_share(road: Path):
    figures = run(StatsConfig(dataset=road / "split"))
    assert set(figures["shares"]["source"]["web"]["shares"]) == {"example", "bytes", "media"}
    assert "sequence_tokens" not in figures


def test_languages(road: Path):
    figures = run(StatsConfig(dataset=road / "i-books"))
    assert figures["languages"]["examples"] == {"de": 10, "en": 19, "fr": 1}
    assert figures["languages"]["model"].startswith("py3langid/")


def test_distributions_of_a_tokenized_dataset(road: Path):
    figures = run(StatsConfig(dataset=road / "tokens", workers=2))
    lengths = Dataset.open(road / "tokens").table("lengths")["num_tokens"].to_pylist()
    assert figures["sequence_tokens"]["max"] == max(lengths)
    assert figures["example_images"]["max"] == 1
    assert figures == run(StatsConfig(dataset=road / "tokens"))


def test_the_command(road: Path, capsys: pytest.CaptureFixture[str]):
    assert command(["stats", str(road / "tokens"), "--workers", "1", "--objective", "caption=2"]) == 0
    text = capsys.readouterr().out
    for piece in (
        "66 raw rows = ",
        "excluded 1: invalid_json",
        "share by annotator",
        "share by modality",
        "languages: en",
        "compute",
    ):
        assert piece in text
    assert command(["stats", str(road / "tokens"), "--objective", "caption=much"]) == 3
    assert "is no number" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="there is no objective 'poem'"):
        run(StatsConfig(dataset=road / "tokens", objectives={"poem": Fraction(1)}))
