"""The loader: a plan carried out, from any place of it, on any number of ranks and workers.

for batch in loader: ...            one epoch, or `epochs` of them
loader.state_dict()                 the place after the last batch that this process handed out
loader.state_after(batch)           the place after a batch, whoever handed it out
loader.load_state_dict(state)       go on from there; returns what is promised
"""

from __future__ import annotations

import logging
import multiprocessing.context
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from types import TracebackType
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from shardkit.errors import ConfigError, ResumeError, SourceError
from shardkit.loader import jpegs, pictures
from shardkit.loader import state as states
from shardkit.loader.append import marks, places_in
from shardkit.loader.assemble import MAX_QUARANTINED, Assembler
from shardkit.loader.batch import BatchInfo, HostBatch, Quarantined
from shardkit.loader.choices import check_choice, choose_rank
from shardkit.loader.device import Batch
from shardkit.loader.hosting import Hosting
from shardkit.loader.metrics import Meter, Metrics
from shardkit.loader.objects import changed_objects, etag_marks
from shardkit.loader.reader import Reader, check_files
from shardkit.loader.staging import Staging
from shardkit.loader.state import Promise, State
from shardkit.loader.steps import last_epoch, steps_until
from shardkit.loader.walk import Walk, begin_walk, restore_walk, write_walk
from shardkit.sequence.plan import Cursor, Mixture, Plan, PlanSettings
from shardkit.sequence.plan.after import plan_after, read_cursor
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.plans import read_plan
from shardkit.store.remote import RemoteSettings

logger = logging.getLogger("shardkit.loader")

AHEAD = 2
"""Batches that are begun before they are asked for."""
MAX_THREADS = 4
"""That decode pictures; no more than cores."""
ON_BAD = ("raise", "quarantine")
VERIFY = ("read", "open", "off")
_REBUILT = ("_lengths", "_plan", "_assembler", "_reader")
"""What a copy in another process makes itself."""


