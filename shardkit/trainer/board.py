"""The log's numbers for TensorBoard: an event file with a scalar for each, at its step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from shardkit.store.files import output_errors, output_is

LEFT_OUT = ("step", "room")
"""No curves"""


class _Writer(Protocol):
    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None: ...


class Board:
    """Takes the records of steps."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer

    def add(self, record: Mapping[str, Any]) -> None:
        for tag, value in scalars(record):
            self._writer.add_scalar(tag, value, global_step=record["step"])


def scalars(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a record, by the path of names that leads to it."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from scalars(value, f"{prefix}{name or 'all'}/")
        elif isinstance(value, (int, float)) and name not in LEFT_OUT:
            yield f"{prefix}{name or 'all'}", float(value)


@contextmanager
def open_board(folder: Path | None, *, step: int) -> Iterator[Board | None]:
    """A board in `folder`, or none.

    Args:
        step: that the run goes on from: what a killed run wrote of later steps is marked as gone.
    """
    if folder is None:
        yield None
        return
    from tensorboardX import SummaryWriter

    with output_is("the curves", "choose another --tensorboard"), output_errors(folder):
        # Named by the second they are begun in: without the step, a run that goes on at once would write over what was there.
        writer = SummaryWriter(logdir=str(folder), purge_step=step + 1, filename_suffix=f".{step}")
    try:
        yield Board(writer)
    finally:
        writer.close()
