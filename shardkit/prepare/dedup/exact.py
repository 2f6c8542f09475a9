"""Level `exact`: the same image bytes in the same order, and the same text."""

from __future__ import annotations

from shardkit.digest import canonical_json
from shardkit.prepare.dedup.facts import Facts

REASON = "duplicate_exact"
VERSION = 1


def removable(facts: Facts) -> bool:
    return bool(facts.assets)


def signature(facts: Facts) -> bytes | None:
    """Without an image there is nothing to match; where there is one, two absent texts are no difference."""
    if not facts.assets:
        return None
    return canonical_json([facts.assets, facts.frames, facts.text]) + facts.parts


def ties(facts: Facts) -> tuple[str, ...]:
    """Each original file: two pages of one file are of one file."""
    return facts.assets


def evidence(facts: Facts) -> str:
    return f"sha256:{facts.assets[0]}"
