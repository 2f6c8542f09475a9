"""How many pages a TIFF has, from its directories alone."""

from __future__ import annotations

import mmap
from itertools import islice

from shardkit.media.strip.tiff_page import page_places

_MOST = 10_000


def tiff_pages(data: bytes | mmap.mmap) -> int:
    """Directories of the chain; 1 for what is no TIFF or breaks off, which the decoder will judge."""
    if len(data) < 16 or bytes(data[:4]) not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return 1
    return max(1, sum(1 for _ in islice(page_places(data), _MOST)))
