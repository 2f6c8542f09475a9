"""Duplicates found and removed. Equality and nearness are matchers, one file each; one place decides.

inputs.py      datasets, sorted by id; their selected rows under one numbering
signatures.py  first reading: a 64-bit key a row and level, from text columns and image ids; no image is opened
near.py        near matchers on distinct units: texts, lists of images (pictures.py), vectors
candidates.py  second reading: rows whose key repeats or that are near to one; equality confirmed, virtues of a keeper
clusters.py    who keeps whom: equal rows first, then stars of near ones
tuples.py      what follows for two rows from near texts and near images
fill.py        pairs of crowds that the searches left out, measured where they decide
changes.py     rows that stay and change: lines.py takes lines out, captions.py moves captions; rewrite.py writes them
view.py        the output: rows of the inputs' shards and changed ones, tables, exclusions
"""

from __future__ import annotations

from shardkit.prepare.dedup import exact, pixel, text
from shardkit.prepare.dedup.matcher import Matcher

MATCHERS: dict[str, Matcher] = {"exact": exact, "pixel": pixel, "text": text}
"""Level -> what makes two examples equal there, from the strictest to the loosest."""

__all__ = ["MATCHERS", "Matcher"]
