"""Where a worker of a DataLoader is, and its state in torchdata's protocol.

torchdata's StatefulDataLoader asks each worker's copy of the loader for a state after each of its batches, and gives it
back to a new worker of the same number. Worker w of n takes every n-th step:

    steps       0 1 2 3 4 5 6 7        n = 2
    worker 1      x   x   x   x        after step 3: skip 1, then every second
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardkit.errors import ResumeError
from shardkit.loader import state as states
from shardkit.loader.hosting import Hosting
from shardkit.loader.steps import last_epoch
from shardkit.sequence.plan import Cursor, Plan
from shardkit.sequence.plan.after import read_cursor

_HINT = (
    "give the state to a StatefulDataLoader with the settings and num_workers that it was saved with; to go on with "
    "others, save loader.state_after(batch) and load it into the loader before workers start"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Walk:
    """The steps of one worker in one iteration."""

    cursor: Cursor
    skip: int
    """Steps from the cursor on that other workers take first."""
    stride: int
    """Number of workers."""
    end: int
    """The epoch before which the iteration ends."""

    def after(self, cursor: Cursor) -> Walk:
        """The walk that is left when this worker has handed out the step before `cursor`."""
        return replace(self, cursor=cursor, skip=self.stride - 1)


def write_walk(plan: Plan, walk: Walk, worker: int) -> states.State:
    """JSON of a few hundred bytes."""
    return states.sealed(
        {
            "version": states.VERSION,
            "plan": plan.digest,
            **states.write_cursor(plan, walk.cursor),
            "worker": {"number": worker, "num_workers": walk.stride, "skip": walk.skip, "end": walk.end},
        }
    )


def read_walk(plan: Plan, state: Mapping[str, Any], worker: int, num_workers: int) -> Walk:
    """What `write_walk` wrote.

    Raises:
        ResumeError: where it is of another plan, of another worker or of no worker, or was changed.
    """
    try:
        saved = {name: state[name] for name in ("version", "plan", "cursor", "streams", "digest")}
        number, of, skip, end = (int(state["worker"][name]) for name in ("number", "num_workers", "skip", "end"))
    except (KeyError, TypeError, ValueError) as error:
        raise ResumeError(
            f"the state is not one of a worker ({error} is missing or no number)", where="loader state", hint=_HINT
        ) from error
    states.check_version(saved["version"])
    if saved["plan"] != plan.digest:
        raise ResumeError(
            f"the state is of plan {saved['plan']}, this loader's is {plan.digest}", where="loader state", hint=_HINT
        )
    if (number, of) != (worker, num_workers):
        raise ResumeError(
            f"the state is of worker {number} of {of}, this is worker {worker} of {num_workers}",
            where="loader state",
            hint=_HINT,
        )
    states.check_seal(dict(state))
    return Walk(cursor=read_cursor(plan, saved), skip=skip, stride=of, end=end)


def begin_walk(hosting: Hosting, plan: Plan, cursor: Cursor, epochs: int | None) -> Walk:
    """Of this worker in a new iteration of its DataLoader; the first one begins at `cursor`, later ones at later epochs."""
    worker = hosting.join()
    if worker.iteration:
        cursor = plan.start(cursor.epoch + worker.epochs if epochs is None else max(epochs, cursor.epoch))
    return Walk(cursor=cursor, skip=worker.number, stride=worker.num_workers, end=last_epoch(cursor, epochs))


def restore_walk(hosting: Hosting, plan: Plan, state: Mapping[str, Any], epoch: int) -> Walk:
    """What this worker has to do in the iteration that begins, and later iterations begin behind it.

    Args:
        epoch: of the place that the loader of the main process is at.

    Raises:
        ResumeError: where the state is of another plan or worker.
    """
    worker = hosting.join()
    walk = read_walk(plan, state, worker.number, worker.num_workers)
    hosting.shift(walk.end - 1 - epoch - worker.iteration)
    return walk
