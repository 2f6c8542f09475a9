"""Preference pairs: the published formula, one pass for the references, pairs that learn."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.media.reasons import BadMedia
from shardkit.store.dataset import Dataset
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.preference import of_pairs

ONE = {"task": "dpo", "max_tokens": 128, "lr": 3e-3, "warmup": 2, "threads": 1, "global_batch": 2}


def make_config(data: Path, out: Path, **changes) -> TrainConfig:
    return TrainConfig(**{"data": data, "out": out, "steps": 6, **ONE, **changes})


def test_the_worked_pair():
    # Gains of 2 and 1, beta 0.1: -log sigmoid(0.1).
    ((loss, right, margin),) = of_pairs(torch.tensor([[-3.0, -4.0]]), torch.tensor([[-5.0, -5.0]]), 0.1).tolist()
    assert (loss, right, margin) == (pytest.approx(0.644397, abs=1e-6), 1.0, 1.0)
    both = of_pairs(torch.tensor([[-3.0, -4.0], [-1.0, -1.0]]), torch.tensor([[-5.0, -5.0], [0.0, -2.0]]), 0.1)
    assert both.sum(0).tolist() == pytest.approx([0.6443966600735709 + math.log1p(math.exp(0.2)), 1.0, -1.0])


def test_before_the_first_step_nothing_is_preferred(pairs: Path, tmp_path: Path):
    train(make_config(pairs, tmp_path / "run", steps=1, lr=0.0, objective_norms_every=1))
    (record,) = read_log(tmp_path / "run/log.jsonl")
    assert record["loss"] == pytest.approx(math.log(2), abs=1e-9)
    assert record["loss_by_objective"] == {"preference": record["loss"], "accuracy": 0.0, "margin": 0.0}
    assert record["grad_norm_by_objective"] == {"preference": pytest.approx(record["grad_norm"], rel=1e-5)}


def test_the_chosen_answers_gain(pairs: Path, tmp_path: Path):
    train(make_config(pairs, tmp_path / "run", steps=30))
    records = read_log(tmp_path / "run/log.jsonl")
    assert records[-1]["loss"] < 0.6 < records[0]["loss"]
    assert records[-1]["loss_by_objective"]["accuracy"] == 1.0
    assert records[-1]["loss_by_objective"]["margin"] > 1.0


def test_micro_steps_and_one_step_agree(pairs: Path, tmp_path: Path):
    one = train(make_config(pairs, tmp_path / "one", steps=4))
    two = train(make_config(pairs, tmp_path / "two", steps=4, micro_steps=2))
    assert two.loss == pytest.approx(one.loss, abs=1e-6)
    for (name, first), second in zip(one.model.named_parameters(), two.model.parameters(), strict=True):
        assert torch.allclose(first, second, atol=1e-5), name


def test_a_run_goes_on_with_its_references_and_ends_with_the_same_bits(pairs: Path, tmp_path: Path):
    whole = train(make_config(pairs, tmp_path / "whole", steps=6))
    train(make_config(pairs, tmp_path / "parts", steps=3, checkpoint_every=3))
    (file,) = (tmp_path / "parts").glob("reference-*.pt")
    (whole_file,) = (tmp_path / "whole").glob("reference-*.pt")
    assert whole_file.name == file.name
    before = file.stat().st_mtime_ns
    parts = train(make_config(pairs, tmp_path / "parts", steps=6, resume=True))
    assert parts.weights_digest == whole.weights_digest
    assert file.stat().st_mtime_ns == before
    file.unlink()
    with pytest.raises(IntegrityError, match="references of the run are missing"):
        train(make_config(pairs, tmp_path / "parts", steps=7, resume=True))
    data = bytearray(whole_file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match="the file is damaged"):
        train(make_config(pairs, tmp_path / "parts", steps=7, resume=True))


def test_a_run_begins_with_the_weights_of_another(answers: Path, pairs: Path, tmp_path: Path):
    taught = train(make_config(answers, tmp_path / "sft", task="sft", steps=3))
    train(make_config(pairs, tmp_path / "dpo", steps=2, init=tmp_path / "sft"))
    run = torch.load(next((tmp_path / "dpo/checkpoints").glob("step-*.pt")), weights_only=True)
    assert run["stages"][0]["start"] == taught.weights_digest
    (file,) = (tmp_path / "dpo").glob("reference-*.pt")
    assert file.name.startswith(f"reference-{taught.weights_digest}-{Dataset.open(pairs).id[:16]}-")


def test_weights_that_do_not_fit_leave_nothing_behind(answers: Path, pairs: Path, texts: Path, tmp_path: Path):
    train(make_config(answers, tmp_path / "sft", task="sft", steps=1))
    out = tmp_path / "out"
    for changes, message in (
        ({"preset": "small"}, r"lm.blocks.0.attention_norm.weight has the shape \(256,\), in the run it has \(64,\)"),
        ({"positions": "learned"}, r"lm.embed_positions.weight has the shape \(64,\), in the run it has none"),
        ({"init": tmp_path / "nothing"}, "the run has no checkpoint"),
        ({"data": texts, "task": "lm"}, "the run was trained with the tokenizer"),
    ):
        with pytest.raises(ConfigError, match=message):
            train(replace(make_config(pairs, out, init=tmp_path / "sft"), **changes))
        assert not out.exists()
    (file,) = (tmp_path / "sft/checkpoints").glob("step-*.pt")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(IntegrityError, match="the file is damaged"):
        train(make_config(pairs, out, init=tmp_path / "sft"))
    assert not out.exists()


def test_tasks_and_datasets_must_fit(answers: Path, pairs: Path, texts: Path, tmp_path: Path):
    for data, task, words in ((pairs, "sft", "chosen"), (pairs, "lm", "chosen"), (pairs, "vlm-dpo", "needs preference pairs with images"), (answers, "dpo", "answer"),
                              (texts, "sft", "needs dialogues"), (texts, "vlm-align", "needs texts with images")):  # fmt: skip
        with pytest.raises(ConfigError, match=words):
            train(make_config(data, tmp_path / f"{task}-{words[:3]}", task=task))


def test_beta_is_bound(pairs: Path, tmp_path: Path):
    config = make_config(pairs, tmp_path / "run", steps=1, beta=0.2)
    train(config)
    assert json.loads((tmp_path / "run/run.json").read_text())["settings"]["beta"] == 0.2
    with pytest.raises(Exception, match=r"beta: 0.2 -> 0.3"):
        train(replace(config, beta=0.3, resume=True, steps=2))


def test_pairs_with_pictures_teach_the_tower_too(pairs_with_pictures: Path, tmp_path: Path):
    def config(out: str, **changes) -> TrainConfig:
        return make_config(pairs_with_pictures, tmp_path / out, **{"task": "vlm-dpo", "steps": 4, **changes})

    whole = train(config("whole"))
    train(config("parts", steps=2, checkpoint_every=2))
    assert train(config("parts", resume=True)).weights_digest == whole.weights_digest
    first, *_, last = read_log(tmp_path / "whole/log.jsonl")
    assert first["loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert last["loss"] < first["loss"]
    assert first["grad_norm_by_part"]["vision"] > 0
    assert first["images"] == 2 * first["sequences"]
    with pytest.raises(ConfigError, match="without images") as refused:
        train(config("no", task="dpo"))
    assert refused.value.hint == "use --task vlm-dpo"


def test_a_picture_that_cannot_be_decoded_stops_the_pass_for_the_references(
    pairs_with_pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def failing(_data: bytes) -> None:
        raise BadMedia("corrupt", "it is cut")

    monkeypatch.setattr("shardkit.loader.pictures.decode_rgb", failing)
    with pytest.raises(SourceError, match=r"arrow:0: image 0 cannot be decoded \(corrupt: it is cut\)"):
        train(make_config(pairs_with_pictures, tmp_path / "run", task="vlm-dpo"))
    assert not list(tmp_path.glob("run/reference-*"))
