"""Freed memory stays with the process, so that the next picture does not pay for fresh pages."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
_LARGEST_REUSED = 64 << 20
"""Bytes. Larger buffers go back to the system, so that one huge picture does not weigh on the process for ever."""
_KEPT_FREE = 128 << 20


def keep_freed_memory() -> None:
    """Let buffers of pictures be reused: without it each one is mapped, faulted in page by page and unmapped again.

    Does nothing where the C library is not glibc; it is a matter of speed alone.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_REUSED)
        library.mallopt(_TRIM_THRESHOLD, _KEPT_FREE)