class StreamingLoader(IterableDataset[Any]):
    """The packed batches of a tokenized dataset.

    Iterating gives the batches from the loader's place to the end of its epoch (of `epochs` epochs, where given), and
    leaves the loader behind them: the next iteration goes on. In the workers of a
    `torch.utils.data.DataLoader(loader, batch_size=None)` it gives `HostBatch`es; there every iteration of the
    DataLoader is the next epoch, and an epoch that was left early is gone on with from `state_after(batch)`.

    Args:
        dataset: what `shardkit tokenize` wrote, its path or its URL.
        split: train where the dataset is split, everything where it never was.
        max_tokens: of a pack; likewise max_images, max_patches and max_attention (pairs of tokens), where given.
        global_batch: packs of a step over all ranks; a multiple of the world size.
        mixture: shares of the sources, as a mixture file says; None takes everything once an epoch.
        packer: a name of PACKERS.
        tail: drop | pad | wrap: what becomes of packs that do not fill a last global batch.
        rank: data-parallel rank; with `world_size` from the environment of torchrun where not given, else 0 of 1.
            Under tensor or context parallelism give both: ranks that work on the same data take the same number.
        epochs: after so many, iterating gives nothing more.
        verify: read | open | off: compare each block of rows before its first use, whole shards, sizes only.
        on_bad: raise | quarantine: stop at a picture that cannot be decoded, or take the targets of its sequence away.
        decoder: pillow | turbo | device: the pixels that datasets record, the same on every machine; or others by a hair
            in half the time, which needs simplejpeg; or plain JPEGs as they are stored, decoded on `device`. States bind it.
        device: where batches are built.
        remote: how a dataset behind a URL is reached, and the cache of its shards on this host.

    Raises:
        ConfigError: where settings and dataset do not fit.
        IntegrityError: where a shard is missing or of another size.
    """

    _metadata = False
    """Whether batches carry the metadata of their examples."""
    _views = True
    """Whether pictures are shown in random views, where their processor has any."""

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        *,
        split: str | None = None,
        seed: int = 0,
        max_tokens: int,
        max_images: int | None = None,
        max_patches: int | None = None,
        max_attention: int | None = None,
        global_batch: int = 1,
        mixture: Mixture | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        packer: str = "best-fit",
        tail: str = "drop",
        rank: int | None = None,
        world_size: int | None = None,
        epochs: int | None = None,
        verify: Verify = "read",
        on_bad: str = "raise",
        decoder: str = "pillow",
        device: torch.device | str = "cpu",
        remote: RemoteSettings | None = None,
    ) -> None:
        super().__init__()
        check_choice("verify", verify, VERIFY)
        check_choice("on_bad", on_bad, ON_BAD)
        check_choice("decoder", decoder, pictures.DECODERS)
        if epochs is not None and (type(epochs) is not int or epochs < 0):
            raise ConfigError(f"epochs is {epochs!r}, not a whole number from 0 on", hint="set epochs, or leave it out")
        self._settings = PlanSettings(
            max_tokens=max_tokens,
            max_images=max_images,
            max_patches=max_patches,
            max_attention=max_attention,
            global_batch=global_batch,
            packer=packer,
            seed=seed,
            tail=tail,
        )
        self._rank = choose_rank(rank, world_size, global_batch)
        self._mixture = None if mixture is None else Mixture.of(mixture)
        self._dataset = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, remote=remote)
        self._split = choose_split(self._dataset, split)
        self._epochs = epochs
        self._verify: Verify = verify
        self._on_bad = on_bad
        self._decoder = decoder
        self._device = torch.device(device)
        self._staging = Staging(self._device)
        check_files(self._dataset, self._split)
        objects = etag_marks(self._dataset)
        self._objects: State = {"objects": objects} if objects else {}

        self._lengths = read_lengths(self._dataset, self._split)
        self._rests: list[State] = []
        self._plan = self._plan_after(self._rests)
        self._decoded_by = jpegs.identity(decoder, self._device)
        self._bound = states.bound(self._dataset, self._plan, self._decoded_by)
        self._cursor = self._plan.start(0)
        self._quarantine: dict[tuple[int, int, int], Quarantined] = {}
        self._hosting = Hosting()
        self._meter = Meter()
        self._walk: Walk | None = None
        """Of a worker: what it has to do yet in this iteration; None where that was not asked."""
        self._restored: Walk | None = None
        """Of a worker: what its next iteration has to do."""
        self._iteration = 0
        """Number of the newest iteration in this process; older ones are over."""
        self._placed = 0
        """How often the loader was placed anew, so that a running iteration notices."""
        self._reader: Reader | None = None
        self._assembler: Assembler | None = None
        self._process = os.getpid()
        self._closed = False

    # ------------------------------------------------------------------ iteration
    def __iter__(self) -> Iterator[Any]:
        if self._closed:
            raise ConfigError("the loader was closed", hint="make a new one and load the state of the old one")
        if get_worker_info() is not None:
            self._walk, self._restored = self._restored, None
            return self._hosted()
        self._iteration += 1
        return self._own(self._iteration)

    def __len__(self) -> int:
        """Batches of the epoch the loader is in, or of all `epochs` where given; the same on every rank.

        Exact. An epoch that was never counted takes a planning pass, about two seconds for a million sequences.
        """
        if self._epochs is None:
            return self._num_steps(self._cursor.epoch + self._hosting.epochs)
        return sum(self._num_steps(epoch) for epoch in range(self._plan.first_epoch, self._epochs))

    def _own(self, iteration: int) -> Iterator[Batch]:
        """Batches on the device, from the loader's place on."""
        placed = -1
        while placed != self._placed:
            placed = self._placed
            for host in self._meter.waits(
                self._assemble().batches(steps_until(self._plan, self._cursor, last_epoch(self._cursor, self._epochs)))
            ):
                if iteration != self._iteration:
                    raise ConfigError(
                        "another iteration of this loader was begun", hint="use one iteration of a loader at a time"
                    )
                with self._meter.copy():
                    host = self._staging.decode(host)
                    batch = self._staging.put(host)
                self._note(host.info)
                self._cursor = host.info.after
                self._meter.add(batch)
                yield batch
                if placed != self._placed:
                    break

    def _hosted(self) -> Iterator[HostBatch]:
        """Every n-th batch, so that the DataLoader, which asks its n workers in turn, restores the order."""
        # Here, not when the iteration is begun: an error there would end a persistent worker without a word.
        walk = self._walk = self._walk or begin_walk(self._hosting, self._plan, self._cursor, self._epochs)
        if self._device.type != "cpu":
            raise ConfigError(
                f"workers of a DataLoader cannot build batches on {self._device}",
                hint='set device="cpu" and call batch.to_device(device) where the batches arrive',
            )
        steps = islice(steps_until(self._plan, walk.cursor, walk.end), walk.skip, None, walk.stride)
        for host in self._assemble().batches(steps):
            self._note(host.info)
            self._walk = walk.after(host.info.after)
            yield host

    def _assemble(self) -> Assembler:
        if self._process != os.getpid():
            # A copy made by fork: the threads stayed with the other process.
            self._process, self._reader, self._assembler = os.getpid(), None, None
        if self._reader is None:
            self._reader = Reader(self._dataset, verify=self._verify, decoder=self._decoder)
        if self._assembler is None:
            # Workers of a DataLoader are the parallel part already, and it asks ahead itself.
            hosted = get_worker_info() is not None
            self._assembler = Assembler(
                self._plan,
                self._reader,
                self._rank,
                threads=0 if hosted else min(MAX_THREADS, num_cores()),
                ahead=0 if hosted else AHEAD,
                on_bad=self._on_bad,
                decoder=self._decoded_by,
                metadata=self._metadata,
                dataset=self._dataset.where,
                views=self._views,
            )
        return self._assembler

    def _note(self, info: BatchInfo) -> None:
        """Remember what a batch masked."""
        self._quarantine |= {(q.shard, q.row, q.image): q for q in info.quarantined}
        if len(self._quarantine) > MAX_QUARANTINED:
            raise SourceError(
                f"{len(self._quarantine)} pictures cannot be decoded; a rank masks {MAX_QUARANTINED} at most",
                where=str(self._dataset.path),
                hint="build the dataset again with this version, which leaves out what it cannot decode",
            )

    def metrics(self, *, restart: bool = False) -> Metrics:
        """What was delivered since the first batch was asked for, and what it cost.

        Args:
            restart: count anew from here on, as for one log line after another.

        Raises:
            ConfigError: in a process whose workers hand out the batches.
        """
        if self._hosting.hosted:
            raise ConfigError(
                "workers of a DataLoader hand out the batches, so this process does not see them",
                hint="count each batch where it arrives with shardkit.loader.Meter",
            )
        found = self._meter.metrics()
        if restart:
            self._meter.start()
        return found

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

    def load_state_dict(self, state: Mapping[str, Any], *, require: str = "replayable") -> Promise:
        """Go on from a saved place, also in the middle of an iteration.

        Args:
            require: the least promise that is taken: replayable, or equivalent.

        Returns:
            What is promised; it is logged with every difference.

        Raises:
            ResumeError: where less can be promised; it names both sides of every difference.
        """
        check_choice("require", require, tuple(states.REQUIRE))
        if get_worker_info() is not None:
            self._restored = restore_walk(self._hosting, self._plan, state, self._cursor.epoch)
            return Promise.REPLAYABLE
        saved = states.check_form(state)
        found = states.differences(saved["bound"], self._bound)
        bound = saved["bound"]["dataset"]
        if bound == self._dataset.id:
            found += changed_objects(self._dataset, saved["recorded"].get("objects"))
        places = None if bound == self._dataset.id else places_in(self._dataset, saved["shards"], bound)
        promise = states.judge(found, saved["bound"], appended=places is not None)
        states.refuse_less(promise, require, found)
        if states.keeps_plan(found):
            rests = list(saved["rests"])
            plan = self._plan_after(rests)
            if plan.digest != saved["plan"]:
                raise ResumeError(
                    f"the state is of plan {saved['plan']}, what is bound in it gives {plan.digest}",
                    where="loader state",
                    hint="give the state as it was saved",
                )
            cursor = read_cursor(plan, saved)
            plan.remember(cursor, saved["num_steps"])
        else:
            rests = states.with_rest(saved, places)
            plan = self._plan_after(rests)
            cursor = plan.start(plan.first_epoch)
        self._rests, self._plan = rests, plan
        self._quarantine = {(q.shard, q.row, q.image): q for q in states.read_quarantine(saved["quarantine"], places)}
        self._place(cursor)
        recorded = ({**one, "objects": None} for one in (saved["recorded"], self._recorded))
        states.log(logger, promise, [*found, *states.differences(*recorded)])
        return promise

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._place(self._plan.start(epoch))

    def _place(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._placed += 1
        self._hosting.place()
        self._drop_assembler()

    def _state(self, cursor: Cursor) -> State:
        self._plan.remember(cursor)
        over = self._epochs is not None and cursor.epoch >= self._epochs
        return {
            "version": states.VERSION,
            "plan": self._plan.digest,
            **states.write_cursor(self._plan, cursor),
            "num_steps": None if over else self._num_steps(cursor.epoch),
            "bound": self._bound,
            "recorded": self._recorded,
            "shards": marks(self._dataset),
            "rests": self._rests,
            "quarantine": states.write_quarantine(list(self._quarantine.values())),
        }

    @property
    def _recorded(self) -> State:
        return {"world_size": self._rank.world_size, **self._objects}

    def _num_steps(self, epoch: int) -> int:
        if not self._plan.knows_steps(epoch):
            saved = read_plan(self._dataset.path, self._plan.digest) or {"num_steps": {}}
            self._plan.remember_steps({int(known): steps for known, steps in saved["num_steps"].items()})
        if not self._plan.knows_steps(epoch):
            logger.info("planning epoch %d of %d sequences to count its batches", epoch, len(self._lengths))
        return self._plan.num_steps(epoch)

    def _plan_after(self, rests: list[State]) -> Plan:
        return plan_after(rests, self._lengths, self._settings, self._mixture, identity(self._dataset, self._split))

    # ------------------------------------------------------------------ end, and copies
    def close(self) -> None:
        """Stop the threads and let go of the shards; the loader keeps its place and can still tell it."""
        self._closed = True
        self._drop_assembler()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __enter__(self) -> StreamingLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop_assembler(self) -> None:
        if self._assembler is not None and self._process == os.getpid():
            self._assembler.close()
        self._assembler = None

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in _REBUILT}
        if multiprocessing.context.get_spawning_popen() is None:
            state["_hosting"] = Hosting()  # a copy, not a worker: it shares nothing
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._process = os.getpid()
        self._reader = self._assembler = None
        self._lengths = read_lengths(self._dataset, self._split)
        self._plan = self._plan_after(self._rests)
        self._plan.remember(self._cursor)


def num_cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
