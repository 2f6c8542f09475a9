"""Threads that do a loader's work beside its consumer, or the consumer itself where there are none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

Done = TypeVar("Done")


class _Here(Executor):
    """Does at once what it is asked for."""

    def submit(self, work: Callable[..., Done], /, *args: Any, **kwargs: Any) -> Future[Done]:
        future: Future[Done] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result has it
            future.set_exception(error)
        return future


def executor(threads: int, name: str) -> Executor:
    """So many threads, which begin what they are asked for in that order; without any, whoever asks does it."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"shardkit-{name}") if threads else _Here()
