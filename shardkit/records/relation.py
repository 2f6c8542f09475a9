"""How images and texts of one example belong together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation:
    kind: str
    """caption | ocr | interleaved | dialogue | preference"""
    images: tuple[int, ...] = ()
    """Indices into the example's images."""
    segments: tuple[int, ...] = ()
    """Indices into the example's segments."""
    scope: str = "example"
    """What the relation covers: example | image | region."""
    annotator: str | None = None
    """Person, tool or model@revision that made it, where the dump says."""
    confidence: float | None = None
    """A score that the dump gives, for instance an image-text similarity."""
