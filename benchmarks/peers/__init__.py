"""The peers of `bench_loader.py`: one file a library; each writes the samples in its own format, reads them shuffled, and is resumed.

Each is used as its documentation says, shuffles as it offers, and hands over lists of 16 samples.
"""

from __future__ import annotations

from typing import Any

from peers.grain import Grain
from peers.hf import HfIterable, HfMap
from peers.litdata import Litdata
from peers.mds import Mds
from peers.tars import Energon, Webdataset, Wids

PEERS: dict[str, Any] = {
    "webdataset": Webdataset(),
    "wids": Wids(),
    "mds": Mds(),
    "litdata": Litdata(),
    "energon": Energon(),
    "hf-map": HfMap(),
    "hf-iterable": HfIterable(),
    "grain": Grain(),
}
PACKAGES = {
    "webdataset": "webdataset",
    "wids": "wids",
    "mds": "mosaicml-streaming",
    "litdata": "litdata",
    "energon": "megatron-energon",
    "hf-map": "datasets",
    "hf-iterable": "datasets",
    "grain": "grain",
}
