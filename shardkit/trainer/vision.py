"""The OMVT tower: patches of four shapes -> exactly the slots of each image. Packed over images, nothing padded.

    patches --> four streams --> the keys of an image --> compressor --> slots --> model width
                vertical   : scans that run down and up the columns
                horizontal : scans that run right and left along the rows
                square     : attention inside the image
                layout     : attention inside the image

A router weighs the streams of an image. A weight that multiplied a stream would be undone by the next norm, so it
enters as a prior of the compressor's attention: log weight - log number of patches, added to the logits of a key.

N: patches, M: images, S: slots, D: width of the tower, H: heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from shardkit.errors import IntegrityError
from shardkit.loader.patches import Patches
from shardkit.loader.segments import Segments, attend
from shardkit.media.processors.omvt import KINDS
from shardkit.trainer.layers import Attend, SwiGLU
from shardkit.trainer.sizes import TowerSize

MIN_WEIGHT = 0.05
"""No stream's weight falls below this, so that each keeps learning"""
SHORTEST_WAVE, LONGEST_WAVE = 16.0, 16384.0
"""Pixels: from the step of the small patches to beyond the longest page"""


class Tower(nn.Module):
    def __init__(
        self, size: TowerSize, patch_sizes: Mapping[str, tuple[int, int]], *, slot_side: int, width_out: int
    ) -> None:
        super().__init__()
        self.slot_side = slot_side
        self.patch_sizes = {kind: patch_sizes[kind] for kind in KINDS}
        self.streams = nn.ModuleDict({kind: Stream(kind, size, patch_sizes[kind]) for kind in KINDS})
        self.router = Router()
        self.query = nn.Parameter(torch.empty(size.width))
        self.compressor = nn.ModuleList(CompressorBlock(size) for _ in range(size.compressor_depth))
        self.norm = nn.RMSNorm(size.width, eps=1e-6)
        self.projector = nn.Linear(size.width, width_out)

    def forward(
        self,
        patches: Mapping[str, Patches],
        sizes_M2: Tensor,
        slots_M: Tensor,
        *,
        weights: Tensor | None = None,
        attention: Attend = attend,
    ) -> Tensor:
        """[S, width_out], the slots of all images in order; `weights` [M, 4] takes the router's place.

        Args:
            patches: by kind; images ascending, line by line inside an image.
            sizes_M2: height and width of the images in pixels.
            slots_M: slots of each image.

        Raises:
            IntegrityError: where an image's slots are not those that its size gives.
        """
        check_slots(sizes_M2, slots_M, self.slot_side)
        grids = {kind: grid(sizes_M2, *self.patch_sizes[kind]) for kind in KINDS}
        counts = torch.stack([grids[kind].prod(1) for kind in KINDS], dim=1)
        prior = torch.log(self.router(sizes_M2) if weights is None else weights) - torch.log(counts)
        keys = torch.cat([self.streams[kind](patches[kind], grids[kind], attention) for kind in KINDS])
        key_places = torch.cat([places(patches[kind], *self.patch_sizes[kind]) for kind in KINDS])
        key_prior = torch.cat([prior[patches[kind].image, k] for k, kind in enumerate(KINDS)])
        by_image = torch.argsort(torch.cat([patches[kind].image for kind in KINDS]), stable=True)
        bias = SlotBias(
            slot_places=slot_centres(sizes_M2, slots_M, self.slot_side) / self.slot_side,
            key_places=key_places[by_image] / self.slot_side,
            key_prior=key_prior[by_image],
        )
        slots = self.query + encode_places(bias.slot_places * self.slot_side, len(self.query))
        segments = Segments.of(slots_M.tolist(), counts.sum(1).tolist(), device=slots.device)
        for block in self.compressor:
            slots = block(slots, keys[by_image], bias, segments, attention)
        return cast(Tensor, self.projector(self.norm(slots)))


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotBias:
    """What is added to the logits between slots and patches: near patches first, and the router's prior."""

    slot_places: Tensor
    """[S, 2] y and x, in sides of a slot"""
    key_places: Tensor
    """[N, 2]"""
    key_prior: Tensor
    """[N]"""

    def between(self, sharpness_H: Tensor, rows_q: Tensor, rows_k: Tensor) -> Tensor:
        """[B, H, queries, keys]"""
        apart = self.slot_places[rows_q][:, :, None] - self.key_places[rows_k][:, None]
        return self.key_prior[rows_k][:, None, None] - sharpness_H[:, None, None] * apart.square().sum(-1)[:, None]


