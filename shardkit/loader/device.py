"""From two flat buffers to a batch, on whichever device they are.

    ids          bos  (  p  p  )  A  cat  eos | bos  B  eos        one row, T tokens, nothing between
    positions      0  1  2  3  4  5   6    7  |   0  1   2
    seq_idx        0  0  0  0  0  0   0    0  |   1  1   1
    slot_rows     -1 -1  0  1 -1 -1  -1   -1  |  -1 -1  -1          rows of the image embeddings
    labels         .  .  .  .  .  A cat  eos  |   .  B eos          . is -100: no target
    shift_labels   .  .  .  .  A cat eos   .  |   B eos  .          the target of each position

Torch operations only, shapes from the host only: nothing here waits for the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from shardkit.loader.batch import IMAGE_WORDS, NUM_OBJECTIVES, BatchInfo, Sizes
from shardkit.loader.patches import PATCH_SIZES, Patches, cut
from shardkit.store.dataset import Dataset

__all__ = ["IGNORE", "PATCH_SIZES", "Batch", "build"]

IGNORE = -100
"""A label that is no target."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The packs of one rank for one step, laid end to end: T tokens of D documents of S sequences, with M images.

    A sequence is one document, but for preference pairs, which are two. Nothing attends across a document's border.
    """

    input_ids: Tensor
    """[1, T] int64"""
    labels: Tensor
    """[1, T] int64, aligned with input_ids as Hugging Face models expect; the first token of a document is -100."""
    shift_labels: Tensor
    """[1, T] int64, the target of each position: labels one to the left; the last token of a document is -100."""
    objective_ids: Tensor
    """[1, T] int64, the objective of the target in shift_labels; 0 where there is none."""
    position_ids: Tensor
    """[1, T] int64, from 0 in each document."""
    seq_idx: Tensor
    """[1, T] int32, which document."""
    cu_seq_lens_q: Tensor
    """[D + 1] int32, first token of each document, then T."""
    cu_seq_lens_k: Tensor
    max_length_q: int
    max_length_k: int
    slot_rows: Tensor
    """[1, T] int64: row of the images' embeddings, laid end to end, that stands at this token; -1 for none."""
    image_slots: Tensor
    """[M] int64, slots of each image."""
    image_sizes: Tensor
    """[M, 2] int64, height and width in pixels."""
    image_used_sizes: Tensor
    """[M, 2] int64, height and width of what shows the image, at its top left; the rest was filled up."""
    image_grid_thw: Tensor
    """[M, 3] int64: 1, rows and columns of patches."""
    image_starts: Tensor
    """[M] int64, token of each image's first slot."""
    image_sequences: Tensor
    """[M] int64, the sequence that shows each image."""
    image_indices: Tensor
    """[M] int64, index into that example's images."""
    windows: Tensor
    """[S] int32, which of its example's sequences each one is."""
    sequence_starts: Tensor
    """[S + 1] int32, first document of each sequence, then D."""
    pack_starts: Tensor
    """[P + 1] int32, first document of each pack, then D."""
    denominators: Tensor
    """[objectives] float64: targets of the whole global batch, over all ranks, by the objective's byte."""
    pixels: Tensor
    """The flat uint8 pixels."""
    sizes: Sizes
    info: BatchInfo | None = None
    """What the host knows; None only where `build` was called by hand."""

    def cut(self, sizes: Mapping[str, tuple[int, int]], *, dtype: torch.dtype = torch.float32) -> dict[str, Patches]:
        """Normalised patches of other sizes, or of another type, straight from the bytes.

        Args:
            sizes: kind -> height and width of its patches in pixels.
            dtype: of the values, such as torch.bfloat16.
        """
        form = self.sizes.form
        return cut(self.pixels, self.sizes.images, sizes, normalisation=form.normalisation, dtype=dtype)

    @cached_property
    def patches(self) -> dict[str, Patches]:
        """Normalised patches by OMVT kind; cut when they are first asked for."""
        return self.cut(PATCH_SIZES)

    @cached_property
    def square_patches(self) -> Patches:
        """Normalised square patches of the image processor's size, with their places in each image's grid."""
        form = self.sizes.form
        return self.cut({"square": (form.patch, form.patch)})["square"]

    @cached_property
    def tiles(self) -> Patches:
        """Normalised tiles, [P, 3 * tile * tile], with their places in each image's grid.

        Raises:
            ValueError: where the image processor cuts no tiles.
        """
        form = self.sizes.form
        if not form.tile:
            raise ValueError(
                "the image processor of this dataset cuts no tiles; the recipe obelics-xattn has one that does"
            )
        return self.cut({"tile": (form.tile, form.tile)})["tile"]

    @property
    def batch_id(self) -> str:
        return self._known.batch_id

    @property
    def position(self) -> tuple[int, int]:
        """(epoch, step)"""
        return self._known.epoch, self._known.step

    @property
    def ids(self) -> tuple[str, ...]:
        """The example id of each sequence."""
        return self._known.example_ids

    @property
    def example_ids(self) -> tuple[str, ...]:
        """The same."""
        return self._known.example_ids

    @property
    def metadata(self) -> tuple[dict[str, Any], ...]:
        """Of each sequence's example, as its source gave it; in evaluation only, see shardkit.loader.evaluate."""
        if self._known.metadata is None:
            raise ValueError("metadata is read in evaluation only: iterate an EvaluationLoader")
        return self._known.metadata

    def trace(self, dataset: Dataset | None = None) -> list[dict[str, Any]]:
        """Where each sequence comes from; see shardkit.loader.trace."""
        from shardkit.loader.trace import trace

        return trace(self._known, dataset)

    @property
    def sources(self) -> tuple[str, ...]:
        """Of each sequence."""
        return self._known.sources

    @property
    def _known(self) -> BatchInfo:
        if self.info is None:
            raise ValueError("this batch was built by hand; it has no id, position or examples")
        return self.info

    def to_device(self, device: torch.device | str = "cpu") -> Batch:
        """The same batch there; HostBatch has a method of this name too."""
        tensors = {
            field.name: getattr(self, field.name).to(device, non_blocking=True)
            for field in fields(self)
            if isinstance(getattr(self, field.name), Tensor)
        }
        return replace(self, **tensors)


