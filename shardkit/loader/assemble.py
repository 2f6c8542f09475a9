"""Steps of a plan to host batches: read the sequences, decode their pictures into place, in threads, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.errors import ShardkitError
from shardkit.loader.batch import BatchInfo, Buffers, HostBatch, lay_out
from shardkit.loader.choices import Rank
from shardkit.loader.jpegs import encode
from shardkit.loader.metrics import Timing, figures
from shardkit.loader.pictures import Jpeg
from shardkit.loader.quarantine import mask, unreadable, with_entry
from shardkit.loader.reader import Reader
from shardkit.loader.rows import Loaded
from shardkit.media.reasons import BadMedia
from shardkit.sequence.part import Part, part_of
from shardkit.sequence.plan import Plan, Step, shares
from shardkit.sequence.plan.stored_order import StoredOrder
from shardkit.sequence.sequence import Slot
from shardkit.store.dataset import Dataset

if TYPE_CHECKING:
    from shardkit.loader.foreign.reader import ForeignReader


@dataclass(frozen=True, kw_only=True, slots=True)
class _Picture:
    """A slot whose pixels are on their way."""

    sequence: int
    """Place of its sequence in the batch."""
    loaded: Loaded
    slot: Slot
    decode: Callable[[], Jpeg | None]
    future: Future[Jpeg | None] | None

    def wait(self) -> Jpeg | None:
        """Until its pixels are there; decodes them here where no thread does. What is left to the device is returned."""
        return self.decode() if self.future is None else self.future.result()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pending:
    step: Step
    sequences: list[Loaded]
    rows: list[tuple[int, int]]
    buffers: Buffers
    timing: Timing
    pictures: list[_Picture] = field(default_factory=list)

    def cancel(self) -> None:
        for picture in self.pictures:
            if picture.future is not None:
                picture.future.cancel()


class Assembler:
    """Makes the batches of one rank.

    Args:
        threads: decode in so many threads; 0 decodes where the batch is asked for.
        ahead: batches that are begun before they are asked for; bounds the memory.
        on_bad: raise | quarantine, for pictures that cannot be decoded.
        decoder: identity of what decodes them, for those that are left to the device.
        metadata: read that of each sequence's example too.
        dataset: that is read, for the batches to name; None where they come from none.
        views: show random views of pictures, where the processor has any.
    """

    def __init__(
        self,
        plan: Plan | StoredOrder,
        reader: Reader | ForeignReader,
        rank: Rank,
        *,
        threads: int,
        ahead: int,
        on_bad: str,
        decoder: str = "",
        metadata: bool = False,
        dataset: Dataset | None = None,
        views: bool = True,
    ) -> None:
        self._plan = plan
        self._reader = reader
        self._rank = rank
        self._ahead = ahead
        self._on_bad = on_bad
        self._decoder = decoder
        self._metadata = metadata
        self._dataset = dataset
        self._views = views
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="shardkit-decode") if threads else None

    def batches(self, steps: Iterable[Step]) -> Iterator[HostBatch]:
        """The batches of `steps`, in their order.

        An error is raised in the place of the batch it belongs to, when those before it were handed out.
        """
        pending: deque[_Pending] = deque()
        failed: ShardkitError | None = None
        try:
            for step in steps:
                try:
                    pending.append(self._begin(step))
                except ShardkitError as error:
                    failed = error
                    break
                if len(pending) > self._ahead:
                    yield self._finish(pending.popleft())
            while pending:
                yield self._finish(pending.popleft())
            if failed is not None:
                raise failed
        finally:
            for begun in pending:
                begun.cancel()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    def _begin(self, step: Step) -> _Pending:
        began = time.perf_counter()
        plan, lengths = self._plan, self._plan.lengths
        own = shares(plan.costs(step.packs), self._rank.world_size)[self._rank.rank]
        packs = [step.packs[place] for place in own]
        members = [member for pack in packs for member in pack]
        rows = [(int(lengths.shard[index]), int(lengths.row[index])) for index in members]
        sequences = [self._sequence(shard, row, member) for (shard, row), member in zip(rows, members, strict=True)]
        bounds = np.cumsum([0, *(len(pack) for pack in packs)]).tolist()
        buffers = lay_out(
            [[loaded.sequence for loaded in sequences[bounds[i] : bounds[i + 1]]] for i in range(len(packs))],
            plan.denominators(step.packs),
            form=self._reader.form,
        )
        timing = Timing(pack_seconds=time.perf_counter() - began)
        pending = _Pending(step=step, sequences=sequences, rows=rows, buffers=buffers, timing=timing)
        seed = plan.settings.seed
        slots = [
            (number, loaded, slot)
            for number, loaded in enumerate(sequences)
            for slot in sorted(loaded.sequence.slots, key=lambda slot: slot.start)
        ]
        for (number, loaded, slot), place in zip(slots, buffers.places, strict=True):
            chance = mix64(seed, step.epoch, loaded.example_id, slot.image) if self._views else None
            decode = partial(self._decode, timing, loaded, slot, place, chance)
            future = self._threads.submit(decode) if self._threads else None
            pending.pictures.append(_Picture(sequence=number, loaded=loaded, slot=slot, decode=decode, future=future))
        return pending

    def _decode(
        self, timing: Timing, loaded: Loaded, slot: Slot, place: npt.NDArray[np.uint8], chance: int | None
    ) -> Jpeg | None:
        began = time.perf_counter()
        size, left = self._reader.picture(loaded, slot, place, chance)
        timing.decoded.append((size, time.perf_counter() - began))
        return left

    def _sequence(self, shard: int, row: int, member: int) -> Loaded:
        """A sequence, or the part of it that a pack has."""
        loaded = self._reader.sequence(shard, row)
        if isinstance(member, Part):
            return replace(loaded, sequence=part_of(loaded.sequence, member))
        return loaded

    def _finish(self, pending: _Pending) -> HostBatch:
        jpegs: list[Jpeg | None] = []
        bad: list[tuple[_Picture, BadMedia]] = []
        for picture in pending.pictures:
            try:
                jpegs.append(picture.wait())
            except BadMedia as error:
                if self._on_bad == "raise":
                    pending.cancel()
                    where = self._reader.place(picture.loaded)
                    raise unreadable(picture.slot.image, where, error) from error
                jpegs.append(None)
                bad.append((picture, error))
        step, rank, meta = pending.step, self._rank, pending.buffers.meta
        info = BatchInfo(
            batch_id=f"{self._plan.digest}/{step.epoch}/{step.step}/{rank.rank}of{rank.world_size}",
            epoch=step.epoch,
            step=step.step,
            example_ids=tuple(loaded.example_id for loaded in pending.sequences),
            sources=tuple(loaded.source for loaded in pending.sequences),
            rows=tuple(pending.rows),
            quarantined=(),
            after=step.after,
            global_sequences=sum(len(pack) for pack in step.packs),
            dataset="" if self._dataset is None else self._dataset.where,
            dataset_id="" if self._dataset is None else self._dataset.id,
            figures=figures(
                pending.sequences,
                pending.buffers.sizes.num_packs * self._plan.settings.max_tokens,
                pending.timing,
            ),
            metadata=tuple(map(self._reader.metadata, pending.sequences)) if self._metadata else None,
        )
        for picture, reason in bad:
            meta = mask(meta, pending.buffers.sizes, picture.sequence)
            info = with_entry(info, picture.sequence, picture.slot.image, reason)
        host = HostBatch(meta=meta, pixels=pending.buffers.pixels, info=info)
        if not any(jpegs):
            return host
        wheres = [self._reader.place(picture.loaded) for picture in pending.pictures]
        return encode(host, pending.buffers.places, jpegs, wheres, on_bad=self._on_bad, decoder=self._decoder)
