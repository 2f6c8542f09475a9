"""Run a stage's independent work units. Local processes today; another engine offers the same `map_ordered`."""

from shardkit.engine.local import map_ordered
from shardkit.engine.progress import Progress, silent

__all__ = ["Progress", "map_ordered", "silent"]
