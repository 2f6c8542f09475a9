"""Loaders that go on from a place: in this process, in the workers of a DataLoader, from a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from torch.utils.data import get_worker_info

from shardkit.errors import ConfigError
from shardkit.loader import jpegs, pictures
from shardkit.loader import state as states
from shardkit.loader.batch import HostBatch
from shardkit.loader.choices import check_choice, check_epochs
from shardkit.loader.device import Batch
from shardkit.loader.packed import PackedLoader
from shardkit.loader.state import State
from shardkit.loader.steps import last_epoch, steps_until
from shardkit.loader.walk import Walk, begin_walk, restore_walk, write_walk
from shardkit.sequence.plan import Cursor, Plan


class ResumableLoader(PackedLoader):
    """A loader that has a place in its plan: `_cursor`, behind the last batch that this process handed out.

    Args:
        epochs: after so many, iterating gives nothing more; None iterates one at a time.
        decoder: see StreamingLoader.
        more: see PackedLoader.
    """

    _plan: Plan
    _cursor: Cursor
    _bound: State
    """What decides the global batches, by name; see state.py."""

    def __init__(self, *, epochs: int | None, decoder: str, **more: Any) -> None:
        super().__init__(**more)
        self._epochs = check_epochs(epochs)
        check_choice("decoder", decoder, pictures.DECODERS)
        self._decoder = decoder
        self._decoded_by = jpegs.identity(decoder, self._device)
        self._rests: list[State] = []
        """What the plan goes on from, where settings or data were changed within an epoch."""
        self._walk: Walk | None = None
        """Of a worker: what it has to do yet in this iteration; None where that was not asked."""
        self._restored: Walk | None = None
        """Of a worker: what its next iteration has to do."""
        self._iteration = 0
        """Number of the newest iteration in this process; older ones are over."""
        self._placed = 0
        """How often the loader was placed anew, so that a running iteration notices."""

    # ------------------------------------------------------------------ of each kind
    def _num_steps(self, epoch: int) -> int:
        """Batches of an epoch."""
        return self._plan.num_steps(epoch)

    @property
    def _recorded(self) -> State:
        """What stands in states, and may differ."""
        return {"world_size": self._rank.world_size, "workers": self._hosting.num_workers}

    def _more_state(self) -> State:
        """What else stands in states."""
        return {}

    # ------------------------------------------------------------------ iteration
    def __len__(self) -> int:
        """Batches of the epoch the loader is in, or of all `epochs` where given; the same on every rank.

        Exact. An epoch that was never counted takes a planning pass, about two seconds for a million sequences.
        """
        if self._epochs is None:
            return self._num_steps(self._cursor.epoch + self._hosting.epochs)
        return sum(self._num_steps(epoch) for epoch in range(self._plan.first_epoch, self._epochs))

    def __iter__(self) -> Iterator[Any]:
        if get_worker_info() is not None:
            self._walk, self._restored = self._restored, None
        return super().__iter__()

    def _own(self) -> Iterator[Batch]:
        # Here, and not with the first batch: whichever iteration was begun last goes on.
        self._iteration += 1
        return self._from_place(self._iteration)

    def _from_place(self, iteration: int) -> Iterator[Batch]:
        """Batches on the device, from the loader's place on."""
        placed = -1
        while placed != self._placed:
            placed = self._placed
            steps = steps_until(self._plan, self._cursor, last_epoch(self._cursor, self._epochs))
            for batch in self._delivered(steps):
                if iteration != self._iteration:
                    raise ConfigError(
                        "another iteration of this loader was begun", hint="use one iteration of a loader at a time"
                    )
                assert batch.info is not None, "a loader's batch has its facts"
                self._cursor = batch.info.after
                yield batch
                if placed != self._placed:
                    break

    def _hosted(self) -> Iterator[HostBatch]:
        # Here, not when the iteration is begun: an error there would end a persistent worker without a word.
        walk = self._walk = self._walk or begin_walk(self._hosting, self._plan, self._cursor, self._epochs)
        steps = islice(steps_until(self._plan, walk.cursor, walk.end), walk.skip, None, walk.stride)
        for host in self._handed_over(steps):
            self._walk = walk.after(host.info.after)
            yield host

    # ------------------------------------------------------------------ state
    def state_dict(self) -> State:
        """The place after the last batch that this process handed out, as JSON of a few KiB.

        It tells how many batches the epoch has, so the first one of an epoch may take a planning pass, as `len` does.

        Raises:
            ConfigError: in a process whose workers hand out the batches.
        """
        worker = get_worker_info()
        if worker is not None:
            self._walk = self._walk or begin_walk(self._hosting, self._plan, self._cursor, self._epochs)
            return write_walk(self._plan, self._walk, worker.id)
        if self._hosting.hosted:
            raise ConfigError(
                "workers of a DataLoader hand out the batches, so this process does not know the place",
                hint="save loader.state_after(batch) of the last batch that was used",
            )
        return self._state(self._cursor)

    def state_after(self, batch: Batch | HostBatch) -> State:
        """The place after `batch`, in every hosting.

        Raises:
            ConfigError: where the batch is none of this loader.
        """
        info = batch.info
        if info is None or not info.batch_id.startswith(f"{self._plan.digest}/"):
            raise ConfigError(
                f"the batch {info.batch_id if info else 'built by hand'} is none of plan {self._plan.digest}",
                hint="give a batch that this loader handed out since its last state was loaded",
            )
        self._note(info)
        return self._state(info.after)

    def _state(self, cursor: Cursor) -> State:
        """The state of a place."""
        self._plan.remember(cursor)
        over = self._epochs is not None and cursor.epoch >= self._epochs
        return states.sealed(
            {
                "version": states.VERSION,
                "plan": self._plan.digest,
                **states.write_cursor(self._plan, cursor),
                "num_steps": None if over else self._num_steps(cursor.epoch),
                "bound": self._bound,
                "recorded": self._recorded,
                "rests": self._rests,
                "quarantine": states.write_quarantine(list(self._quarantine.values())),
                **self._more_state(),
            }
        )

    def _restore_worker(self, state: Mapping[str, Any]) -> None:
        """Take the state of a worker, in one: torchdata's StatefulDataLoader gives each its own."""
        self._restored = restore_walk(self._hosting, self._plan, state, self._cursor.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._place(self._plan.start(epoch))

    def _place(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._placed += 1
        self._hosting.place()
        self._drop_assembler()
