"""Model sizes by preset name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TowerSize:
    width: int
    heads: int
    depth: int
    """Mixing blocks in each stream"""
    compressor_depth: int
    """Perceiver blocks that turn patches into slots"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSize:
    width: int
    layers: int
    heads: int
    kv_heads: int
    """Heads of keys and values; each serves heads / kv_heads query heads"""
    hidden: int
    """Width of the SwiGLU layer"""
    tower: TowerSize


PRESETS: dict[str, ModelSize] = {
    "smoke": ModelSize(
        width=64,
        layers=2,
        heads=4,
        kv_heads=2,
        hidden=176,
        tower=TowerSize(width=64, heads=4, depth=1, compressor_depth=2),
    ),
    "small": ModelSize(
        width=256,
        layers=6,
        heads=8,
        kv_heads=4,
        hidden=688,
        tower=TowerSize(width=256, heads=8, depth=2, compressor_depth=2),
    ),
    "h200": ModelSize(
        width=1024,
        layers=16,
        heads=16,
        kv_heads=8,
        hidden=2736,
        tower=TowerSize(width=768, heads=12, depth=4, compressor_depth=3),
    ),
}
"""smoke: seconds on two CPU cores. small: a workstation. h200: what one such accelerator is for."""
