"""Why dedup leaves a row out: the closed table of its reason codes."""

from __future__ import annotations

from shardkit.prepare.dedup import MATCHERS

_WORDS = {
    "exact": "the images are byte-identical and the text is equal to those of the kept example",
    "pixel": "the images have the same pixels and the text is equal to those of the kept example",
    "text": "the text is equal to that of the kept example, and there is no image",
}

REASONS: dict[str, str] = {matcher.REASON: _WORDS[level] for level, matcher in MATCHERS.items()}
"""Code -> what it says of the row."""
