"""Two processes under gloo are one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from shardkit.trainer.objective import NUM_OBJECTIVES, combine, numerators, objective_weights
from shardkit.trainer.ranks import joined_ranks, sum_over_ranks
from tests.trainer.builders import docs_with_pictures, make_batch, make_model


def gradients_of_share(rank: int, world_size: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """(loss, gradients), summed over the ranks; the shares are unlike: one rank has no text objective at all."""
    docs = docs_with_pictures()
    whole, share = make_batch(docs), make_batch(docs[rank::world_size])
    model = make_model()
    sums = numerators(model.losses(share), share.objective_ids[0])
    weights = objective_weights(["text", "caption", "ocr"], {})
    combine(sums, whole.denominators, weights).backward()
    total = sums.detach()
    gradients = [parameter.grad for parameter in model.parameters()]
    sum_over_ranks([total, *gradients])
    return combine(total, whole.denominators, weights), gradients


def test_two_processes_have_the_loss_and_gradients_of_one(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.trainer.test_ranks", str(tmp_path / f"{rank}.pt")],
            env={
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        )
        for rank in range(2)
    ]
    assert [process.wait(120) for process in ranks] == [0, 0]
    loss, gradients = gradients_of_share(0, 1)
    for rank in range(2):
        shared_loss, shared_gradients = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert abs(loss - shared_loss) < 1e-6
        for one, other in zip(gradients, shared_gradients, strict=True):
            assert (one - other).abs().max() < 1e-6
    assert max(one.abs().max() for one in gradients) > 0.1


def test_a_process_alone_sums_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    tensor = torch.ones(NUM_OBJECTIVES)
    with joined_ranks() as place:
        sum_over_ranks([tensor])
    assert place == (0, 1)
    assert tensor.tolist() == [1.0] * NUM_OBJECTIVES


if __name__ == "__main__":
    with joined_ranks() as (own_rank, size):
        torch.save(gradients_of_share(own_rank, size), sys.argv[1])
