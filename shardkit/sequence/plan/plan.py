"""The plan: which sequences, in which packs, in which order, for every step of every epoch.

    draw a block  ->  pack it  ->  shuffle its packs  ->  take G packs a step

A function of lengths, mixture and settings. A place in it is a `Cursor`; going on from one plans one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, cycle, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.digest import fingerprint, mix64
from shardkit.errors import ConfigError
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan import order
from shardkit.sequence.plan.draw import Draw, Streams
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import Mixture
from shardkit.sequence.plan.order import Indices, as_indices, permutation
from shardkit.sequence.plan.settings import PlanSettings, option
from shardkit.sequence.plan.survey import Survey, SurveyBuilder

_KEPT_SURVEYS = 2
"""A survey holds some numbers a pack; a run of many epochs must not keep them all."""

Pack = tuple[int, ...]
"""Indices into the lengths, in draw order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cursor:
    """The place before a step."""

    epoch: int
    step: int
    block: int
    """Block of the epoch in which the step's first pack is."""
    pack: int
    """Place of that pack in its block."""
    draw: Draw
    """Before that block."""
    origin: Draw
    """Before the epoch's first block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One global batch."""

    epoch: int
    step: int
    packs: tuple[Pack, ...]
    """G packs; an empty one is filling."""
    after: Cursor


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    packs: tuple[Pack, ...]
    after: Draw
    last: bool
    """Whether the epoch ends with it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rest:
    """What another plan left of an epoch: a plan can begin there instead of at epoch 0."""

    epoch: int
    step: int
    """Steps of the epoch that were taken."""
    delivered: Indices
    """Sequences that were delivered in them."""


class Plan:
    """The steps of every epoch.

    Args:
        identity: what the lengths are of (dataset id, split); enters the digest.
        rest: begin with what another plan left of an epoch.

    Raises:
        ConfigError: where a sequence is above a limit, or the mixture does not fit the sources.
    """

    def __init__(
        self,
        lengths: Lengths,
        settings: PlanSettings,
        *,
        mixture: Mixture | None = None,
        identity: Mapping[str, Any],
        rest: Rest | None = None,
    ) -> None:
        self.lengths = lengths
        self.settings = settings
        self.mixture = mixture
        self.identity = dict(identity)
        self.rest = rest
        self.first_epoch = rest.epoch if rest else 0
        self._pack = PACKERS[settings.packer].pack
        self._sizes = np.stack([getattr(lengths, name) for name in settings.capacities], axis=1)
        self._capacities = tuple(settings.capacities.values())
        self._cost = lengths.cost
        self._check_limits()
        # Of an empty dataset no source is known, and there is nothing to mix.
        mixed = mixture if len(lengths) else None
        if mixed:
            mixed.check(lengths.sources)
        self._streams = Streams(
            lengths,
            mixed,
            seed=settings.seed,
            window=settings.window,
            first_pass=self.first_epoch,
            without=rest.delivered if rest else None,
        )
        if mixed:
            self._check_units(mixed)
        self._surveys: dict[int, Survey] = {}
        self._num_steps: dict[int, int] = {}
        self._origins = {self.first_epoch: self._streams.start()}

    @cached_property
    def digest(self) -> str:
        """32 hex digits: equal for plans that take the same steps."""
        return fingerprint(
            {
                "identity": self.identity,
                "settings": asdict(self.settings),
                "mixture": self.mixture.to_json() if self.mixture else None,
                "order": order.VERSION,
                "packer": PACKERS[self.settings.packer].version,
                "rest": [self.rest.epoch, self.rest.step, self.rest.delivered.tolist()] if self.rest else None,
            }
        )

    # ------------------------------------------------------------------ checks
    def _check_limits(self) -> None:
        for name, capacity in self.settings.capacities.items():
            longest = int(getattr(self.lengths, name).max(initial=0))
            if longest > capacity:
                shorter = ", or cut longer ones with `shardkit tokenize --max-tokens`" if name == "tokens" else ""
                raise ConfigError(
                    f"max_{name} is {capacity}, but the longest sequence has {longest} {name}",
                    hint=f"set {option(f'max_{name}')} to {longest} or more{shorter}",
                )

    def _check_units(self, mixture: Mixture) -> None:
        for name, units in self._streams.units.items():
            if not units:
                raise ConfigError(
                    f"the source {name!r} has nothing to count by {mixture.by}",
                    hint=f"mix by another unit, or give {name} the weight 0",
                )

    # ------------------------------------------------------------------ places
    def start(self, epoch: int) -> Cursor:
        """The place before the first step of `epoch`; for a mixture the epochs before are surveyed for it."""
        if epoch < self.first_epoch:
            raise ConfigError(
                f"this plan begins with epoch {self.first_epoch}, not with {epoch}",
                hint=f"begin with epoch {self.first_epoch} or later",
            )
        origin = self._origin(epoch)
        step = self.rest.step if self.rest and epoch == self.first_epoch else 0
        return Cursor(epoch=epoch, step=step, block=0, pack=0, draw=origin, origin=origin)

    def place(self, epoch: int, step: int) -> Cursor:
        """The place before `step` of `epoch`; surveys the epoch.

        Raises:
            IndexError: where the epoch has no such step.
        """
        start = self.start(epoch)
        if not start.step <= step < self.num_steps(epoch):
            raise IndexError(f"epoch {epoch} has steps {start.step} to {self.num_steps(epoch) - 1}, not {step}")
        survey = self.survey(epoch)
        number = (step - start.step) * self.settings.global_batch
        block = int(np.searchsorted(survey.first_packs, number, side="right")) - 1
        pack = number - int(survey.first_packs[block])
        return Cursor(epoch=epoch, step=step, block=block, pack=pack, draw=survey.draws[block], origin=start.origin)

    def remember(self, cursor: Cursor, num_steps: int | None = None) -> None:
        """Take from a cursor how its epoch began, and from whoever knows how many steps it has: neither needs a survey."""
        self._origins[cursor.epoch] = cursor.origin
        if num_steps is not None:
            self.remember_steps({cursor.epoch: num_steps})

    def remember_steps(self, num_steps: Mapping[int, int]) -> None:
        """Take the number of steps of some epochs from whoever counted them."""
        self._num_steps.update(num_steps)

    def _origin(self, epoch: int) -> Draw:
        if epoch not in self._origins and not self.mixture:
            return Draw(passes=(epoch,), offsets=(0,), amounts=(0,))
        known = max(known for known in self._origins if known <= epoch)
        for before in range(known, epoch):
            self._origins[before + 1] = self.survey(before).after
        return self._origins[epoch]

    # ------------------------------------------------------------------ blocks
    def block(self, epoch: int, number: int, draw: Draw, origin: Draw) -> Block:
        """The packs of block `number` of an epoch, in plan order.

        Args:
            draw: before this block.
            origin: before the epoch.
        """
        drawn = self._streams.draw(draw, self.settings.block, epoch=epoch, origin=origin)
        packs = self._pack(self._sizes[drawn.indices], self._capacities)
        places = permutation(mix64(self.settings.seed, epoch, number, "packs"), np.arange(len(packs), dtype=np.uint64))
        indices = drawn.indices.tolist()
        return Block(
            packs=tuple(tuple([indices[member] for member in packs[place]]) for place in places.tolist()),
            after=drawn.after,
            last=drawn.last,
        )

    def _blocks(self, cursor: Cursor) -> Iterator[tuple[int, Draw, Block]]:
        """(number, draw before it, block) from the cursor's block to the end of its epoch."""
        number, draw = cursor.block, cursor.draw
        while True:
            block = self.block(cursor.epoch, number, draw, cursor.origin)
            yield number, draw, block
            if block.last:
                return
            number, draw = number + 1, block.after

    # ------------------------------------------------------------------ steps
    def steps(self, cursor: Cursor) -> Iterator[Step]:
        """The global batches from `cursor` to the end of its epoch."""
        size = self.settings.global_batch
        # What comes after a step depends on whether another follows, so a step waits until that is sure.
        enough = 2 * size if self.settings.tail == "drop" else size + 1
        epoch, step = cursor.epoch, cursor.step
        packs: list[Pack] = []
        places: list[tuple[int, int, Draw]] = []
        """(block, pack, draw before the block) after each one of `packs`."""
        draw_after = cursor.draw
        for number, draw, block in self._blocks(cursor):
            first = cursor.pack if number == cursor.block else 0
            packs += block.packs[first:]
            places += [(number, place + 1, draw) for place in range(first, len(block.packs))]
            draw_after = block.after
            taken = 0
            while len(packs) - taken >= enough:
                in_block, in_pack, in_draw = places[taken + size - 1]
                after = Cursor(
                    epoch=epoch, step=step + 1, block=in_block, pack=in_pack, draw=in_draw, origin=cursor.origin
                )
                yield Step(epoch=epoch, step=step, packs=tuple(packs[taken : taken + size]), after=after)
                step += 1
                taken += size
            del packs[:taken], places[:taken]
        last = self._last(packs, cursor)
        if last:
            end = Cursor(epoch=epoch + 1, step=0, block=0, pack=0, draw=draw_after, origin=draw_after)
            yield Step(epoch=epoch, step=step, packs=last, after=end)

    def _last(self, packs: list[Pack], cursor: Cursor) -> tuple[Pack, ...]:
        """The last global batch of an epoch, from the packs that are left; none where there is none."""
        size = self.settings.global_batch
        missing = size - len(packs)
        if missing <= 0 or not packs:
            return tuple(packs[:size])
        if self.settings.tail == "drop":
            return ()
        if self.settings.tail == "pad":
            return (*packs, *[()] * missing)
        start = Cursor(epoch=cursor.epoch, step=0, block=0, pack=0, draw=cursor.origin, origin=cursor.origin)
        again = chain.from_iterable(block.packs for _, _, block in self._blocks(start))
        return (*packs, *islice(cycle(again), missing))

    def knows_steps(self, epoch: int) -> bool:
        """Whether `num_steps` needs no survey."""
        return epoch in self._num_steps or epoch in self._surveys

    def num_steps(self, epoch: int) -> int:
        """Steps of an epoch, exactly; surveys it where they are not known. With a rest, steps taken before count."""
        if epoch not in self._num_steps:
            packs, size = self.survey(epoch).num_packs, self.settings.global_batch
            steps = packs // size if self.settings.tail == "drop" else -(-packs // size)
            self._num_steps[epoch] = self.start(epoch).step + steps
        return self._num_steps[epoch]

    def global_batch(self, epoch: int, step: int) -> tuple[Pack, ...]:
        """The packs of one step, over all ranks."""
        return next(self.steps(self.place(epoch, step))).packs

    def delivered(self, cursor: Cursor) -> Indices:
        """The sequences that another plan must leave out to go on from `cursor` without repeating or losing one.

        These are the ones delivered in the pass that their source is in; of a source drawn several times over, the
        ones drawn more often than others.
        """
        self.remember(cursor)
        times = self._streams.times_drawn(cursor.origin)
        for step in self.steps(self.start(cursor.epoch)):
            if step.step == cursor.step:
                break
            np.add.at(times, _members(step.packs), 1)
        return self._streams.ahead(times)

    # ------------------------------------------------------------------ sums
    def denominators(self, packs: Sequence[Pack]) -> npt.NDArray[np.int64]:
        """[number of objectives] target tokens in `packs`, by the objective's byte."""
        sums: npt.NDArray[np.int64] = self.lengths.supervised[:, _members(packs)].sum(axis=1)
        return sums

    def costs(self, packs: Sequence[Pack]) -> list[int]:
        """The cost of each pack; see `Lengths.cost`."""
        return [int(self._cost[list(pack)].sum()) for pack in packs]

    def survey(self, epoch: int) -> Survey:
        """Plan a whole epoch and say what it is; the last few are remembered."""
        if epoch not in self._surveys:
            builder = SurveyBuilder(self.lengths)
            for _, draw, block in self._blocks(self.start(epoch)):
                builder.add(draw, block.packs, block.after)
            self._surveys[epoch] = builder.finish()
            while len(self._surveys) > _KEPT_SURVEYS:
                del self._surveys[next(iter(self._surveys))]
        return self._surveys[epoch]

    def fill(self, epoch: int) -> float:
        """The least number of packs that the limits allow, over the number of packs; 1.0 for an empty epoch."""
        survey = self.survey(epoch)
        least = max(-(-survey.sums[name] // limit) for name, limit in self.settings.capacities.items())
        return least / survey.num_packs if survey.num_packs else 1.0


def _members(packs: Sequence[Pack]) -> Indices:
    return as_indices([index for pack in packs for index in pack])
