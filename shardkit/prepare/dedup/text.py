"""Level `text`: texts of equal compared form (shardkit.text.normalize). It removes examples without an image only."""

from __future__ import annotations

from shardkit.digest import xxh3
from shardkit.prepare.dedup.facts import Facts

REASON = "duplicate_text"
VERSION = 1


def removable(facts: Facts) -> bool:
    """An image of its own makes an example worth keeping, whatever its caption."""
    return not facts.assets


def signature(facts: Facts) -> bytes | None:
    return facts.text.encode() + b"\0" + facts.parts if facts.text else None


def ties(facts: Facts) -> tuple[str, ...]:
    return (facts.text,) if facts.text else ()


def evidence(facts: Facts) -> str:
    return f"text:{xxh3(facts.text.encode())}"
