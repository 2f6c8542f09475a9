"""How a stage says how far it is, without printing."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        """`done` of `total` items (None where the total is not known); `note` is a short remark."""


def silent(done: int, total: int | None, note: str = "") -> None:
    """Says nothing."""
