"""Work on this machine: items in, results out in the same order, on local processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from typing import TypeVar

from shardkit.engine.memory import keep_freed_memory
from shardkit.errors import ShardkitError

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ordered(
    function: Callable[[Item], Result], items: Iterable[Item], *, workers: int = 1, in_flight: int | None = None
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order, computed by `workers` processes.

    With one worker, or one item, everything happens in this process. At most `in_flight` results (default 2 a worker, and 2)
    are computed ahead, so memory stays bounded. `items` may be a generator; it is read in this process.

    Args:
        function: a module-level function, or a partial of one; it and the items are pickled.

    Raises:
        ShardkitError: where a worker process died. Errors of `function` come through as they are.
    """
    items = iter(items)
    if workers > 1:
        first = list(islice(items, 2))
        items = chain(first, items)
        workers = workers if len(first) > 1 else 1
    keep_freed_memory()
    if workers <= 1:
        yield from map(function, items)
        return
    # Not fork: pyarrow and image libraries hold threads and locks that do not survive it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["shardkit.engine.worker", _module_of(function)])
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    waiting: deque[Future[Result]] = deque()
    limit = in_flight or 2 * workers + 2
    try:
        for item in items:
            if len(waiting) >= limit:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise ShardkitError(
            "a worker process died, perhaps killed for memory",
            hint="run the same command again with fewer --workers; it goes on where it stopped",
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _module_of(function: Callable[..., object]) -> str:
    """Where `function` is defined, so that it is imported once and not by every worker."""
    while isinstance(function, partial):
        function = function.func
    return function.__module__


def _start_worker() -> None:
    keep_freed_memory()
    # Ctrl-C goes to the whole process group; the parent decides, workers finish their item.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when its parent is gone, so that a killed run leaves nobody behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