class Router(nn.Module):
    """How much each stream counts for an image, from its geometry: tall images lean on the vertical stream."""

    def __init__(self) -> None:
        super().__init__()
        self.correction = nn.Linear(2, len(KINDS))

    def forward(self, sizes: Tensor) -> Tensor:
        """[M, 4], each row sums to 1."""
        height, width = torch.log(sizes.float()).unbind(1)
        tall, large = height - width, (height + width) / 2 - math.log(224)
        lean = torch.stack([tall, -tall, torch.zeros_like(tall), large], dim=1)
        logits = lean + self.correction(torch.stack([tall, large], dim=1))
        return cast(Tensor, MIN_WEIGHT + (1 - len(KINDS) * MIN_WEIGHT) * logits.softmax(1))


class Stream(nn.Module):
    """Patches of one shape, mixed inside their image."""

    def __init__(self, kind: str, size: TowerSize, patch_size: tuple[int, int]) -> None:
        super().__init__()
        self.kind, self.patch_size = kind, patch_size
        self.embed = nn.Linear(3 * patch_size[0] * patch_size[1], size.width)
        self.scans = kind in {"vertical", "horizontal"}
        mixer = ScanMixer if self.scans else AttentionMixer
        self.mixers = nn.ModuleList(mixer(size) for _ in range(size.depth))
        self.mlps = nn.ModuleList(Residual(SwiGLU(size.width, 2 * size.width), size.width) for _ in range(size.depth))
        self.norm = nn.RMSNorm(size.width, eps=1e-6)

    def forward(self, patches: Patches, grid_M2: Tensor, attention: Attend) -> Tensor:
        """[N, D] in the order of the patches."""
        hidden = self.embed(patches.values)  # its bias is the kind's own vector
        hidden = hidden + encode_places(places(patches, *self.patch_size), hidden.shape[1])
        layout: Lines | Segments
        if self.kind == "vertical":
            layout = Lines.of(patches.image, patches.col, patches.row, grid_M2[:, 0])
        elif self.kind == "horizontal":
            layout = Lines.of(patches.image, patches.row, patches.col, grid_M2[:, 1])
        else:
            layout = Segments.of(grid_M2.prod(1).tolist(), device=hidden.device)
        for mixer, mlp in zip(self.mixers, self.mlps, strict=True):
            hidden = mlp(mixer(hidden, layout, attention))
        return cast(Tensor, self.norm(hidden))


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """Patches laid out line by line; a scan starts anew where a line starts."""

    order: Tensor
    """[N] row of the patch that stands there"""
    before: Tensor
    """[N, 1] patches before it in its line"""
    after: Tensor
    """[N, 1] patches after it in its line"""
    longest: int

    @classmethod
    def of(cls, image: Tensor, line: Tensor, place: Tensor, lengths_M: Tensor) -> Lines:
        """Lines of each image in order; `lengths_M` is the length of every line of an image."""
        order = torch.argsort((image.long() << 40) + (line.long() << 20) + place)
        before = place[order]
        after = lengths_M[image[order]] - 1 - before
        return cls(
            order=order, before=before[:, None], after=after[:, None], longest=int(lengths_M.max()) if len(image) else 0
        )


def scan(inputs_ND: Tensor, decay_D: Tensor, before_N1: Tensor, longest: int) -> Tensor:
    """[N, D]: h[t] = decay * h[t-1] + inputs[t] inside each line, in log2(longest) steps over all lines at once.

    After the step of `shift`, an element holds the decayed sum of the 2 * shift elements that end at it.
    """
    shift, total = 1, inputs_ND
    while shift < longest:
        earlier = pad(total, (0, 0, shift, 0))[: len(total)]
        total = total + torch.where(before_N1 >= shift, decay_D * earlier, 0.0)
        decay_D, shift = decay_D * decay_D, 2 * shift
    return total


class ScanMixer(nn.Module):
    """A decayed scan in both directions along the lines, gated."""

    def __init__(self, size: TowerSize) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(size.width, eps=1e-6)
        self.inward = nn.Linear(size.width, 3 * size.width)
        self.decay = nn.Parameter(torch.empty(2, size.width).flatten())
        self.outward = nn.Linear(size.width, size.width)

    def forward(self, hidden: Tensor, lines: Lines, _attention: Attend) -> Tensor:
        forth, back, gate = self.inward(self.norm(hidden))[lines.order].chunk(3, dim=-1)
        decay_forth, decay_back = torch.sigmoid(self.decay).chunk(2)
        forth = scan(forth, decay_forth, lines.before, lines.longest)
        back = scan(back.flip(0), decay_back, lines.after.flip(0), lines.longest).flip(0)
        mixed = self.outward((forth + back) * silu(gate))
        return hidden + torch.zeros_like(mixed).index_copy(0, lines.order, mixed)


