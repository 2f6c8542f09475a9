"""The seven fields of provenance: each image of each kept example has them after every stage, and none gets lost."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.prepare.decontaminate.config import Benchmark, DecontaminateConfig
from shardkit.prepare.decontaminate.run import run as decontaminate
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.lineage.forget.config import ForgetConfig
from shardkit.prepare.lineage.forget.run import run as forget
from shardkit.prepare.lineage.trace import Tracer
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run as select
from shardkit.prepare.shrink.config import ShrinkConfig
from shardkit.prepare.shrink.run import run as shrink
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run as tokenize
from shardkit.store.dataset import Dataset
from tests.prepare.builders import example, png, write
from tests.tokenizer_builders import byte_level

KEPT = ("source", "revision", "retrieved_at", "input", "position", "origin", "licence", "relation", "annotator")
"""Columns that no stage may change."""
ROWS = [example(f"row {k}", png(k // 2), source="web", group=f"g{k // 4}") for k in range(12)]
"""Two texts a picture."""
STAGES = ("raw", "clean", "fair", "chosen", "joined", "split", "small", "left", "tokens")


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("fields")
    licences = {k: f"L{k % 3}" for k in range(14)}
    write(at / "raw", [*ROWS, ROWS[0], example("row 1", png(0), source="web", group="g0")], licences=licences)
    dedup(DedupConfig(inputs=(at / "raw",), output=at / "clean", levels=("exact",)))
    (at / "bench.jsonl").write_text('{"text": "something else entirely, which nobody here has ever said before now"}\n')
    bench = Benchmark(name="bench", path=at / "bench.jsonl")
    decontaminate(DecontaminateConfig(inputs=(at / "clean",), output=at / "fair", benchmarks=(bench,)))
    select(SelectConfig(input=at / "fair", output=at / "chosen", where="text_length > 0"))
    write(at / "more", [example("more", png(90), source="more", group="m")], licences={0: "L9"}, inputs=["more.jsonl"])
    concat(ConcatConfig(inputs=(at / "chosen", at / "more"), output=at / "joined"))
    split(SplitConfig(input=at / "joined", output=at / "split", ratios=parse_ratios("train=0.7,test=0.3")))
    shrink(ShrinkConfig(input=at / "split", output=at / "small", max_side=5))
    forget(ForgetConfig(input=at / "small", output=at / "left", licences=("L9",)))
    tokenizer = at / "tokenizer.json"
    tokenizer.write_bytes(orjson.dumps(byte_level()))
    tokenize(TokenizeConfig(inputs=(at / "left",), output=at / "tokens", tokenizer=tokenizer, recipe="vlm",
                            settings={"image_size": "28"}, max_tokens=60))  # fmt: skip
    return at


def origins(dataset: Dataset) -> set[tuple[object, ...]]:
    return {tuple(row[name] for name in KEPT) for row in dataset.table("provenance").to_pylist()}


@pytest.mark.parametrize("stage", STAGES)
def test_every_image_has_its_fields(road: Path, stage: str) -> None:
    dataset = Dataset.open(road / stage)
    rows = dataset.table("provenance").to_pylist()
    known = {(row["example_id"], row["asset_id"], row["frame"]): row for row in rows}
    for _, _, made in dataset.examples():
        for image in made.images:
            row = known[made.example_id, image.asset_id, image.frame]
            assert row["digest"] == f"sha256:{image.asset_id}"
            for name in ("source", "input", "position", "licence", "decoder", "preprocessing", "relation", "group"):
                assert row[name], name
            assert row["derived_recipe"]
            assert bool(row["tokenizer"]) == bool(row["processor"]) == (stage == "tokens")


def test_no_origin_is_lost_from_stage_to_stage(road: Path) -> None:
    raw = origins(Dataset.open(road / "raw"))
    assert len(raw) == 14
    for stage in ("clean", "fair", "chosen"):
        assert origins(Dataset.open(road / stage)) == raw, stage
    more = origins(Dataset.open(road / "more"))
    for stage in ("joined", "split", "small"):
        assert origins(Dataset.open(road / stage)) == raw | more, stage
    for stage in ("left", "tokens"):
        assert origins(Dataset.open(road / stage)) == raw, stage


def test_the_chain_holds_through_all_of_them(road: Path) -> None:
    tracer = Tracer(road / "tokens")
    for position in range(1, 15):
        (row,) = tracer.source(f"rows.jsonl:{position}")["rows"]
        told = [(step["stage"], step["outcome"]) for step in row["history"]]
        if position > 12:
            assert told == [("ingest", "kept"), ("dedup", "duplicate_exact")]
            continue
        assert told == [(stage, "kept") for stage in
                        ("ingest", "dedup", "decontaminate", "select", "concat", "split", "shrink", "forget", "tokenize")]  # fmt: skip
        (now,) = row["examples"]
        found = tracer.trace(now["sequences"][0]["sequence_id"])
        assert [example["position"] for example in found["examples"]] == [str(position)]
        assert str(position) in {origin["position"] for asset in found["assets"] for origin in asset["provenance"]}
