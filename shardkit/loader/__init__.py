"""The online wing: a plan read, packed on the device, and resumed exactly.

Lengths -> Plan            which sequences in which packs, for every step and rank     sequence/plan
Plan -> Reader             ids, objectives and pixels of those sequences               reader.py assemble.py
Reader -> HostBatch        two flat buffers: int32 words, uint8 pixels                 batch.py
HostBatch -> Batch         on the device, by one function                              device.py patches.py
Batch -> state             a place in the plan                                         state.py stream.py
"""

from shardkit.loader.batch import HostBatch
from shardkit.loader.device import Batch
from shardkit.loader.evaluate import EvaluationLoader, sums_by_sequence, targets_by_sequence
from shardkit.loader.metrics import Meter, Metrics
from shardkit.loader.raw import RawExampleLoader, RawSequenceLoader
from shardkit.loader.rows import RawExample, RawSequence
from shardkit.loader.state import Promise
from shardkit.loader.stream import StreamingLoader
from shardkit.loader.unpack import unpack

__all__ = [
    "Batch",
    "EvaluationLoader",
    "HostBatch",
    "Meter",
    "Metrics",
    "Promise",
    "RawExample",
    "RawExampleLoader",
    "RawSequence",
    "RawSequenceLoader",
    "StreamingLoader",
    "sums_by_sequence",
    "targets_by_sequence",
    "unpack",
]
