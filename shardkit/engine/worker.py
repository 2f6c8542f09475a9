"""What a worker process needs, imported once by the process that worker processes are forked from."""

import numpy as np
import orjson
import pyarrow as pa
import xxhash
from PIL import Image

from shardkit.store.pandas_free import spare_pandas

spare_pandas()

__all__ = ["Image", "np", "orjson", "pa", "xxhash"]
