"""Texts of strangers in messages and reports: short, and with nothing in them that a terminal would act on."""

from __future__ import annotations


def excerpt(text: str, limit: int = 80) -> str:
    """The beginning of a text, at most `limit` characters of it; control characters are escaped."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in cut)
