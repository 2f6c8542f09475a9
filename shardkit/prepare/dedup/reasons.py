"""Why dedup leaves a row out: the closed table of its reason codes."""

from __future__ import annotations

from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.levels import NEAR_REASONS, ONLY_BOILERPLATE

_WORDS = {
    "exact": "the images are byte-identical and the text is equal to those of the kept example",
    "pixel": "the images have the same pixels and the text is equal to those of the kept example",
    "text": "the text is equal to that of the kept example, and there is no image",
}

_NEAR_WORDS = {
    "perceptual": "the images look like those of the kept example, and the text agrees or there is none",
    "text": "the text is nearly that of the kept example, and there is no image or the images are the same",
    "semantic": "the vector is next to that of the kept example",
}

REASONS: dict[str, str] = {
    **{matcher.REASON: _WORDS[level] for level, matcher in MATCHERS.items()},
    **{code: _NEAR_WORDS[level] for level, code in NEAR_REASONS.items()},
    ONLY_BOILERPLATE: "every line of the text is one that its site repeats, and there is no image",
}
"""Code -> what it says of the row."""
