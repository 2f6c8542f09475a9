"""Executors for what a loader does beside its consumer, or in place where it has no threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

Done = TypeVar("Done")


class _InPlace(Executor):
    """Does the work in `submit`."""

    def submit(self, work: Callable[..., Done], /, *args: Any, **kwargs: Any) -> Future[Done]:
        future: Future[Done] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result has it
            future.set_exception(error)
        return future


def executor(threads: int, name: str) -> Executor:
    """That many threads, which take work in the order of `submit`; for 0 the thread that submits does it."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"shardkit-{name}") if threads else _InPlace()
