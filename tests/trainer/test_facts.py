"""Datasets that the bundled trainer does not take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run
from shardkit.store.dataset import Dataset
from shardkit.trainer.facts import read_facts

TOKENIZER = Path(__file__).resolve().parents[1] / "data" / "tokenizer"
TURNS = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def test_prompts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": TURNS}) + "\n")
    ingest(IngestConfig(format="chat", paths=(tmp_path / "rows.jsonl",), output=tmp_path / "examples"))
    run(TokenizeConfig(inputs=(tmp_path / "examples",), output=tmp_path / "out", tokenizer=TOKENIZER, recipe="rlaif"))
    with pytest.raises(ConfigError) as caught:
        read_facts(Dataset.open(tmp_path / "out"))
    assert (caught.value.what, caught.value.where) == ("it holds prompts: no token is a target", str(tmp_path / "out"))
