"""A run: its steps, its folder, and what it takes to go on with it."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from shardkit.errors import ConfigError, IntegrityError, OutputError, ResumeError
from shardkit.trainer.build import repeatable, weights_digest
from shardkit.trainer.checkpoint import load_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.evaluate import evaluate
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.run import locked
from tests.tokenizer_builders import byte_level


def make_config(tokens: Path, out: Path, **changes) -> TrainConfig:
    settings = {"steps": 6, "max_tokens": 64, "warmup": 2, "threads": 1, **changes}
    return TrainConfig(task="vlm-align", data=tokens, out=out, **settings)


def log_of(out: Path) -> list[dict]:
    return read_log(out / "log.jsonl")


def test_a_run_that_goes_on_ends_with_the_same_bits(tokens: Path, tmp_path: Path):
    whole = train(make_config(tokens, tmp_path / "whole"))
    train(make_config(tokens, tmp_path / "parts", steps=3))
    torch.rand(7)  # what happens in between does not matter
    resumed = train(make_config(tokens, tmp_path / "parts", resume=True))
    assert (resumed.step, resumed.loss, resumed.weights_digest) == (6, whole.loss, whole.weights_digest)

    one, other = (load_checkpoint(tmp_path / name / "checkpoints") for name in ("whole", "parts"))
    for name in one["model"]:
        assert torch.equal(one["model"][name], other["model"][name]), name
    for number, state in one["optimizer"]["state"].items():
        assert all(torch.equal(value, other["optimizer"]["state"][number][name]) for name, value in state.items())
    assert torch.equal(one["rng"], other["rng"])
    assert one["loader"] == other["loader"]
    assert one["stages"] == other["stages"]

    logs = [log_of(tmp_path / name) for name in ("whole", "parts")]
    assert [record["step"] for record in logs[1]] == [1, 2, 3, 4, 5, 6]
    assert [record["loss"] for record in logs[0]] == [record["loss"] for record in logs[1]]
    assert [record["batch_id"] for record in logs[0]] == [record["batch_id"] for record in logs[1]]
    assert "resumed" in logs[1][3]
    assert "resumed" not in logs[1][2]


def test_a_run_crosses_epochs_and_resumes_there(tokens: Path, tmp_path: Path):
    whole = train(make_config(tokens, tmp_path / "whole", steps=8, checkpoint_every=4))
    epochs = [int(record["batch_id"].split("/")[1]) for record in log_of(tmp_path / "whole")]
    assert epochs[0] == 0
    assert epochs[-1] > 0
    first_of_second = epochs.index(1)
    train(make_config(tokens, tmp_path / "parts", steps=first_of_second))
    resumed = train(make_config(tokens, tmp_path / "parts", steps=8, resume=True, checkpoint_every=4))
    assert resumed.weights_digest == whole.weights_digest


def test_the_state_of_the_process_is_left_as_it_was(tokens: Path, tmp_path: Path):
    before = torch.get_rng_state(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    train(make_config(tokens, tmp_path / "run", steps=1))
    with repeatable(make_config(tokens, tmp_path, threads=before[2] + 1)):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == before[2] + 1
        torch.rand(1)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (torch.are_deterministic_algorithms_enabled(), torch.get_num_threads())


def test_the_seed_decides_weights_and_order(tokens: Path, tmp_path: Path):
    one, same, other = (
        train(make_config(tokens, tmp_path / name, steps=2, seed=seed)).weights_digest
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert one == same != other


def test_the_loss_falls(tokens: Path, tmp_path: Path):
    train(make_config(tokens, tmp_path / "run", steps=24, lr=5e-3))
    losses = [record["loss"] for record in log_of(tmp_path / "run")]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_micro_steps_take_the_same_steps_up_to_rounding(tokens: Path, tmp_path: Path):
    for parts in (1, 2, 4):
        train(make_config(tokens, tmp_path / str(parts), steps=1, global_batch=4, max_tokens=32, micro_steps=parts))
    records = [log_of(tmp_path / str(parts))[0] for parts in (1, 2, 4)]
    for record in records[1:]:
        assert record["loss"] == pytest.approx(records[0]["loss"], abs=1e-6)
        assert record["grad_norm"] == pytest.approx(records[0]["grad_norm"], abs=1e-5)
        for name in ("sequences", "images", "pixels", "tokens", "supervised_tokens"):
            assert record[name] == records[0][name]


def test_the_log_counts_what_a_step_saw(tokens: Path, tmp_path: Path):
    train(make_config(tokens, tmp_path / "run", steps=2))
    for record in log_of(tmp_path / "run"):
        assert record["images"] == record["sequences"] > 1
        assert record["pixels"] == record["images"] * 56 * 56
        assert record["tokens"] <= 64
        # bos, image_start, four slots, image_end are no targets.
        assert record["supervised_tokens"] == record["tokens"] - 7 * record["sequences"]
        assert record["loss_by_objective"] == {"ocr": pytest.approx(record["loss"])}
        assert record["image_tokens"] == 4 * record["images"]
        assert record["text_tokens"] == record["tokens"] - record["image_tokens"]
        # 6 for each weight and token; the smoke model has 78,592 weights in its matrices, the head beside.
        assert record["flops"] > 6 * record["tokens"] * 78_592
        # 12,288 for each patch of 14 pixels, and for each token besides its own attention.
        assert record["cost"] > 12_288 * (record["tokens"] + 16 * record["images"])
        assert (record["room"], record["padding"]) == (64, pytest.approx(1 - record["tokens"] / 64))
        parts = record["seconds_by_part"]
        assert set(parts) == {"data", "pack", "encoder", "attention", "forward", "backward", "communication", "update"}
        assert all(parts[name] > 0 for name in parts if name != "communication")
        assert sum(parts.values()) <= record["seconds"] * 1.001
        assert record["per_second"]["tokens"] == pytest.approx(record["tokens"] / record["seconds"], rel=0.01)
        assert 0 < record["step_p50"] <= record["step_p99"]
        assert record["peak_memory_mb"] > 100


def test_norms_of_parts_and_objectives(tokens: Path, tmp_path: Path):
    train(make_config(tokens, tmp_path / "run", steps=2, objective_norms_every=2, clip=1e9))
    first, second = log_of(tmp_path / "run")
    assert "grad_norm_by_objective" not in first
    parts = second["grad_norm_by_part"]
    assert set(parts) == {"lm", "vision"}
    assert math.hypot(*parts.values()) == pytest.approx(second["grad_norm"], rel=1e-5)
    # There is one objective, of weight 1: its gradient is the whole one.
    assert second["grad_norm_by_objective"] == {"ocr": pytest.approx(second["grad_norm"], rel=1e-5)}


@pytest.fixture(scope="module")
def begun(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step; to be copied."""
    out = tmp_path_factory.mktemp("begun") / "run"
    train(make_config(tokens, out, steps=1))
    return out


