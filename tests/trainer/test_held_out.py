"""Evaluation during a run: by source and objective, every sequence once, without a trace in the weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from shardkit import cli
from shardkit.errors import ConfigError
from shardkit.store.dataset import Dataset
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.held_out import HeldOut
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from tests.trainer.conftest import LETTERS, shardkit, tokenize


@pytest.fixture(scope="module")
def two_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources of texts, split in two."""
    folder = tmp_path_factory.mktemp("two")
    for source, letters in (("abc", LETTERS), ("cba", LETTERS[::-1])):
        rows = [json.dumps({"text": letters[n % 11 : n % 11 + 4 + n % 12] + str(n)}) for n in range(20)]
        (folder / f"{source}.jsonl").write_text("\n".join(rows))
        shardkit("ingest", "text", folder / f"{source}.jsonl", "-o", folder / source, "--source", source)
    assert cli.run(["concat", f"{folder}/abc", f"{folder}/cba", "-o", f"{folder}/both", "--quiet"]) == 0
    shardkit("split", folder / "both", "-o", folder / "ingest", "--ratios", "train=0.7,val=0.3", "--edges", "exact")
    tokenize(folder, "--recipe", "pretrain")
    return folder / "tokens"


def make_config(data: Path, out: Path, **changes) -> TrainConfig:
    settings = {"steps": 4, "max_tokens": 64, "warmup": 2, "threads": 1, "eval_every": 2, **changes}
    return TrainConfig(task="lm", data=data, out=out, **settings)


def test_losses_by_source_and_all_together(two_sources: Path, tmp_path: Path):
    train(make_config(two_sources, tmp_path / "run"))
    records = read_log(tmp_path / "run/log.jsonl")
    assert ["eval" in record for record in records] == [False, True, False, True]
    found = records[-1]["eval"]
    assert set(found) == {"", "abc", "cba"}
    assert (
        min(found["abc"]["text"], found["cba"]["text"])
        < found[""]["text"]
        < max(found["abc"]["text"], found["cba"]["text"])
    )
    assert found[""]["text"] < records[1]["eval"][""]["text"]


def test_it_leaves_no_trace_in_the_weights(two_sources: Path, tmp_path: Path):
    with_eval = train(make_config(two_sources, tmp_path / "with"))
    without = train(make_config(two_sources, tmp_path / "without", eval_every=0))
    assert with_eval.weights_digest == without.weights_digest


def test_a_split_that_is_not_there_is_named(two_sources: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="no split 'test' to evaluate on; it has train, val"):
        train(make_config(two_sources, tmp_path / "run", eval_split="test"))
    assert not (tmp_path / "run").exists()


def test_pairs_are_evaluated_too(pairs: Path, tmp_path: Path):
    config = TrainConfig(
        task="dpo",
        data=pairs,
        out=tmp_path / "run",
        steps=12,
        max_tokens=128,
        lr=3e-3,
        warmup=2,
        threads=1,
        eval_every=12,
    )
    train(config)
    found = read_log(tmp_path / "run/log.jsonl")[-1]["eval"][""]
    assert found["accuracy"] == 1.0
    assert found["preference"] < 0.693


def test_evaluation_holds_the_limits_of_the_run(two_sources: Path, tmp_path: Path):
    dataset = Dataset.open(two_sources)
    config = make_config(two_sources, tmp_path, max_attention=10)
    with pytest.raises(ConfigError, match="the limits of the run: max_attention is 10, but the longest") as caught:
        HeldOut(dataset, config, rank=0, world_size=1)
    assert caught.value.where == f"{two_sources}, split val"
    assert caught.value.hint.startswith("set --max-attention to")
    longest = int(caught.value.hint.split()[3])
    HeldOut(dataset, replace(config, max_attention=longest), rank=0, world_size=1).loader.close()
