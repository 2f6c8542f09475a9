"""Memory that was freed and is still counted as this process's: given back to the system between the steps of a stage.

Arrays of some megabytes come and go by the dozen while a stage decides; the allocators of C and Arrow keep what they
held for the next ones, and a step that needs other sizes comes on top of it.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Hand free memory back; without effect where the C library cannot."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Any | None:
    try:
        return ctypes.CDLL(None).malloc_trim  # glibc alone has it
    except (OSError, AttributeError, TypeError):
        return None