def build(meta: Tensor, pixels: Tensor, sizes: Sizes | None = None) -> Batch:
    """Build the batch that the two buffers describe, where they are.

    Args:
        meta: int32 words, laid out as loader/batch.py says.
        pixels: uint8 bytes.
        sizes: of the batch, as the host knows them; read from `meta` where not given, which waits for the device.
    """
    sizes = sizes or Sizes.of(meta)
    part = {name: meta[where] for name, where in sizes.parts().items()}
    starts_D1 = part["document_starts"]
    # Sums along the tokens instead of a search or a look-up for each: on a CPU these cost more than all the rest.
    start_D = starts_D1[:-1]
    document_T = _summed(start_D, torch.ones_like(start_D), sizes.num_tokens) - 1
    start_T = _summed(start_D, torch.diff(start_D, prepend=start_D.new_zeros(1)), sizes.num_tokens)
    position_T = torch.arange(sizes.num_tokens, dtype=torch.int32, device=meta.device) - start_T

    ids_T = part["ids"].long()
    objective_T = part["objectives"].view(torch.uint8)[: sizes.num_tokens].long()
    # Nothing stands before the first token of a document, so it is never a target. That also keeps the shift below
    # from reaching into the next document.
    objective_T = torch.where(position_T == 0, 0, objective_T)
    labels_T = torch.where(objective_T > 0, ids_T, IGNORE)

    table_M10 = part["images"].view(-1, IMAGE_WORDS).long()
    height_M, width_M, slot_start_M, slots_M = table_M10[:, 2:6].unbind(1)
    patch = sizes.form.patch
    grid_M3 = torch.stack([torch.ones_like(height_M), -(-height_M // patch), -(-width_M // patch)], dim=1)
    halves_K2 = part["denominators"].view(NUM_OBJECTIVES, 2).long()
    return Batch(
        input_ids=ids_T[None],
        labels=labels_T[None],
        shift_labels=_shifted(labels_T, IGNORE)[None],
        objective_ids=_shifted(objective_T, 0)[None],
        position_ids=position_T.long()[None],
        seq_idx=document_T[None],
        cu_seq_lens_q=starts_D1,
        cu_seq_lens_k=starts_D1,
        max_length_q=sizes.longest,
        max_length_k=sizes.longest,
        slot_rows=_slot_rows(slot_start_M, slots_M, sizes.num_tokens)[None],
        image_slots=slots_M,
        image_sizes=table_M10[:, 2:4],
        image_used_sizes=table_M10[:, 8:10],
        image_grid_thw=grid_M3,
        image_starts=slot_start_M,
        image_sequences=table_M10[:, 6],
        image_indices=table_M10[:, 7],
        windows=part["windows"],
        sequence_starts=part["sequence_starts"],
        pack_starts=part["pack_starts"],
        denominators=((halves_K2[:, 0] & 0xFFFFFFFF) + (halves_K2[:, 1] << 32)).double(),
        pixels=pixels,
        sizes=sizes,
    )


def _shifted(values_T: Tensor, fill: int) -> Tensor:
    """Each value one place to the left, `fill` at the end."""
    return torch.cat([values_T[1:], values_T.new_full((min(1, len(values_T)),), fill)])


def _summed(places: Tensor, values: Tensor, length: int) -> Tensor:
    """[length] int32: at each place the sum of the values at and before it; places at the end count nowhere."""
    sums = torch.zeros(length + 1, dtype=torch.int32, device=places.device).index_add_(0, places, values)
    return sums[:length].cumsum(0, dtype=torch.int32)


def _slot_rows(start_M: Tensor, slots_M: Tensor, num_tokens: int) -> Tensor:
    """Rows are numbered in the order of the tokens, because the images come in that order."""
    ones_M = torch.ones_like(start_M, dtype=torch.int32)
    inside_T = _summed(start_M, ones_M, num_tokens) - _summed(start_M + slots_M, ones_M, num_tokens)
    return torch.where(inside_T > 0, inside_T.cumsum(0) - 1, -1)
