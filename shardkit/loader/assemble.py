"""Steps of a plan to host batches: read the sequences, decode their pictures into place, in threads, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.loader.batch import BatchInfo, Buffers, HostBatch, lay_out
from shardkit.loader.choices import Rank
from shardkit.loader.jpegs import encode
from shardkit.loader.metrics import Timing, figures
from shardkit.loader.pictures import Jpeg
from shardkit.loader.quarantine import mask, unreadable, with_entry
from shardkit.loader.reader import Reader
from shardkit.loader.rows import Loaded
from shardkit.loader.threads import executor
from shardkit.media.reasons import BadMedia
from shardkit.sequence.part import Part, part_of
from shardkit.sequence.plan import Plan, Step, shares
from shardkit.sequence.plan.stored_order import StoredOrder
from shardkit.sequence.sequence import Slot
from shardkit.store.dataset import Dataset

if TYPE_CHECKING:
    from shardkit.loader.foreign.reader import ForeignReader


AT_ONCE = 8
"""Pictures that a thread gets at a time: to hand over each alone costs a twentieth of what decoding a small one does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Picture:
    """A slot, and where its pixels go."""

    sequence: int
    """Place of its sequence in the batch."""
    loaded: Loaded
    slot: Slot
    place: npt.NDArray[np.uint8]
    """[H, W, 3]"""


Outcome = Jpeg | None | BadMedia
"""What became of a picture: left to the device; in its place; or why it cannot be decoded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Begun:
    """A batch whose pictures are on their way."""

    step: Step
    sequences: list[Loaded]
    rows: list[tuple[int, int]]
    buffers: Buffers
    timing: Timing
    pictures: list[_Picture]
    outcomes: list[Future[list[Outcome]]]
    """Of runs of `pictures`, in order."""

    def cancel(self) -> None:
        """Give up the pictures that no thread has begun with."""
        for some in self.outcomes:
            some.cancel()


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
        self._threads = threads
        self._begins = executor(min(1, threads), "begin")
        """One thread, because `sequence` of a reader is for one; not the consumer's, whose steps it would make longer."""
        self._decodes = executor(threads, "decode")

    def batches(self, steps: Iterable[Step]) -> Iterator[HostBatch]:
        """The batches of `steps`, in their order.

        An error is raised in the place of the batch it belongs to, when those before it were handed out.
        """
        pending: deque[Future[_Begun]] = deque()
        try:
            for step in steps:
                previous = pending[-1] if pending else None
                pending.append(self._begins.submit(self._begin, step, previous))
                if len(pending) > self._ahead:
                    yield self._next(pending)
            while pending:
                yield self._next(pending)
        finally:
            for begun in pending:
                if not begun.cancel():
                    # Not waited for: it may be fetching a shard.
                    begun.add_done_callback(_cancel)

    def close(self, *, wait: bool = True) -> None:
        """End the threads.

        Args:
            wait: for what they are doing: it needs the reader, and may be the fetch of a shard.
        """
        for threads in (self._begins, self._decodes):
            threads.shutdown(wait=wait, cancel_futures=True)

    def _next(self, pending: deque[Future[_Begun]]) -> HostBatch:
        batch = self._finish(pending[0].result())
        pending.popleft()  # only now: where this failed or was interrupted, its pictures are given up with the others
        return batch

    def _begin(self, step: Step, previous: Future[_Begun] | None) -> _Begun:
        if previous is not None and previous.exception() is not None:
            raise CancelledError  # nobody will ask for it, and what is damaged is not fetched again
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
        slots = [
            (number, loaded, slot)
            for number, loaded in enumerate(sequences)
            for slot in sorted(loaded.sequence.slots, key=lambda slot: slot.start)
        ]
        pictures = [
            _Picture(sequence=number, loaded=loaded, slot=slot, place=place)
            for (number, loaded, slot), place in zip(slots, buffers.places, strict=True)
        ]
        # Few pictures are shared evenly, so that no thread idles.
        size = max(1, min(AT_ONCE, -(-len(pictures) // max(1, self._threads))))
        return _Begun(
            step=step,
            sequences=sequences,
            rows=rows,
            buffers=buffers,
            timing=timing,
            pictures=pictures,
            outcomes=[
                self._decodes.submit(self._decode, pictures[start : start + size], step.epoch, timing)
                for start in range(0, len(pictures), size)
            ],
        )

    def _decode(self, pictures: list[_Picture], epoch: int, timing: Timing) -> list[Outcome]:
        """Fill the places of a run of pictures; what became of each."""
        outcomes: list[Outcome] = []
        seed = self._plan.settings.seed
        for picture in pictures:
            began = time.perf_counter()
            loaded, slot, place = picture.loaded, picture.slot, picture.place
            chance = mix64(seed, epoch, loaded.example_id, slot.image) if self._views else None
            try:
                size, left = self._reader.picture(loaded, slot, place, chance)
            except BadMedia as bad:
                # What is masked is a part of the bytes that are compared.
                place[...] = 0
                outcomes.append(bad)
            else:
                timing.decoded.append((size, time.perf_counter() - began))
                outcomes.append(left)
        return outcomes

    def _sequence(self, shard: int, row: int, member: int) -> Loaded:
        """A sequence, or the part of it that a pack has."""
        loaded = self._reader.sequence(shard, row)
        if isinstance(member, Part):
            return replace(loaded, sequence=part_of(loaded.sequence, member))
        return loaded

    def _finish(self, begun: _Begun) -> HostBatch:
        outcomes = [outcome for some in begun.outcomes for outcome in some.result()]
        meta, info = begun.buffers.meta, self._info(begun)
        for picture, outcome in zip(begun.pictures, outcomes, strict=True):
            if isinstance(outcome, BadMedia):
                if self._on_bad == "raise":
                    raise unreadable(picture.slot.image, self._reader.place(picture.loaded), outcome) from outcome
                meta = mask(meta, begun.buffers.sizes, picture.sequence)
                info = with_entry(info, picture.sequence, picture.slot.image, outcome)
        host = HostBatch(meta=meta, pixels=begun.buffers.pixels, info=info)
        jpegs = [outcome if isinstance(outcome, Jpeg) else None for outcome in outcomes]
        if not any(jpegs):
            return host
        wheres = [self._reader.place(picture.loaded) for picture in begun.pictures]
        return encode(host, begun.buffers.places, jpegs, wheres, on_bad=self._on_bad, decoder=self._decoder)

    def _info(self, begun: _Begun) -> BatchInfo:
        """What the host knows of a batch whose pictures are all there."""
        step, rank = begun.step, self._rank
        return BatchInfo(
            batch_id=f"{self._plan.digest}/{step.epoch}/{step.step}/{rank.rank}of{rank.world_size}",
            epoch=step.epoch,
            step=step.step,
            example_ids=tuple(loaded.example_id for loaded in begun.sequences),
            sources=tuple(loaded.source for loaded in begun.sequences),
            rows=tuple(begun.rows),
            quarantined=(),
            after=step.after,
            global_sequences=sum(len(pack) for pack in step.packs),
            dataset="" if self._dataset is None else self._dataset.where,
            dataset_id="" if self._dataset is None else self._dataset.id,
            figures=figures(
                begun.sequences,
                begun.buffers.sizes.num_packs * self._plan.settings.max_tokens,
                begun.timing,
            ),
            metadata=tuple(map(self._reader.metadata, begun.sequences)) if self._metadata else None,
        )


def _cancel(begun: Future[_Begun]) -> None:
    """Give up the pictures of a batch that nobody waits for any more."""
    if begun.exception() is None:
        begun.result().cancel()
