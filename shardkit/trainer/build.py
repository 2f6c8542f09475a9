"""Model and optimizer at their start, and the ground that makes a run repeatable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import xxhash
from torch import nn

from shardkit.digest import mix64
from shardkit.loader.device import PATCH_SIZES
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
