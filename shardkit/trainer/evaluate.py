"""Whether the model looks: its loss with each text's own image, against the loss with images permuted across groups.

A model that ignores its images loses nothing by the permutation. The difference is taken inside each group, and its
error is that of a mean over groups, because examples of one group are no independent witnesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import torch
from torch import Tensor

from shardkit.loader import StreamingLoader, sums_by_sequence, targets_by_sequence
from shardkit.loader.device import Batch
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import repeatable
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.model import VisionLanguage

EVALUATION_TOKENS = 16_384
"""Of a batch"""


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupLoss:
    """Sums over the target tokens of a group's sequences with images."""

    right: float
    permuted: float
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RightAgainstPermuted:
    """Means over groups of the loss per target token."""

    right: float | None
    """None where no group could be compared; so are the other figures then."""
    permuted: float | None
    difference: float | None
    standard_error: float | None
    """Of the difference, over groups; None below two of them."""
    split: str
    num_groups: int
    num_left_out: int
    """Images that no image of another group and of their size could replace in their batch"""


def evaluate(model: VisionLanguage, config: TrainConfig) -> RightAgainstPermuted:
    """The figure of the dataset's val split; of what was trained on where there is no val."""
    by_group, num_left_out, split = evaluate_groups(model, config)
    return summarise([by_group], split=split, num_left_out=num_left_out)


def evaluate_groups(model: VisionLanguage, config: TrainConfig) -> tuple[dict[str, GroupLoss], int, str]:
    """(losses by group, images left out, name of the split)"""
    dataset = Dataset.open(config.data, base=config.bases, remote=config.remote)
    split = next(name for name in ("val", "train", "all") if name in dataset.splits)
    examples = dataset.table("examples")
    groups = {
        example: example if group is None else group
        for example, group in zip(examples["example_id"].to_pylist(), examples["group"].to_pylist(), strict=True)
    }
    with (
        repeatable(config),
        StreamingLoader(
            dataset,
            split=None if split == "all" else split,
            seed=config.seed,
            # Images change places inside a batch only, so it is a large one.
            max_tokens=max(EVALUATION_TOKENS, config.max_tokens or 0),
            tail="pad",
            rank=0,
            world_size=1,
            epochs=1,
            decoder=config.decoder,
            device=config.device,
        ) as loader,
    ):
        by_group, num_left_out = losses_by_group(model, loader, groups)
    return by_group, num_left_out, split


def losses_by_group(
    model: VisionLanguage, batches: Iterable[Batch], groups: Mapping[str, str]
) -> tuple[dict[str, GroupLoss], int]:
    """(losses by group, images left out because no other of their kind in their batch was of another group)

    Args:
        groups: example id -> group, for every example of the batches.
    """
    sums: dict[str, list[float]] = {}
    num_left_out = 0
    with torch.no_grad():
        for batch in batches:
            rows = model.image_rows(batch)
            if rows is None:
                continue
            owners = batch.image_sequences.tolist()
            partners = permute([groups[batch.example_ids[owner]] for owner in owners], image_kinds(batch))
            num_left_out += partners.count(None)
            taken = [partner if partner is not None else image for image, partner in enumerate(partners)]
            right = by_sequence(model, batch, rows)
            permuted = by_sequence(model, batch, rows[rows_of(batch, taken)])
            left_out = {owner for owner, partner in zip(owners, partners, strict=True) if partner is None}
            for sequence in sorted(set(owners) - left_out):
                entry = sums.setdefault(groups[batch.example_ids[sequence]], [0.0, 0.0, 0])
                entry[0] += float(right[0][sequence])
                entry[1] += float(permuted[0][sequence])
                entry[2] += int(right[1][sequence])
    by_group = {
        group: GroupLoss(right=right, permuted=permuted, tokens=int(tokens))
        for group, (right, permuted, tokens) in sorted(sums.items())
        if tokens
    }
    return by_group, num_left_out


def summarise(runs: Sequence[Mapping[str, GroupLoss]], *, split: str, num_left_out: int) -> RightAgainstPermuted:
    """The figure over groups; of several runs (seeds) each group's losses are averaged first."""
    names = sorted(set.intersection(*(set(run) for run in runs)))
    right, permuted = (
        [fmean(getattr(run[name], side) / run[name].tokens for run in runs) for name in names]
        for side in ("right", "permuted")
    )
    differences = [after - before for before, after in zip(right, permuted, strict=True)]
    return RightAgainstPermuted(
        right=fmean(right) if names else None,
        permuted=fmean(permuted) if names else None,
        difference=fmean(differences) if names else None,
        standard_error=stdev(differences) / math.sqrt(len(names)) if len(names) > 1 else None,
        split=split,
        num_groups=len(names),
        num_left_out=num_left_out,
    )


def image_kinds(batch: Batch) -> list[tuple[int, ...]]:
    """Only images of one kind can stand for one another: height, width, slots."""
    sizes = zip(batch.image_sizes.tolist(), batch.image_slots.tolist(), strict=True)
    return [(height, width, slots) for (height, width), slots in sizes]


def permute(groups: Sequence[str], kinds: Sequence[tuple[int, ...]]) -> list[int | None]:
    """For each image another one of its kind, from another group; each is taken at most once. None where there is none.

    Images sorted by group, turned by the size of the largest group:    a a b c c   ->   b c c a a
    """
    partners: list[int | None] = [None] * len(groups)
    for kind in set(kinds):
        images = sorted((i for i, k in enumerate(kinds) if k == kind), key=lambda i: (groups[i], i))
        names = [groups[image] for image in images]
        turn = max(names.count(name) for name in set(names))
        for place, image in enumerate(images):
            partner = images[(place + turn) % len(images)]
            if groups[partner] != groups[image]:
                partners[image] = partner
    return partners


def rows_of(batch: Batch, images: Sequence[int]) -> Tensor:
    """The rows of the image embeddings that put image `images[i]` in the place of image i."""
    slots = batch.image_slots.tolist()
    first = (torch.cumsum(batch.image_slots, 0) - batch.image_slots).tolist()
    return torch.cat([torch.arange(first[image], first[image] + slots[image]) for image in images])


def by_sequence(model: VisionLanguage, batch: Batch, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(summed losses, target tokens) of each sequence."""
    losses_T = model.losses(batch, rows).double()
    return sums_by_sequence(batch, losses_T[None]), targets_by_sequence(batch)
