"""RUN/log.jsonl: one JSON object a step, each step once however often the run was killed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from shardkit.store.files import output_errors
from shardkit.trainer.checkpoint import replace_durably


class Log:
    """Appends records to a run's log.

    Args:
        path: the log; created where it does not exist.
        step: the step that the run goes on from. Later records are of steps that will come again, and are dropped.
    """

    def __init__(self, path: Path, *, step: int) -> None:
        self.path = path
        replace_durably(path, b"".join(line + b"\n" for line in _lines_until(path, step)))
        with output_errors(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

    def append(self, record: Mapping[str, Any]) -> None:
        with output_errors(self.path):
            # One write a record: a kill leaves whole lines, but for a last one on a full disk.
            os.write(self._descriptor, orjson.dumps(record) + b"\n")

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log, without a torn last line."""
    records = []
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        if not line.endswith(b"\n"):
            break
        records.append(orjson.loads(line))
    return records


def _lines_until(path: Path, step: int) -> list[bytes]:
    return [orjson.dumps(record) for record in read_log(path) if record["step"] <= step]
