"""The operations that the log counts are those that torch counts."""

from __future__ import annotations

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from shardkit.trainer.flops import step_flops
from tests.trainer.builders import Doc, docs_with_pictures, make_batch, make_model, picture


def counted(model: torch.nn.Module, batch) -> int:
    # The fused kernel of a CPU is none that torch counts.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter, torch.no_grad():
        model.logits(batch)
    return counter.get_total_flops()


def test_forward_is_what_torch_counts_and_backward_twice_as_much():
    for docs in (
        [Doc(text=(7, 8, 2)), Doc(text=(9, 10, 11, 2))],
        docs_with_pictures(),
        [Doc(text=(7, 2), images=(picture(1, 112, 84),))],
    ):
        model, batch = make_model(), make_batch(docs)
        assert step_flops(model, batch) == 3 * counted(model, batch)
    assert step_flops(make_model(vision=False), make_batch([Doc(text=(7, 8, 2))])) == 3 * (
        # Two blocks of width 32: 32 x 64 inward, 32 x 32 outward, 32 x 96 up, 48 x 32 down; the head 40 x 32.
        2 * 4 * (2 * (2048 + 1024 + 3072 + 1536) + 1280) + 2 * 4 * 32 * 4 * 4
    )
