"""Why decontaminate leaves a row out, and what it says of an item that it found."""

from __future__ import annotations

REASONS = {
    "contaminated_image": "an image is that of a benchmark's item",
    "contaminated_text": "a text holds a benchmark's item",
}
"""Code -> what it says of the row."""

CONTAMINATED, COMMON, REVIEW = "contaminated", "common", "review"
"""Verdicts of the table evidence: the row holds the item; so many documents hold it that it is a quotation or a template, and
the row stays; it may be the item, and a person has to look, and the row stays."""