class AttentionMixer(nn.Module):
    """Attention inside each image."""

    def __init__(self, size: TowerSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm = nn.RMSNorm(size.width, eps=1e-6)
        self.inward = nn.Linear(size.width, 3 * size.width, bias=False)
        self.outward = nn.Linear(size.width, size.width, bias=False)

    def forward(self, hidden: Tensor, segments: Segments, attention: Attend) -> Tensor:
        query, key, value = self.inward(self.norm(hidden)).unflatten(1, (3, self.heads, -1)).unbind(1)
        return hidden + cast(Tensor, self.outward(attention(query, key, value, segments).flatten(1)))


class CompressorBlock(nn.Module):
    """Slots ask the patches of their image."""

    def __init__(self, size: TowerSize) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm = nn.RMSNorm(size.width, eps=1e-6)
        self.query = nn.Linear(size.width, size.width, bias=False)
        self.key_value = nn.Linear(size.width, 2 * size.width, bias=False)
        self.outward = nn.Linear(size.width, size.width, bias=False)
        self.mlp = Residual(SwiGLU(size.width, 2 * size.width), size.width)
        self.log_sharpness = nn.Parameter(torch.empty(size.heads))

    def forward(self, slots: Tensor, keys: Tensor, bias: SlotBias, segments: Segments, attention: Attend) -> Tensor:
        query = self.query(self.norm(slots)).unflatten(1, (self.heads, -1))
        key, value = self.key_value(keys).unflatten(1, (2, self.heads, -1)).unbind(1)
        sharpness = torch.exp(self.log_sharpness) * spread(self.heads, query.device)
        answer = attention(query, key, value, segments, bias=partial(bias.between, sharpness))
        return cast(Tensor, self.mlp(slots + self.outward(answer.flatten(1))))


class Residual(nn.Module):
    def __init__(self, layer: nn.Module, width: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.layer = layer

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + cast(Tensor, self.layer(self.norm(hidden)))


def spread(heads: int, device: torch.device) -> Tensor:
    """[H] from 8 to 1: the first heads look at a slot's own square, the last ones at its surroundings too."""
    return 8 ** (1 - torch.arange(heads, device=device) / max(heads - 1, 1))


def places(patches: Patches, height: int, width: int) -> Tensor:
    """[N, 2]: y and x of the patches' centres in pixels."""
    return torch.stack([(patches.row + 0.5) * height, (patches.col + 0.5) * width], dim=1)


def grid(sizes_M2: Tensor, height: int, width: int) -> Tensor:
    """[M, 2]: rows and columns of patches of height x width; the last ones may hang over the edge."""
    return (sizes_M2 + sizes_M2.new_tensor([height - 1, width - 1])) // sizes_M2.new_tensor([height, width])


def check_slots(sizes_M2: Tensor, slots_M: Tensor, side: int) -> None:
    expected = grid(sizes_M2, side, side).prod(1)
    for image, (wanted, found) in enumerate(zip(expected.tolist(), slots_M.tolist(), strict=True)):
        if wanted != found:
            raise IntegrityError(
                f"image {image} of the batch has {found} slots, the tower makes {wanted} of its {sizes_M2[image].tolist()}",
                hint="tokenize the dataset again with the image processor that this model was made for",
            )


def slot_centres(sizes_M2: Tensor, slots_M: Tensor, side: int) -> Tensor:
    """[S, 2]: y and x in pixels; slot j of an image stands for its j-th square of this side, line by line."""
    total = int(slots_M.sum())
    owner = torch.repeat_interleave(slots_M, output_size=total)
    first = torch.cumsum(slots_M, 0) - slots_M
    number = torch.arange(total, device=owner.device) - first[owner]
    columns = grid(sizes_M2, side, side)[owner, 1]
    return torch.stack([number // columns + 0.5, number % columns + 0.5], dim=1) * side


def encode_places(places_N2: Tensor, width: int) -> Tensor:
    """[N, width]: sines and cosines of both coordinates, one code for patches of all shapes and for slots."""
    steps = torch.arange(width // 4, device=places_N2.device, dtype=torch.float32) / max(width // 4 - 1, 1)
    waves = SHORTEST_WAVE * (LONGEST_WAVE / SHORTEST_WAVE) ** steps
    angles = places_N2.float()[:, :, None] * (2 * math.pi / waves)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(1)
