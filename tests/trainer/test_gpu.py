"""A run on a GPU, beside the same one on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from shardkit.errors import ConfigError
from shardkit.trainer.checkpoint import load_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.stages import read_stages

OPTIONS = {"steps": None, "threads": 1, "warmup": 1, "eval_every": 4}


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_written(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    config = TrainConfig(task="vlm-align", data=tokens, out=tmp_path / "run", steps=1, device="cuda")
    with pytest.raises(ConfigError, match="no CUDA device"):
        train(config)
    assert not (tmp_path / "run").exists()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(("precision", "close"), [("fp32", 2e-2), ("bf16", 5e-2)])
def test_all_tasks_take_the_steps_of_the_cpu(road: Path, tmp_path: Path, precision: str, close: float):
    runs = {}
    for device in ("cpu", "cuda"):
        out = tmp_path / device
        result = train(
            read_stages(road / "stages.toml", {**OPTIONS, "out": out, "device": device, "precision": precision})
        )
        assert result.model.device.type == device
        runs[device] = read_log(out / "log.jsonl")
    here, there = runs["cpu"], runs["cuda"]
    assert [record["stage"] for record in here] == [record["stage"] for record in there]
    for one, other in zip(here, there, strict=True):
        for counted in ("tokens", "supervised_tokens", "pixels", "flops", "shares"):
            assert one[counted] == other[counted], counted
        assert other["loss"] == pytest.approx(one["loss"], rel=close), one["step"]
        assert other["peak_device_memory_mb"] > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_run_on_a_gpu_goes_on(tokens: Path, tmp_path: Path):
    def run(out: str, steps: int, **changes) -> list[dict]:
        settings = {"task": "vlm-align", "data": tokens, "out": tmp_path / out, "max_tokens": 64, "device": "cuda"}
        train(TrainConfig(**settings, steps=steps, **changes))
        return read_log(tmp_path / out / "log.jsonl")

    whole, _ = run("whole", 6), run("parts", 3)
    parts = run("parts", 6, resume=True)
    assert [record["batch_id"] for record in parts] == [record["batch_id"] for record in whole]
    assert parts[-1]["loss"] == pytest.approx(whole[-1]["loss"], rel=1e-3)
    saved = load_checkpoint(tmp_path / "parts" / "checkpoints")
    assert {value.device.type for value in saved["model"].values()} == {"cpu"}
