"""The bundled decoder: RMSNorm, rotary or learned positions, grouped-query attention, SwiGLU, tied head.

T: tokens of all documents of a pack, end to end; H: heads; D: width of a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from shardkit.errors import IntegrityError
from shardkit.loader.segments import Segments, attend
from shardkit.trainer.config import THETA
from shardkit.trainer.layers import Attend, SwiGLU
from shardkit.trainer.sizes import ModelSize
from shardkit.trainer.vision import Tower

if TYPE_CHECKING:
    from shardkit.loader.device import Batch

LOSS_CHUNK = 1024
"""Tokens whose logits exist at one time"""


class Block(nn.Module):
    def __init__(self, size: ModelSize) -> None:
        super().__init__()
        head = size.width // size.heads
        self.widths = (size.heads * head, size.kv_heads * head, size.kv_heads * head)
        self.head, self.repeats = head, size.heads // size.kv_heads
        self.attention_norm = nn.RMSNorm(size.width, eps=1e-6)
        self.inward = nn.Linear(size.width, sum(self.widths), bias=False)
        self.outward = nn.Linear(size.width, size.width, bias=False)
        self.mlp_norm = nn.RMSNorm(size.width, eps=1e-6)
        self.mlp = SwiGLU(size.width, size.hidden)

    def forward(self, hidden: Tensor, rotary: Tensor | None, segments: Segments, attention: Attend) -> Tensor:
        rows = self.inward(self.attention_norm(hidden)).split(self.widths, dim=-1)
        query, key, value = (part.unflatten(1, (-1, self.head)) for part in rows)
        if rotary is not None:
            query, key = rotate(query, rotary), rotate(key, rotary)
        key, value = (part.repeat_interleave(self.repeats, dim=1) for part in (key, value))
        hidden = hidden + self.outward(attention(query, key, value, segments, causal=True).flatten(1))
        return hidden + cast(Tensor, self.mlp(self.mlp_norm(hidden)))


class Decoder(nn.Module):
    def __init__(self, size: ModelSize, vocab_size: int, max_positions: int | None, theta: float) -> None:
        super().__init__()
        self.theta = theta
        self.head = size.width // size.heads
        self.embed_tokens = nn.Embedding(vocab_size, size.width)
        self.embed_positions = nn.Embedding(max_positions, size.width) if max_positions else None
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.width, eps=1e-6)

    def forward(self, inputs: Tensor, positions_T: Tensor, segments: Segments, attention: Attend = attend) -> Tensor:
        """[T, width]: what the tied head reads."""
        rotary = None
        if self.embed_positions is None:
            rotary = rotary_angles(positions_T, self.head, self.theta)
        else:
            inputs = inputs + self.embed_positions(positions_T)
        for block in self.blocks:
            inputs = block(inputs, rotary, segments, attention)
        return cast(Tensor, self.norm(inputs))


def rotary_angles(positions_T: Tensor, head: int, theta: float) -> Tensor:
    """[T, head / 2]: pair i turns by theta ** (-2 i / head) a position."""
    powers = torch.arange(0, head, 2, device=positions_T.device, dtype=torch.float32) / head
    return positions_T[:, None].float() * theta**-powers


def rotate(rows_THD: Tensor, angles: Tensor) -> Tensor:
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = rows_THD.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(rows_THD.dtype)


def token_losses(hidden_TD: Tensor, head_VD: Tensor, targets_T: Tensor, chunk: int = LOSS_CHUNK) -> Tensor:
    """[T] float32 cross-entropy, 0 where the target is -100; logits live for one chunk and are built anew backwards."""

    def one(hidden: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy((hidden @ head_VD.T).float(), targets, ignore_index=-100, reduction="none")

    parts = zip(torch.split(hidden_TD, chunk), torch.split(targets_T, chunk), strict=True)
    return torch.cat([cast(Tensor, checkpoint(one, hidden, targets, use_reentrant=False)) for hidden, targets in parts])


class VisionLanguage(nn.Module):
    """The decoder, with a tower whose slots take the place of the image tokens' embeddings."""

    def __init__(
        self,
        size: ModelSize,
        *,
        vocab_size: int,
        image_token: int | None,
        patch_sizes: Mapping[str, tuple[int, int]] | None,
        slot_side: int = 28,
        max_positions: int | None = None,
        theta: float = THETA,
        precision: str = "fp32",
    ) -> None:
        super().__init__()
        self.image_token = image_token
        self.precision = precision
        """A name of PRECISIONS; parameters are float32 in each of them."""
        self.attend: Attend = attend
        """How rows attend to one another; another form of the same may take its place, to compare or to time it."""
        self.lm = Decoder(size, vocab_size, max_positions, theta)
        self.vision = Tower(size.tower, patch_sizes, slot_side=slot_side, width_out=size.width) if patch_sizes else None

    @property
    def device(self) -> torch.device:
        return self.lm.embed_tokens.weight.device

    def _computing(self) -> torch.autocast:
        """Around whatever computes forward; backward follows it by itself."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def image_rows(self, batch: Batch, *, weights: Tensor | None = None) -> Tensor | None:
        """[S, width]: the slots of the batch's images, or None where it has none."""
        if self.vision is None or not len(batch.image_slots):
            return None
        with self._computing():
            rows = self.vision(
                batch.patches, batch.image_sizes, batch.image_slots, weights=weights, attention=self.attend
            )
        return cast(Tensor, rows)

    def hidden(self, batch: Batch, image_rows: Tensor | None) -> Tensor:
        """[T, width] for the batch's tokens, reading `image_rows` at its slots.

        Raises:
            IntegrityError: where image tokens and slots do not match one to one.
        """
        slot_rows, input_ids = batch.slot_rows[0], batch.input_ids[0]
        self._check_slots(input_ids, slot_rows, 0 if image_rows is None else len(image_rows))
        inputs = self.lm.embed_tokens(input_ids)
        if image_rows is not None:
            inputs = torch.where((slot_rows >= 0)[:, None], image_rows[slot_rows.clamp(min=0)], inputs)
        bounds = batch.cu_seq_lens_q.tolist()
        segments = Segments.of([end - start for start, end in pairwise(bounds)], device=inputs.device)
        with self._computing():
            return cast(Tensor, self.lm(inputs, batch.position_ids[0], segments, self.attend))

    def logits(self, batch: Batch) -> Tensor:
        """[T, vocabulary]"""
        hidden = self.hidden(batch, self.image_rows(batch))
        with self._computing():
            return hidden @ self.lm.embed_tokens.weight.T

    def losses(self, batch: Batch, image_rows: Tensor | None = None) -> Tensor:
        """[T] float32 cross-entropy of every token's successor, 0 where that is no target.

        Args:
            image_rows: what its slots show instead of the batch's own images.
        """
        hidden = self.hidden(batch, self.image_rows(batch) if image_rows is None else image_rows)
        with self._computing():
            return token_losses(hidden, self.lm.embed_tokens.weight, batch.shift_labels[0])

    def _check_slots(self, input_ids: Tensor, slot_rows: Tensor, num_rows: int) -> None:
        places = slot_rows >= 0
        if self.image_token is not None and not torch.equal(input_ids == self.image_token, places):
            raise IntegrityError(
                f"{int((input_ids == self.image_token).sum())} image tokens and {int(places.sum())} image slots "
                "do not stand at the same places",
                hint="run `shardkit verify --deep` on the dataset",
            )
        if not torch.equal(slot_rows[places], torch.arange(num_rows, device=slot_rows.device)):
            raise IntegrityError(
                f"{int(places.sum())} image slots in the tokens, {num_rows} rows of image embeddings",
                hint="run `shardkit verify --deep` on the dataset, or train with --task vlm-align",
            )
