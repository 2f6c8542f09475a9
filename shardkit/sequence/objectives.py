"""What a target token counts for."""

from __future__ import annotations

OBJECTIVES: dict[str, int] = {"none": 0, "text": 1, "caption": 2, "ocr": 3, "answer": 4, "chosen": 5, "rejected": 6}
"""Objective -> the byte that stands for it in a sequence. 0 = never a target. The numbers are part of the format."""
