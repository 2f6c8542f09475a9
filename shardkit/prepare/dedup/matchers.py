"""The near matchers: one file each, one line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shardkit.prepare.dedup import near_text, perceptual, semantic


class NearMatcher(Protocol):
    """What the module of a near level has; its `find` compares units of its own kind and answers NearEdges."""

    @property
    def VERSION(self) -> int:  # noqa: N802 - a constant of the module
        """Part of the recipe: a change of what is near gets a new number."""

    @property
    def THRESHOLD(self) -> float:  # noqa: N802
        """The score from which two are duplicates where nothing else is asked for."""

    @property
    def THRESHOLDS(self) -> tuple[float, ...]:  # noqa: N802
        """Seven, for the table of what each would keep."""

    @property
    def FLOOR(self) -> float:  # noqa: N802
        """No pair below it is looked for."""

    def evidence(self, score: float, detail: Sequence[int]) -> str:
        """A short phrase with the measure and its value."""


NEAR: dict[str, NearMatcher] = {"perceptual": perceptual, "text": near_text, "semantic": semantic}
"""Level -> its near matcher, from the strictest to the loosest."""
