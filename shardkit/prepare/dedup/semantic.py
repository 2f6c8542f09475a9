"""Placeholder of the lead so that imports hold; person E replaces the whole file."""

from __future__ import annotations

from collections.abc import Sequence

VERSION, THRESHOLD, FLOOR = 1, 0.95, 0.8
THRESHOLDS = (0.8, 0.85, 0.9, 0.92, 0.95, 0.97, 0.99)


def evidence(score: float, detail: Sequence[int]) -> str:
    return f"cosine:{score:.4f}"
