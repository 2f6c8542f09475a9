"""What a level of deduplication is: the promise that every module of MATCHERS keeps."""

from __future__ import annotations

from typing import Protocol

from shardkit.prepare.dedup.facts import Facts


class Matcher(Protocol):
    REASON: str
    """Code of the exclusion that a removed row gets."""
    VERSION: int
    """Part of the recipe: a change of what counts as equal gets a new number."""

    def removable(self, facts: Facts) -> bool:
        """Whether an example of this kind may be removed at this level."""

    def signature(self, facts: Facts) -> bytes | None:
        """What two duplicates have equal; None matches nothing, not even another None."""

    def ties(self, facts: Facts) -> tuple[str, ...]:
        """What two examples may not share on two sides of a split, even where both stay."""

    def evidence(self, facts: Facts) -> str:
        """A short value that says what was found equal."""
