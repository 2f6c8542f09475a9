"""Commands that are measured: seconds, processor seconds of all their processes, and the peak memory of each."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARDKIT = (sys.executable, "-m", "shardkit")


@dataclass(frozen=True, kw_only=True)
class Run:
    seconds: float
    cpu: float
    """Seconds of the process and all that it started."""
    parent_mb: float
    worker_mb: float
    """Peak resident memory of the process, and of the largest of its workers; 0 where there was none."""
    answer: dict[str, Any]


def adopt_orphans() -> None:
    """A process server outlives its parent for a moment; its CPU time is counted by whoever waits for it."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def shardkit(*words: object) -> Run:
    """Run a shardkit command."""
    return measured([*SHARDKIT, *words, "--json", "--quiet"])


def measured(command: list[object]) -> Run:
    """Run a command that prints one JSON object."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peaks: dict[int, float] = {}
    watch = threading.Thread(target=_watch, args=(process, peaks))
    watch.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - begin
    watch.join()
    _reap()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:6]))} ...: {err}")
    own = peaks.pop(process.pid, 0.0)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answer = json.loads(out.splitlines()[-1])
    return Run(seconds=seconds, cpu=cpu, parent_mb=own, worker_mb=max(peaks.values(), default=0.0), answer=answer)


def _watch(process: subprocess.Popen[str], peaks: dict[int, float]) -> None:
    while process.poll() is None:
        for pid in _family(process.pid):
            try:
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            except OSError:
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    peaks[pid] = int(line.split()[1]) * 1024 / 1e6
        time.sleep(0.1)  # between two looks: the kernel keeps each peak, only processes that end in between are missed


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _reap() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
