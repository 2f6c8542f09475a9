"""What tables/lengths.parquet says of a sequence, and the totals of many."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from shardkit.sequence.objectives import OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardkit.sequence.recipes import Recipe


def length_row(sequence: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The row of `sequence`, itself a row of a shard of sequences. Its shard, row and split are not known yet."""
    row = {
        "num_tokens": sequence["num_tokens"],
        "num_supervised": sequence["num_supervised"],
        "num_images": len(sequence["slots"]),
        "num_patches": pixels(sequence) // recipe.patch_pixels,
        "source": sequence["source"],
        "key": int(sequence["sequence_id"][:16], 16),
    }
    for name in recipe.TARGETS:
        row[f"supervised_{name}"] = sequence["objectives"].count(OBJECTIVES[name])
    return row


def count(totals: Counter[str], sequence: Mapping[str, Any], length: Mapping[str, Any], recipe: Recipe) -> None:
    """Add a sequence to `totals`, the counts of a shard or a source."""
    totals["sequences"] += 1
    totals["tokens"] += length["num_tokens"]
    totals["supervised"] += length["num_supervised"]
    totals["images"] += length["num_images"]
    totals["patches"] += length["num_patches"]
    totals["pixels"] += pixels(sequence)
    for name in recipe.TARGETS:
        totals[f"supervised_{name}"] += length[f"supervised_{name}"]


def pixels(sequence: Mapping[str, Any]) -> int:
    """Pixels after processing, over all images of a row of a shard of sequences."""
    return sum(slot["height"] * slot["width"] for slot in sequence["slots"])
