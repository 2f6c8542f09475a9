"""Canonical pixels -> pixels of a model's size and the number of image slots. One file a processor, one line here."""

from __future__ import annotations

from shardkit.media.processors.geometry import Geometry, Processor, image_patch_count
from shardkit.media.processors.square import Square

PROCESSORS = {"square": Square}
"""Name in a recipe -> the processor; its fields are what `--set` sets."""

__all__ = ["PROCESSORS", "Geometry", "Processor", "Square", "image_patch_count"]
