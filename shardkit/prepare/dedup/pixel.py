"""Level `pixel`: images that decode to the same pixels, in the same order, and the same text."""

from __future__ import annotations

from shardkit.digest import canonical_json
from shardkit.prepare.dedup.facts import Facts

REASON = "duplicate_pixel"
VERSION = 1


def removable(facts: Facts) -> bool:
    return bool(facts.pixels)


def signature(facts: Facts) -> bytes | None:
    """Without an image there is nothing to match; where there is one, two absent texts are no difference."""
    if not facts.pixels:
        return None
    return canonical_json([facts.pixels, facts.text]) + facts.parts


def ties(facts: Facts) -> tuple[str, ...]:
    return facts.pixels


def evidence(facts: Facts) -> str:
    return f"pixels:{facts.pixels[0]}"
