"""Processes that train beside the test: each a fork of one server that has everything imported, so that it begins at once.

They are processes like any other: kill -9 ends them in the middle of whatever they do.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from shardkit import cli

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    # Optimizers import _dynamo at their first step.
    ["torch._dynamo", "shardkit.trainer.loop", "shardkit.trainer.evaluate", "shardkit.cli.train", __name__]
)
TIMEOUT = 240
"""Seconds; a process that hangs is a failure, not a wait."""


def start(function: Callable[..., None], *arguments: Any, environment: Mapping[str, str] | None = None) -> BaseProcess:
    process = SERVER.Process(target=_run, args=(function, arguments, dict(environment or {})), daemon=True)
    process.start()
    return process


def command(arguments: Sequence[str], stdout: Path) -> None:
    """`shardkit ARGUMENTS > stdout`, in a process of its own."""
    with stdout.open("w") as file, redirect_stdout(file):
        code = cli.run(list(arguments))
    assert code == 0, f"exit code {code}"


def two_ranks(function: Callable[..., None], *arguments: Any) -> None:
    """Run `function(rank, *arguments)` as two ranks, as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [start(function, rank, *arguments, environment={**group, "RANK": str(rank)}) for rank in range(2)]
    for process in ranks:
        process.join(TIMEOUT)
    assert [process.exitcode for process in ranks] == [0, 0]


def _run(function: Callable[..., None], arguments: tuple[Any, ...], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    function(*arguments)