def test_a_run_is_never_overwritten(tokens: Path, begun: Path, tmp_path: Path):
    shutil.copytree(begun, tmp_path / "run")
    before = (tmp_path / "run" / "log.jsonl").read_bytes()
    with pytest.raises(OutputError, match="a run is there already") as error:
        train(make_config(tokens, tmp_path / "run", steps=1))
    assert "--resume" in error.value.hint
    assert (tmp_path / "run" / "log.jsonl").read_bytes() == before


def test_a_foreign_folder_is_left_alone(tokens: Path, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"the folder holds notes\.txt, and no run"):
        train(make_config(tokens, tmp_path))
    assert not (tmp_path / "checkpoints").exists()


def test_two_runs_do_not_share_a_folder(tokens: Path, tmp_path: Path):
    with locked(tmp_path), pytest.raises(OutputError, match="another run is training here"):
        train(make_config(tokens, tmp_path))


def test_resuming_nothing_begins_anew_and_says_so(tokens: Path, tmp_path: Path):
    notes = []
    fresh = train(make_config(tokens, tmp_path / "fresh", steps=2))
    result = train(make_config(tokens, tmp_path / "run", steps=2, resume=True), on_note=notes.append)
    assert notes == [f"{tmp_path / 'run'}: no checkpoint is there, it begins anew"]
    assert result.weights_digest == fresh.weights_digest


def test_a_finished_run_has_nothing_left_to_do(tokens: Path, tmp_path: Path):
    first = train(make_config(tokens, tmp_path / "run", steps=2))
    again = train(make_config(tokens, tmp_path / "run", steps=2, resume=True))
    shorter = train(make_config(tokens, tmp_path / "run", steps=1, resume=True))
    assert (again.step, again.loss, again.weights_digest) == (2, first.loss, first.weights_digest)
    assert (shorter.step, shorter.weights_digest) == (2, first.weights_digest)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 2e-3}, r"lr: 0\.001 -> 0\.002"),
        ({"seed": 5, "max_tokens": 63}, "max_tokens: 64 -> 63; seed: 0 -> 5"),
        ({"objective_weights": {"ocr": 2.0}}, r"objective_weights: {} -> {'ocr': 2\.0}"),
        ({"threads": 2}, "threads: 1 -> 2"),
    ],
)
def test_changed_settings_are_refused_with_both_sides(tokens: Path, begun: Path, tmp_path: Path, changes, message):
    shutil.copytree(begun, tmp_path / "run")
    with pytest.raises(ResumeError, match=message):
        train(make_config(tokens, tmp_path / "run", resume=True, **changes))


@pytest.mark.parametrize("name", ["run.json", "stages.jsonl", "log.jsonl", "checkpoints/latest"])
def test_a_file_of_the_run_that_cannot_be_read_is_named(tokens: Path, begun: Path, tmp_path: Path, name: str):
    shutil.copytree(begun, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).mkdir()
    with pytest.raises(IntegrityError, match=f"run/{name}: a file of the run cannot be read"):
        train(make_config(tokens, tmp_path / "run", resume=True))


