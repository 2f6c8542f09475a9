"""What a target token counts for."""

from __future__ import annotations

from itertools import groupby

OBJECTIVES: dict[str, int] = {"none": 0, "text": 1, "caption": 2, "ocr": 3, "answer": 4, "chosen": 5, "rejected": 6}
"""Objective -> the byte that stands for it in a sequence. 0 = never a target. The numbers are part of the format."""


def runs_of(objectives: bytes) -> list[tuple[int, int]]:
    """(objective, number of tokens) of each run of equal bytes: the form in which they are stored."""
    return [(byte, len(list(equal))) for byte, equal in groupby(objectives)]
