"""What tables/lengths.parquet says of a sequence, and the totals of many."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from shardkit.sequence.objectives import OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardkit.sequence.recipes import Recipe

Row = dict[str, Any]


def length_row(sequence: Mapping[str, Any], recipe: Recipe, *, shard: int, row: int, split: str) -> Row:
    """The row of `sequence`, itself a row of a shard of sequences.

    Args:
        shard: place of its shard in the manifest's list.
        row: its row in that shard.
    """
    return {
        "shard": shard,
        "row": row,
        "num_tokens": sequence["num_tokens"],
        "num_supervised": sequence["num_supervised"],
        **{f"supervised_{name}": sequence["objectives"].count(OBJECTIVES[name]) for name in recipe.TARGETS},
        "num_images": len(sequence["slots"]),
        "num_patches": _pixels(sequence) // recipe.patch_pixels,
        "source": sequence["source"],
        "split": split,
        "key": int(sequence["sequence_id"][:16], 16),
    }


def totals(sequences: Iterable[Mapping[str, Any]], recipe: Recipe) -> dict[str, int]:
    """What rows of a shard of sequences hold together; what is 0 is not listed."""
    sums: Counter[str] = Counter()
    examples = set()
    for sequence in sequences:
        row = length_row(sequence, recipe, shard=0, row=0, split="")
        examples.add((sequence["shard"], sequence["row"]))
        sums.update(
            sequences=1,
            tokens=row["num_tokens"],
            supervised=row["num_supervised"],
            images=row["num_images"],
            pixels=_pixels(sequence),
            patches=row["num_patches"],
            **{name: count for name, count in row.items() if name.startswith("supervised_")},
        )
    sums["examples"] = len(examples)
    return {name: count for name, count in sorted(sums.items()) if count}


def _pixels(sequence: Mapping[str, Any]) -> int:
    return sum(slot["height"] * slot["width"] for slot in sequence["slots"])
