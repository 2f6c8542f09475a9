"""RUN/log.jsonl: one JSON object a step, each step once however often the run was killed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from shardkit.errors import IntegrityError
from shardkit.store.files import output_errors
from shardkit.trainer.board import Board
from shardkit.trainer.checkpoint import read_whole, replace_durably


class Log:
    """Appends records to a run's log.

    Args:
        path: the log; created where it does not exist.
        step: the step that the run goes on from. Later records are of steps that will come again, and are dropped.
        board: takes each record too.
    """

    def __init__(self, path: Path, *, step: int, board: Board | None = None) -> None:
        self.path = path
        self._board = board
        replace_durably(path, b"".join(line for record, line in _lines(path) if record["step"] <= step))
        with output_errors(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

    def append(self, record: Mapping[str, Any]) -> None:
        with output_errors(self.path):
            # One write a record: a kill leaves whole lines, but for a last one on a full disk.
            os.write(self._descriptor, orjson.dumps(record) + b"\n")
        if self._board is not None:
            self._board.add(record)

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log, without a torn last line.

    Raises:
        IntegrityError: where a line is damaged.
    """
    return [record for record, _ in _lines(path)]


def _lines(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Each record and the line that it is."""
    for number, line in enumerate((read_whole(path) or b"").splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            return
        try:
            record = orjson.loads(line)
            record["step"]  # a record without it is damaged
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                f"a line of the log is damaged ({error})",
                where=f"{path}:{number}",
                hint="take the line out, or move the log away: a run goes on without it",
            ) from error
        yield record, line
