"""Where datasets rest: atomic commit, Arrow and tar shards, manifests and tables.

Output -> unit() -> add(), exclude(), finish() -> commit(Sealed)     what a stage writes through
Dataset.open -> table(), reader(), examples()                       what reads it, with checks
"""

from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.receipts import Receipt
from shardkit.store.shard import ShardReader, ShardRef
from shardkit.store.units import UnitWriter

__all__ = ["Dataset", "Output", "Receipt", "Sealed", "ShardReader", "ShardRef", "UnitWriter", "Verify"]
