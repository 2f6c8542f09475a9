"""The loss: summed for each objective over ranks and micro-steps first, divided last, combined by stated weights.

    loss = sum over objectives m of   weight_m * numerator_m / denominator_m

    numerator_m    cross-entropy of the tokens that count for m, over the whole global batch
    denominator_m  their number, over the whole global batch: known from the plan before anything is computed

Every rank and micro-step divides its own numerators by the global denominators; gradients then only have to be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES

NUM_OBJECTIVES = len(OBJECTIVES)


def numerators(losses_T: Tensor, objective_ids_T: Tensor) -> Tensor:
    """[objectives] float64: the summed losses of each objective's tokens; one without tokens gives 0."""
    counts_for = objective_ids_T[None, :] == torch.arange(NUM_OBJECTIVES, device=losses_T.device)[:, None]
    return torch.where(counts_for, losses_T.double()[None, :], 0.0).sum(1)


def combine(numerators_K: Tensor, denominators_K: Tensor, weights_K: Tensor) -> Tensor:
    """The loss, where the numerators are; an objective that the global batch does not have adds nothing."""
    denominators_K, weights_K = denominators_K.to(numerators_K.device), weights_K.to(numerators_K.device)
    present = denominators_K > 0
    shares = torch.where(present, numerators_K / torch.where(present, denominators_K, 1.0), 0.0)
    return (weights_K * shares).sum()


def objective_weights(present: Iterable[str], chosen: Mapping[str, float]) -> Tensor:
    """[objectives] float64 weights: 1 for each objective of the dataset, or what the user chose for every one of them.

    Raises:
        ConfigError: where the choice leaves an objective of the dataset out, or names one that it does not have.
    """
    names = sorted(present, key=OBJECTIVES.__getitem__)
    absent = sorted(set(chosen) - set(names))
    if absent:
        raise ConfigError(
            f"the dataset has no target of objective {', '.join(absent)} (it has {', '.join(names)})",
            hint="leave it out of --objective-weight",
        )
    missing = [name for name in names if chosen and name not in chosen]
    if missing:
        raise ConfigError(
            f"objective {', '.join(missing)} of the dataset has no weight",
            hint=f"add --objective-weight {missing[0]}=1.0, or give no weights at all: all are 1 then",
        )
    weights = torch.zeros(NUM_OBJECTIVES, dtype=torch.float64)
    for name in names:
        weights[OBJECTIVES[name]] = chosen.get(name, 1.0)
    return weights


def by_name(names: Iterable[str], values_K: Tensor, denominators_K: Tensor) -> dict[str, float]:
    """Sum / denominator of each that the global batch has."""
    return {
        name: float(values_K[number] / denominators_K[number])
        for number, name in enumerate(names)
        if denominators_K[number] > 0
    }
