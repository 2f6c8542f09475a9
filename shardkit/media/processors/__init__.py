"""Canonical pixels -> pixels of a model's size and the number of image slots. One file a processor, one line here."""

from __future__ import annotations

from typing import Any

from shardkit.media.processors.fitted import NORMALISATIONS, RESAMPLINGS
from shardkit.media.processors.geometry import Geometry, Processor, image_patch_count
from shardkit.media.processors.letterbox import Letterbox
from shardkit.media.processors.naflex import Naflex
from shardkit.media.processors.patch_budget import PatchBudget
from shardkit.media.processors.pixel_budget import PixelBudget
from shardkit.media.processors.square import Square
from shardkit.media.processors.tiles import Tiles

PROCESSORS: dict[str, type[Any]] = {
    "square": Square,
    "letterbox": Letterbox,
    "pixel-budget": PixelBudget,
    "patch-budget": PatchBudget,
    "naflex": Naflex,
    "tiles": Tiles,
}
"""Name in a recipe -> the processor; its fields are what `--set` sets."""

__all__ = [
    "NORMALISATIONS",
    "PROCESSORS",
    "RESAMPLINGS",
    "Geometry",
    "Letterbox",
    "Naflex",
    "PatchBudget",
    "PixelBudget",
    "Processor",
    "Square",
    "Tiles",
    "image_patch_count",
]
