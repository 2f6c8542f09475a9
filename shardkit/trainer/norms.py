"""How strongly each part of the model, and each objective, is pulled: norms of gradients over the global batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from shardkit.trainer.ranks import sum_over_ranks


def grad_norm_by_part(model: nn.Module) -> dict[str, float]:
    """Norm of the gradient of each part that is trained: lm, vision."""
    found = {}
    for name, part in model.named_children():
        gradients = [p.grad for p in part.parameters() if p.requires_grad and p.grad is not None]
        if gradients:
            found[name] = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients])))
    return found


@dataclass(kw_only=True)
class ObjectiveNorms:
    """The gradient of each objective alone, before weights: a pass forward and backward for each, so not for every step."""

    names: tuple[str, ...]
    parameters: Sequence[Tensor]
    _sums: dict[int, list[Tensor]] = field(default_factory=dict)

    def add(self, make_sums: Callable[[], Tensor], denominators_K: Tensor) -> None:
        """The share of a micro-step.

        Args:
            make_sums: gives [objectives] sums with a graph of their own, which is used up.
        """
        for number in torch.nonzero(denominators_K > 0)[:, 0].tolist():
            sums_K = make_sums()
            if not sums_K.requires_grad:
                return
            gradients = torch.autograd.grad(
                sums_K[number] / denominators_K[number],
                list(self.parameters),
                allow_unused=True,
                materialize_grads=True,
            )
            held = self._sums.setdefault(number, [torch.zeros_like(p) for p in self.parameters])
            for total, gradient in zip(held, gradients, strict=True):
                total += gradient

    def found(self, denominators_K: Tensor) -> dict[str, float]:
        """Norm by name, over all ranks."""
        norms = {}
        for number in torch.nonzero(denominators_K > 0)[:, 0].tolist():
            # A rank on which it did not occur takes part with nothing.
            held = self._sums.get(number) or [torch.zeros_like(p) for p in self.parameters]
            sum_over_ranks(held)
            norms[self.names[number]] = float(
                torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in held]))
            )
        return norms
