"""What is drawn for an example: a function of seed, pass, example and purpose, never of what was drawn before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardkit.digest import mix64

if TYPE_CHECKING:
    from collections.abc import Sequence


def happens(ratio: float, seed: int, epoch: int, example_id: str, purpose: str) -> bool:
    """True for a share of `ratio` of the examples of a pass."""
    return ratio > 0 and mix64(seed, epoch, example_id, purpose) < ratio * 2.0**64


def choice(options: Sequence[str], seed: int, epoch: int, example_id: str, purpose: str) -> str:
    """One of `options`, each as likely as the others."""
    return options[mix64(seed, epoch, example_id, purpose) % len(options)]
