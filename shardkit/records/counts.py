"""Rows counted and rows left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

MOST = 10**15
"""The largest limit or number that may be asked for: what is summed up over a dataset stays below 64 bits."""
_EXACT = re.compile(r"[+-]?([0-9]{1,18}|[0-9]{0,18}\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?|[0-9]{1,18}/[0-9]{1,18}")


def exact(text: str) -> Fraction:
    """The number that a user wrote, as it stands there: 0.05, 1/3, 2e-3.

    Raises:
        ValueError: where it is no number, or one of more digits than anybody means.
        ZeroDivisionError: for 1/0.
    """
    if not _EXACT.fullmatch(text.strip()):
        raise ValueError(text)
    return Fraction(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exclusion:
    """A row left out: which, and why."""

    input: str
    """Path of the input, relative to the input root, or the dataset id of a later stage's input."""
    position: str
    """Line, record, member or stem; the example id in later stages."""
    reason: str
    """A short code of `REASONS`."""
    detail: str
    """One sentence; excerpts are short and show control characters escaped."""


@dataclass(kw_only=True, slots=True)
class Tally:
    """Counts of a run that are added up as it goes: read = kept + excluded, always."""

    read: int = 0
    kept: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    """Rows by reason."""
    changes: Counter[str] = field(default_factory=Counter)
    """What was altered, by name: byte order marks, dropped image slots, removed metadata."""

    def add(self, other: Tally) -> None:
        self.read += other.read
        self.kept += other.kept
        self.excluded.update(other.excluded)
        self.changes.update(other.changes)

    @property
    def balanced(self) -> bool:
        return self.read == self.kept + sum(self.excluded.values())

    def to_json(self) -> dict[str, object]:
        return {
            "read": self.read,
            "kept": self.kept,
            "excluded": sum(self.excluded.values()),
            "excluded_by_reason": dict(sorted(self.excluded.items())),
            "changes": dict(sorted(self.changes.items())),
        }

    @classmethod
    def from_json(cls, counts: Mapping[str, Any]) -> Tally:
        """What `to_json` gave."""
        return cls(
            read=counts["read"],
            kept=counts["kept"],
            excluded=Counter(counts["excluded_by_reason"]),
            changes=Counter(counts["changes"]),
        )
