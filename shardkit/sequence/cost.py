"""What a sequence costs to train on, as one whole number: the same for plans, mixtures, shares and stored sequences."""

from __future__ import annotations

from typing import Any

COST_TOKENS = 12_288
"""Sequence length at which the attention of a decoder of width 1,024 costs as much as its matrices: 12 x width."""


def cost(tokens: Any, patches: Any) -> Any:
    """An integer proportional to the FLOPs of a sequence; of numbers, or of arrays of int64.

    Counts a token as a patch, and attention as a decoder of width 1,024 does: tokens x (12,288 + tokens) + 12,288 x
    patches. Good for balancing ranks and comparing sources; no statement about a particular model.
    """
    return tokens * (COST_TOKENS + tokens) + COST_TOKENS * patches
