"""What a target token counts for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

OBJECTIVES: dict[str, int] = {"none": 0, "text": 1, "caption": 2, "ocr": 3, "answer": 4, "chosen": 5, "rejected": 6}
"""Objective -> the byte that stands for it in a sequence. 0 = never a target. The numbers are part of the format."""


def spread(runs: Iterable[Mapping[str, int]]) -> bytes:
    """A byte a token, of the runs {objective, length} in which they are stored."""
    return b"".join(bytes([run["objective"]]) * run["length"] for run in runs)
