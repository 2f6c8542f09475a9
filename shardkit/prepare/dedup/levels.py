"""The levels of deduplication, from the strictest to the loosest, and the reasons that removed rows get."""

from __future__ import annotations

from shardkit.prepare.dedup import MATCHERS

LEVELS = ("exact", "pixel", "perceptual", "text", "semantic")
"""A level is equality of signatures (MATCHERS), nearness (NEAR), or both: `text`."""

PERCEPTUAL, TEXT, SEMANTIC = (LEVELS.index(name) for name in ("perceptual", "text", "semantic"))

NEAR_REASONS = {"perceptual": "duplicate_perceptual", "text": "duplicate_near_text", "semantic": "duplicate_semantic"}
"""Level -> code of the exclusion of a row that is near its keeper, not equal."""


ONLY_BOILERPLATE = "only_boilerplate"
"""Code of the exclusion of a document that had no line but repeated ones."""


def reason(level: str, *, near: bool) -> str:
    return NEAR_REASONS[level] if near else MATCHERS[level].REASON
