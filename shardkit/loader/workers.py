"""Processes around a loader: the cores of this one, and how a copy of a loader comes to be."""

from __future__ import annotations

import multiprocessing.context
import os


def num_cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_copied_to_worker() -> bool:
    """Whether what is pickled just now goes to a process that is being started, not to a file or a copy."""
    return multiprocessing.context.get_spawning_popen() is not None
