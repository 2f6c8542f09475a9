"""Datasets that the bundled trainer does not take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit import cli
from shardkit.errors import ConfigError
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run
from shardkit.sequence.plan import Mixture
from shardkit.store.dataset import Dataset
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import read_facts
from shardkit.trainer.loop import train
from tests.trainer.conftest import shardkit, tokenize

TOKENIZER = Path(__file__).resolve().parents[1] / "data" / "tokenizer"
TURNS = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def test_prompts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": TURNS}) + "\n")
    ingest(IngestConfig(format="chat", paths=(tmp_path / "rows.jsonl",), output=tmp_path / "examples"))
    run(TokenizeConfig(inputs=(tmp_path / "examples",), output=tmp_path / "out", tokenizer=TOKENIZER, recipe="rlaif"))
    with pytest.raises(ConfigError) as caught:
        read_facts(Dataset.open(tmp_path / "out"))
    assert (caught.value.what, caught.value.where) == ("it holds prompts: no token is a target", str(tmp_path / "out"))


def test_what_a_mixture_never_draws_is_no_objective(tokens: Path, texts: Path, tmp_path: Path) -> None:
    """So no weight is asked for it, and one is refused."""
    shardkit("ingest", "text", texts.parent / "raw.jsonl", "-o", tmp_path / "letters", "--source", "letters")
    shardkit("ingest", "ocr", tokens.parent / "raw", "-o", tmp_path / "pages", "--source", "pages")
    assert cli.run(["concat", f"{tmp_path}/letters", f"{tmp_path}/pages", "-o", f"{tmp_path}/ingest", "--quiet"]) == 0
    tokenize(tmp_path, "--recipe", "vlm", "--set", "image_size=56")
    dataset = Dataset.open(tmp_path / "tokens")

    def objectives(**mixture: object) -> tuple[str, ...]:
        return read_facts(dataset, Mixture.of(mixture)).objectives

    assert read_facts(dataset).objectives == ("text", "ocr")
    assert objectives(weights={"letters": 1, "pages": 1}) == ("text", "ocr")
    assert objectives(weights={"letters": 1, "pages": 0}) == ("text",)
    assert objectives(weights={"letters": 0, "pages": 1}) == ("ocr",)
    later = [{"from_step": 9, "weights": {"letters": 1, "pages": 1}}]
    assert objectives(weights={"letters": 0, "pages": 1}, then=later) == ("text", "ocr")
    assert objectives(temperature=0.5) == ("text", "ocr")
    config = TrainConfig(
        task="vlm-align",
        data=dataset.path,
        out=tmp_path / "run",
        steps=1,
        mixture={"weights": {"letters": 0, "pages": 1}},
        objective_weights={"text": 1.0, "ocr": 1.0},
    )
    with pytest.raises(ConfigError, match="no target of objective text"):
        train(config)
