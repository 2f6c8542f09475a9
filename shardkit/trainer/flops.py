"""Floating-point operations of a training step, by the sizes of the model: what utilization is computed from.

A matrix of n weights takes 2 n operations a row forward, attention 4 x width x (queries x keys); backward takes twice as
much as forward. Embeddings, norms, and what checkpointing computes anew count nothing, and what is frozen counts as if
it were trained. Chowdhery et al. 2022, arXiv 2204.02311, appendix B.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shardkit.loader.device import Batch
from shardkit.trainer.model import Decoder, VisionLanguage
from shardkit.trainer.vision import CompressorBlock, Stream, Tower, grid

BACKWARD = 2
"""Times forward"""


def step_flops(model: VisionLanguage, batch: Batch) -> int:
    """Of one forward and backward pass over a batch."""
    forward = _decoder(model.lm, torch.diff(batch.cu_seq_lens_q).long())
    if model.vision is not None and len(batch.image_slots):
        forward += _tower(model.vision, batch.image_sizes, batch.image_slots.long())
    return (1 + BACKWARD) * forward


def _decoder(lm: Decoder, lengths_D: Tensor) -> int:
    vocabulary, width = lm.embed_tokens.weight.shape
    tokens, pairs = int(lengths_D.sum()), int(lengths_D.square().sum())
    return tokens * (_a_row(lm.blocks) + 2 * vocabulary * width) + len(lm.blocks) * 4 * width * pairs


def _tower(tower: Tower, sizes_M2: Tensor, slots_M: Tensor) -> int:
    width, slots = len(tower.query), int(slots_M.sum())
    total = len(slots_M) * _a_row(tower.router) + slots * _a_row(tower.projector)
    patches_M = torch.zeros_like(slots_M)
    for kind, stream in tower.streams.items():
        assert isinstance(stream, Stream)
        of_kind_M = grid(sizes_M2, *tower.patch_sizes[kind]).prod(1)
        patches_M += of_kind_M
        total += int(of_kind_M.sum()) * _a_row(stream)
        if not stream.scans:
            total += len(stream.mixers) * 4 * width * int(of_kind_M.square().sum())
    for block in tower.compressor:
        assert isinstance(block, CompressorBlock)
        of_keys = _a_row(block.key_value)
        total += int(patches_M.sum()) * of_keys + slots * (_a_row(block) - of_keys)
        total += 4 * width * int((slots_M * patches_M).sum())
    return total


def _a_row(module: nn.Module) -> int:
    return 2 * sum(parameter.numel() for parameter in module.parameters() if parameter.dim() == 2)