def test_another_dataset_is_refused(tokens: Path, begun: Path, tmp_path: Path):
    shutil.copytree(begun, tmp_path / "run")
    run = tmp_path / "run" / "run.json"
    saved = json.loads(run.read_text())
    saved["facts"]["dataset_id"] = "0123"
    run.write_text(json.dumps(saved))
    with pytest.raises(ResumeError, match="dataset_id: 0123 -> "):
        train(make_config(tokens, tmp_path / "run", resume=True))


def test_what_a_run_left_open_is_decided_once(tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "os.sched_getaffinity", lambda _pid: {0}
    )  # so many threads; two of them fight on a busy machine
    first = train(make_config(tokens, tmp_path / "run", steps=1, max_tokens=None, threads=None))
    assert first.config.max_tokens == 32
    assert first.config.threads == 1
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1, 2})
    second = train(make_config(tokens, tmp_path / "run", steps=2, max_tokens=None, threads=None, resume=True))
    assert second.config.bound() == first.config.bound()


@pytest.mark.parametrize("part", ["vision", "lm"])
def test_a_frozen_part_keeps_its_weights(tokens: Path, tmp_path: Path, part: str):
    free = train(make_config(tokens, tmp_path / "free", steps=1)).model
    frozen = train(make_config(tokens, tmp_path / "frozen", steps=3, freeze=(part,))).model
    start = train(make_config(tokens, tmp_path / "start", steps=1, lr=0.0, weight_decay=0.0)).model
    other = {"vision": "lm", "lm": "vision"}[part]
    assert weights_digest(getattr(frozen, part)) == weights_digest(getattr(start, part))
    assert weights_digest(getattr(frozen, other)) != weights_digest(getattr(start, other))
    assert weights_digest(getattr(free, part)) != weights_digest(getattr(start, part))


def test_weights_of_objectives_scale_the_loss(tokens: Path, tmp_path: Path):
    one, two = (
        train(make_config(tokens, tmp_path / str(weight), steps=1, objective_weights={"ocr": weight})).loss
        for weight in (1.0, 2.0)
    )
    assert two == pytest.approx(2 * one)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "lm"}, "task lm needs texts without images .*; the dataset has 24 images and targets of ocr"),
        ({"objective_weights": {"text": 1.0}}, "no target of objective text"),
        ({"max_tokens": 8}, "max_tokens is 8, but the longest sequence has"),
    ],
)
def test_settings_that_do_not_fit_the_dataset_leave_nothing_behind(tokens: Path, tmp_path: Path, changes, message):
    with pytest.raises(ConfigError, match=message):
        train(replace(make_config(tokens, tmp_path / "run"), **changes))
    assert not (tmp_path / "run" / "run.json").exists()


def test_another_tokenizer_in_the_dataset_is_refused(tokens: Path, tmp_path: Path):
    shutil.copytree(tokens.parent, tmp_path / "copy")
    file = tmp_path / "copy" / "tokens" / "tokenizer" / "tokenizer.json"
    file.write_text(json.dumps(byte_level(words=["another"])))
    with pytest.raises(IntegrityError, match="the tokenizer has the digest"):
        train(make_config(tmp_path / "copy" / "tokens", tmp_path / "run"))


def test_texts_are_trained_on_without_a_tower(texts: Path, tmp_path: Path):
    result = train(replace(make_config(texts, tmp_path / "run", steps=24, lr=5e-3), task="lm"))
    assert result.model.vision is None
    losses = [record["loss"] for record in log_of(tmp_path / "run")]
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    with pytest.raises(ConfigError, match="task vlm-align needs texts with images"):
        train(make_config(texts, tmp_path / "other"))


def test_a_loss_that_is_no_number_stops_the_run_before_it_is_saved(tokens: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="the loss is nan") as error:
        train(make_config(tokens, tmp_path / "run", lr=1e30, warmup=0, checkpoint_every=1))
    assert "--lr" in error.value.hint
    steps = [record["step"] for record in log_of(tmp_path / "run")]
    assert f"step {steps[-1] + 1}, batch " in error.value.where
    assert load_checkpoint(tmp_path / "run" / "checkpoints")["step"] == steps[-1]


def test_a_step_larger_than_an_epoch_is_refused(tokens: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="an epoch has fewer packs than a global batch"):
        train(make_config(tokens, tmp_path / "run", global_batch=64))
    assert not (tmp_path / "run").exists()


def test_a_dataset_without_sequences_is_refused(tokens: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="a dataset of stage ingest holds no sequences"):
        train(make_config(tokens.parent / "ingest", tmp_path / "run"))


def test_the_figure_of_a_run_covers_every_group(tokens: Path, tmp_path: Path):
    result = train(make_config(tokens, tmp_path / "run", steps=1))
    figure = evaluate(result.model, result.config)
    assert (figure.split, figure.num_groups, figure.num_left_out) == ("all", 6, 0)
    assert figure.difference == pytest.approx(figure.permuted - figure.right, abs=1e-6)
    assert evaluate(result.model, result.config) == figure
