"""stats, head and schema: figures against a count by hand, and tables that are complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import PROCESSORS
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.report.head import head
from shardkit.prepare.report.schema import REASONS, schema
from shardkit.prepare.report.stats import StatsConfig, quantiles, run
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.sequence.recipes import RECIPES
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write

ROWS = [
    example(
        "t" * (k + 1),
        *(png(10 * k + n, side=4 + k % 3) for n in range(k % 3)),
        source="ab"[k % 2],
        group=f"g{k // 2}",
        k=k,
    )
    for k in range(30)
]


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("road")
    for shards in ("arrow", "tar"):
        write(path / shards, [*ROWS, ROWS[1]], licences=dict.fromkeys(range(10), "MIT"), shards=shards, unit_rows=7)
    dedup(DedupConfig(inputs=(path / "arrow",), output=path / "clean"))
    split(SplitConfig(input=path / "clean", output=path / "split", ratios=parse_ratios("train=0.7,test=0.3")))
    return path


def cells(dataset: Dataset) -> dict[str, dict[str, dict[str, int]]]:
    """Source -> split -> units, counted from whole examples."""
    found: dict[str, dict[str, Counter]] = {}
    for shard, _, e in dataset.examples():
        cell = found.setdefault(e.source, {}).setdefault(dataset.shards[shard].split, Counter())
        cell.update(
            examples=1,
            images=len(e.images),
            pixels=sum(i.width * i.height for i in e.images),
            bytes=sum(len(i.data) + 64 for i in e.images) + 32 + len(e.text.encode()) + len(e.metadata.encode()),
        )
    return {source: {split: dict(cell) for split, cell in row.items()} for source, row in found.items()}


@pytest.mark.parametrize("name", ["arrow", "tar", "clean", "split"])
def test_stats_count_what_is_there(road: Path, name: str):
    dataset = Dataset.open(road / name)
    figures = run(StatsConfig(dataset=road / name))
    assert figures["by_source_and_split"] == cells(dataset)
    rows = [e for _, _, e in dataset.examples()]
    assert figures["totals"]["examples"] == len(rows) == figures["kept"]
    assert figures["text_characters"]["max"] == 30
    assert figures["text_characters"]["median"] == int(
        np.quantile([len(e.text) for e in rows], 0.5, method="inverted_cdf")
    )
    images = [i for e in rows for i in e.images]
    assert figures["image_width"]["mean"] == round(sum(i.width for i in images) / len(images), 3)
    assert figures["image_pixels"]["max"] == max(i.width * i.height for i in images)
    assert run(StatsConfig(dataset=road / name, workers=2)) == figures


def test_stats_agree_with_the_manifest(road: Path):
    figures = run(StatsConfig(dataset=road / "split"))
    totals = Dataset.open(road / "split").manifest.totals
    assert figures["by_source"] == totals["by_source"]
    assert figures["by_split"] == totals["by_split"]
    assert set(figures["by_split"]) == {"train", "test"}


def test_licences_and_exclusions(road: Path):
    figures = run(StatsConfig(dataset=road / "clean"))
    assert (figures["read"], figures["kept"], figures["excluded_by_reason"]) == (31, 30, {"duplicate_exact": 1})
    assert figures["licences"]["MIT"] == sum(max(len(e.images), 1) for e in ROWS[:10])
    assert figures["licences"]["unknown"] > 0


def test_an_empty_dataset_has_figures_too(tmp_path: Path):
    write(tmp_path / "a", [])
    figures = run(StatsConfig(dataset=tmp_path / "a"))
    assert figures["totals"] == {"bytes": 0, "examples": 0, "images": 0, "pixels": 0}
    assert figures["text_characters"] == figures["image_width"] == {}
    assert head(tmp_path / "a", number=3) == []


def test_quantiles_are_values_that_occur():
    found = quantiles(np.array([1, 2, 3, 100], np.int64))
    assert found == {"min": 1, "p05": 1, "p25": 1, "median": 2, "p75": 3, "p95": 100, "max": 100, "mean": 26.5}


def test_head_shows_the_first_examples_in_short(road: Path):
    shown = head(road / "arrow", number=3)
    assert [row["example_id"] for row in shown] == [row.example_id for row in ROWS[:3]]
    assert shown[2]["images"][1] == {
        "height": 6, "width": 6, "media_type": "image/png", "bytes": len(ROWS[2].images[1].data),
        "asset_id": ROWS[2].images[1].asset_id,
    }  # fmt: skip
    assert (shown[2]["text"], shown[2]["group"], shown[2]["metadata"], shown[2]["split"]) == (
        "ttt",
        "g1",
        {"k": 2},
        "all",
    )
    assert {row["split"] for row in head(road / "split", number=5, split="test")} == {"test"}
    with pytest.raises(ConfigError, match="no split 'dev'; it has train, test"):
        head(road / "split", number=1, split="dev")


def test_long_texts_and_control_characters_are_shortened(tmp_path: Path):
    write(tmp_path / "a", [example("line\none\x1b[31m" + "x" * 500)])
    (shown,) = head(tmp_path / "a", number=9)
    assert shown["text"].startswith("line\\none\\x1b[31mxxx")
    assert shown["text"].endswith("...")
    assert shown["num_characters"] == 513


def test_schema_names_recipes_and_processors_with_their_settings():
    found = schema()
    assert set(found["recipes"]) == set(RECIPES)
    assert found["recipes"]["vlm"]["image_size"] == 224
    assert found["recipes"]["vlm"]["processor"] == "square"
    assert set(found["processors"]) == set(PROCESSORS)
    assert found["processors"]["tiles"]["max_tiles"] == 4


def test_schema_names_reasons_and_exit_codes():
    found = schema()
    assert found["exit_codes"] == {
        "0": "done, or unchanged", "1": "ShardkitError", "2": "usage", "3": "ConfigError", "4": "SourceError",
        "5": "IntegrityError", "6": "LeakError", "7": "ResumeError", "8": "OutputError",
        "130": "interrupted (SIGINT)", "143": "terminated (SIGTERM)",
    }  # fmt: skip
    assert set(REASONS) == {"ingest", "dedup", "decontaminate", "split", "tokenize", "select", "forget"}
    assert "duplicate_pixel" in found["reasons"]["dedup"]
    assert all(meaning for reasons in found["reasons"].values() for meaning in reasons.values())
    assert found["tables"]["ledger"] == {
        "order": "int64", "key": "string", "kind": "string", "split": "string", "rows": "int64",
    }  # fmt: skip
