"""Duplicates found and removed: what counts as one is a matcher, one file each.

inputs.py      datasets, sorted by id; their selected rows under one numbering
signatures.py  a 64-bit key a row and level, from text columns and image ids; no image is opened
candidates.py  rows whose key repeats, read again: equality confirmed, facts that choose the keeper
clusters.py    who keeps whom
view.py        the output: rows of the inputs' shards, tables, exclusions
"""

from __future__ import annotations

from shardkit.prepare.dedup import exact, pixel, text
from shardkit.prepare.dedup.matcher import Matcher

MATCHERS: dict[str, Matcher] = {"exact": exact, "pixel": pixel, "text": text}
"""Level -> its matcher, from the strictest to the loosest."""

__all__ = ["MATCHERS", "Matcher"]
