"""Model and optimizer at their start, and the ground that makes a run repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import xxhash
from torch import nn

from shardkit.digest import mix64
from shardkit.errors import ConfigError
from shardkit.loader.device import PATCH_SIZES
from shardkit.trainer.checkpoint import load_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.layers import initialise
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.sizes import PRESETS


def build_model(config: TrainConfig, facts: Facts) -> VisionLanguage:
    """The model at its start, the same on every rank; frozen parts ask for no gradient."""
    with torch.device("meta"):
        model = VisionLanguage(
            PRESETS[config.preset],
            vocab_size=facts.vocab_size,
            image_token=facts.image_token,
            patch_sizes=PATCH_SIZES if config.task == "vlm-align" else None,
            slot_side=facts.slot_side,
            max_positions=config.max_tokens if config.positions == "learned" else None,
        )
    model = model.to_empty(device="cpu")
    initialise(model, config.seed)
    for part in config.freeze:
        getattr(model, part).requires_grad_(False)
    return model


def take_weights(model: nn.Module, run: Path) -> None:
    """Begin with the latest weights of another run: those of every part that both models have.

    Raises:
        ConfigError: where the run has no checkpoint, or its model is of another size or vocabulary.
        IntegrityError: where the checkpoint is damaged.
    """
    saved = load_checkpoint(run / "checkpoints")
    if saved is None:
        raise ConfigError(
            "the run has no checkpoint", where=str(run), hint="give --init the folder of a run that has one"
        )
    weights, own = saved["model"], model.state_dict()
    parts = {name.split(".")[0] for name in weights}
    for name, tensor in own.items():
        if name.split(".")[0] not in parts:
            continue
        if name not in weights or weights[name].shape != tensor.shape:
            there = tuple(weights[name].shape) if name in weights else "none"
            raise ConfigError(
                f"{name} has the shape {tuple(tensor.shape)}, in the run it has {there}",
                where=str(run),
                hint="give the --preset, --positions and tokenizer of that run",
            )
        own[name] = weights[name]
    model.load_state_dict(own)


def build_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """AdamW; only matrices decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95))


@contextmanager
def repeatable(config: TrainConfig) -> Iterator[None]:
    """Deterministic kernels, the run's number of threads and its own random state; what was before comes back."""
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(mix64(config.seed, "torch") >> 1)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(config.threads or 1)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0])
            torch.set_num_threads(before[1])


def weights_digest(model: nn.Module) -> str:
    """xxh3-128 over the bytes of all parameters in the order of their names."""
    digest = xxhash.xxh3_128()
    for _, parameter in sorted(model.named_parameters()):
        digest.update(parameter.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
