"""bfloat16: matrices and attention compute with it; weights, optimizer and losses stay float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from shardkit.errors import ResumeError
from shardkit.trainer.checkpoint import load_checkpoint
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.run import read_run
from tests.trainer.builders import docs_with_pictures, make_batch, make_model
from tests.trainer.test_loop import make_config

HALF = {"precision": "bf16", "lr": 5e-3}


def test_a_run_in_bf16_learns_and_goes_on_with_the_same_bits(tokens: Path, tmp_path: Path):
    whole = train(make_config(tokens, tmp_path / "whole", steps=12, **HALF))
    train(make_config(tokens, tmp_path / "parts", steps=5, **HALF))
    resumed = train(make_config(tokens, tmp_path / "parts", steps=12, resume=True, **HALF))
    assert (resumed.loss, resumed.weights_digest) == (whole.loss, whole.weights_digest)

    records = read_log(tmp_path / "parts" / "log.jsonl")
    losses = [record["loss"] for record in records]
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])
    assert {record["precision"] for record in records} == {"bf16"}
    saved = load_checkpoint(tmp_path / "parts" / "checkpoints")
    assert {value.dtype for value in saved["model"].values()} == {torch.float32}
    moments = [one["exp_avg"] for one in saved["optimizer"]["state"].values()]
    assert {moment.dtype for moment in moments} == {torch.float32}


def test_a_run_keeps_its_precision(tokens: Path, tmp_path: Path):
    for first, then in (("bf16", "fp32"), ("fp32", "bf16")):
        out = tmp_path / first
        train(make_config(tokens, out, steps=1, precision=first))
        assert read_run(out)["settings"].get("precision", "fp32") == first
        with pytest.raises(ResumeError, match=f"precision: {first} -> {then}"):
            train(make_config(tokens, out, steps=2, resume=True, precision=then))


def test_losses_and_gradients_are_those_of_float32_within_rounding():
    batch = make_batch(docs_with_pictures())
    found = {}
    for precision in ("fp32", "bf16"):
        model = make_model(precision=precision)
        losses = model.losses(batch)
        losses.sum().backward()
        gradients = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        assert (losses.dtype, gradients.dtype) == (torch.float32, torch.float32)
        found[precision] = losses.detach(), gradients
    (losses, gradients), (rough, rough_gradients) = found["fp32"], found["bf16"]
    assert not torch.equal(losses, rough)
    assert (losses - rough).abs().max() < 0.05
    assert torch.cosine_similarity(gradients, rough_gradients, dim=0) > 0.999


def test_packed_and_alone_are_alike_in_bf16():
    model, docs = make_model(precision="bf16"), docs_with_pictures()
    with torch.no_grad():
        packed = model.losses(make_batch(docs))
        alone = torch.cat([model.losses(make_batch([doc])) for doc in docs])
    assert (packed - alone).abs().max() < 0.05
