"""Preference pairs unpacked, as trainers take them that know no packs: six arrays of equal width.

document       bos q  a  b  eos          objectives   0  0  5  5  5
x              bos q  a  b               what the model reads
y              q   a  b  eos             what it is to say
mask           0   1  1  1               where y counts
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from shardkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence as List

    import numpy.typing as npt

    from shardkit.sequence.sequence import Sequence

SIDES = ("chosen", "rejected")
PARTS = ("x", "y", "mask")


def six_arrays(
    pairs: List[Sequence], *, max_tokens: int | None = None, pad: int = 0
) -> dict[str, npt.NDArray[np.int64]]:
    """x_chosen, y_chosen, mask_chosen, x_rejected, y_rejected, mask_rejected, each [number of pairs, max_tokens - 1].

    A trainer that stacks chosen and rejected along the batch may do so: all six have one shape.

    Args:
        pairs: sequences of the recipe dpo: two documents each.
        max_tokens: tokens of the longest document; None takes the longest that there is.
        pad: id behind the end of a document in x and y; the mask is 0 there.

    Raises:
        ConfigError: where a sequence is no pair or shows images, or a document is longer.
    """
    for pair in pairs:
        if len(pair.documents) != len(SIDES):
            raise ConfigError(
                f"the sequence has {len(pair.documents)} documents, a preference pair has two",
                hint="tokenize the dataset with --recipe dpo",
            )
    if any(pair.slots for pair in pairs):
        raise ConfigError(
            "a pair shows images, which the six arrays do not hold", hint="take batches of StreamingLoader instead"
        )
    longest = max((size for pair in pairs for size in _sizes(pair)), default=1)
    width = (longest if max_tokens is None else max_tokens) - 1
    if longest - 1 > width:
        raise ConfigError(f"a document has {longest} tokens, max_tokens is {max_tokens}", hint="raise max_tokens")
    arrays = {f"{part}_{side}": np.zeros((len(pairs), width), np.int64) for side in SIDES for part in PARTS}
    for name, array in arrays.items():
        if not name.startswith("mask"):
            array[:] = pad
    for row, pair in enumerate(pairs):
        objectives = np.frombuffer(pair.objectives, np.uint8)
        for side, start, size in zip(SIDES, pair.documents, _sizes(pair), strict=True):
            end = start + size
            arrays[f"x_{side}"][row, : size - 1] = pair.input_ids[start : end - 1]
            arrays[f"y_{side}"][row, : size - 1] = pair.input_ids[start + 1 : end]
            arrays[f"mask_{side}"][row, : size - 1] = objectives[start + 1 : end] > 0
    return arrays


def _sizes(pair: Sequence) -> list[int]:
    """Tokens of each document."""
    bounds = [*pair.documents, pair.num_tokens]
    return [end - start for start, end in pairwise(bounds)]
