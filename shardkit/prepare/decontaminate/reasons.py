"""Why decontaminate leaves a row out, and what it says of an item that it found."""

from __future__ import annotations

REASONS = {
    "contaminated_image": "an image is that of a benchmark's item",
    "contaminated_text": "a text holds a benchmark's item",
}
"""Code -> what it says of the row."""

CONTAMINATED, COMMON, REVIEW = "contaminated", "common", "review"
VERDICTS = {
    CONTAMINATED: "the row holds the item",
    COMMON: "so many documents hold it that it is a quotation or a template; the row stays",
    REVIEW: "it may be the item, and a person has to look; the row stays",
}
"""Verdict of an evidence row -> what it says."""
