"""Model and optimizer at their start, and the ground that makes a run repeatable."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import xxhash
from torch import Tensor, nn

from shardkit.digest import mix64
from shardkit.errors import ConfigError
from shardkit.loader.device import PATCH_SIZES
from shardkit.trainer.config import LOOKING, TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.layers import SwiGLU, initialise
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.sizes import PRESETS

POSITION_TABLE = "lm.embed_positions.weight"


def build_model(config: TrainConfig, facts: Facts, *, tower: bool) -> VisionLanguage:
    """The model at its start, the same on every rank; what is frozen or not used asks for no gradient."""
    model = make_model(config, facts, tower=tower).to_empty(device="cpu")
    initialise(model, config.seed)
    model.to(config.device)
    for part, module in model.named_children():
        if part in config.freeze or (part == "vision" and config.task not in LOOKING):
            module.requires_grad_(False)
    if config.compile:
        for module in model.modules():
            if isinstance(module, SwiGLU):
                # Only these: attention follows the borders of documents, which are others in each batch.
                module.compile(dynamic=True)
    return model


def make_model(config: TrainConfig, facts: Facts, *, tower: bool) -> VisionLanguage:
    """The model without values: names and shapes."""
    with torch.device("meta"):
        return VisionLanguage(
            PRESETS[config.preset],
            vocab_size=facts.vocab_size,
            image_token=facts.image_token,
            patch_sizes=PATCH_SIZES if tower else None,
            slot_side=facts.slot_side,
            max_positions=config.max_tokens if config.positions == "learned" else None,
            theta=config.theta,
            precision=config.precision,
        )


def check_weights(model: nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Compare the weights of another run, of every part that both have, with the model that is to begin with them.

    Raises:
        ConfigError: where they are of another size, vocabulary or kind of positions.
    """
    own = model.state_dict()
    shared = parts_of(own) & parts_of(weights)
    for name in sorted(own.keys() | weights.keys()):
        if name.split(".")[0] not in shared:
            continue
        # Of a table of positions as many rows are taken as both have.
        here, there = (
            tuple(side[name].shape)[name == POSITION_TABLE :] if name in side else "none" for side in (own, weights)
        )
        if here != there:
            raise ConfigError(
                f"{name} has the shape {here}, in the run it has {there}",
                where=str(where),
                hint="give the --preset, --positions and tokenizer of that run",
            )


def take_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Begin with the weights of another run or stage, as far as the model has their names; the others keep their start.

    Of a table of positions as many rows are taken as both have.
    """
    own = model.state_dict()
    for name in own.keys() & weights.keys():
        rows = min(len(own[name]), len(weights[name])) if name == POSITION_TABLE else None
        own[name][:rows].copy_(weights[name][:rows])


def parts_of(weights: Mapping[str, Tensor]) -> set[str]:
    """lm, vision"""
    return {name.split(".")[0] for name in weights}


def trained_parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Names and parameters that are trained, in the order in which the optimizer holds them: matrices first."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    return sorted(named, key=lambda pair: pair[1].dim() < 2)


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW; only matrices decay."""
    parameters = [parameter for _, parameter in trained_parameters(model)]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95))


def take_moments(
    optimizer: torch.optim.Optimizer, model: nn.Module, names: Sequence[str], saved: Mapping[str, Any]
) -> None:
    """Go on with the moments of another optimizer, of every parameter that both train; the others begin anew.

    Args:
        names: of the parameters of the other one, in its order.
        saved: its state.
    """
    held = {name: saved["state"][at] for at, name in enumerate(names) if at in saved["state"]}
    state = {
        at: held[name]
        for at, (name, parameter) in enumerate(trained_parameters(model))
        if name in held and held[name]["exp_avg"].shape == parameter.shape
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


@contextmanager
def repeatable(config: TrainConfig) -> Iterator[None]:
    """Deterministic kernels, the run's number of threads and its own random state; what was before comes back.

    Some kernels of CUDA have no form that always adds in one order: there torch warns, and goes on.
    """
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    precision, gpu = torch.get_float32_matmul_precision(), config.device == "cuda"
    if gpu:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it, and reads it but once
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mix64(config.seed, "torch") >> 1)
        torch.use_deterministic_algorithms(True, warn_only=gpu)
        torch.set_float32_matmul_precision("high" if gpu else "highest")
        torch.set_num_threads(config.threads or 1)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(deterministic)
            torch.set_num_threads(threads)
            torch.set_float32_matmul_precision(precision)


def weights_digest(model: nn.Module) -> str:
    """xxh3-128 over the bytes of all parameters in the order of their names."""
    digest = xxhash.xxh3_128()
    for _, parameter in sorted(model.named_parameters()):
        digest.update(parameter.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
