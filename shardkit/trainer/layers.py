"""Layers that the language model and the tower share, and their initial weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from shardkit.digest import mix64

Attend = Callable[..., Tensor]
"""`attend`, or `attend_dense` to compare it with"""


class SwiGLU(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        gate, value = self.up(rows).chunk(2, dim=-1)
        return cast(Tensor, self.down(silu(gate) * value))


def initialise(model: nn.Module, seed: int) -> None:
    """Fill every parameter from its own generator, so that its start depends on (seed, name, shape) and nothing else.

    Matrices: normal, deviation 1 / sqrt(inputs); embeddings: 0.02; gains of norms: 1; other vectors: 0.
    """
    for module_name, module in model.named_modules():
        for name, parameter in module.named_parameters(module_name, recurse=False):
            with torch.no_grad():
                if isinstance(module, nn.RMSNorm):
                    parameter.fill_(1.0)
                elif parameter.dim() < 2:
                    parameter.zero_()
                else:
                    deviation = 0.02 if isinstance(module, nn.Embedding) else parameter.shape[1] ** -0.5
                    generator = torch.Generator().manual_seed(mix64(seed, name, "init") >> 1)
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
