"""The plan: which sequences, in which packs, in which order, for every step of every epoch.

    draw a block  ->  pack it  ->  shuffle its packs  ->  take G packs a step

A function of lengths, mixture and settings. A place in it is a `Cursor`; going on from one plans one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, cycle, islice, takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.digest import fingerprint, mix64
from shardkit.errors import ConfigError
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan import draw as drawing
from shardkit.sequence.plan import order
from shardkit.sequence.plan.draw import Draw, Drawn, Streams
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.members import Members, Pack, Packed
from shardkit.sequence.plan.mixer import permutation
from shardkit.sequence.plan.mixture import Mixture, check_amounts
from shardkit.sequence.plan.order import Indices, as_indices
from shardkit.sequence.plan.rest import Rest, left_of
from shardkit.sequence.plan.settings import PlanSettings
from shardkit.sequence.plan.subset import subset_rows
from shardkit.sequence.plan.survey import Survey, SurveyBuilder

_KEPT_SURVEYS = 2
"""A survey holds some numbers a pack; a run of many epochs must not keep them all."""


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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Block:
    packs: tuple[Pack, ...]
    after: Draw
    last: bool
    """Whether the epoch ends with it."""
    places: Indices
    """Of each member of the packs, in order, its place in the draw."""
    drawn: Indices
    """The sequences in draw order."""


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
        self.mixture = mixture and mixture.weighed(lengths)
        self.identity = dict(identity)
        self.rest = rest
        self.first_epoch = rest.epoch if rest else 0
        self._members = Members(lengths, settings, rest)
        # Of an empty dataset no source is known, and there is nothing to mix.
        self._mixed = self.mixture if len(lengths) else None
        if self._mixed:
            self._mixed.check(lengths.sources)
            check_amounts(self._mixed, lengths)
        self._streams = Streams(
            lengths,
            self._mixed,
            seed=settings.seed,
            window=settings.window,
            rows=subset_rows(lengths, self._mixed, seed=settings.seed, window=settings.window),
            rest=rest,
        )
        self._surveys: dict[int, Survey] = {}
        self._num_steps: dict[int, int] = {}
        self._origins = {self.first_epoch: self._streams.origin()}

    @cached_property
    def digest(self) -> str:
        """32 hex digits: equal for plans that take the same steps."""
        return fingerprint(
            {
                "identity": self.identity,
                "settings": asdict(self.settings),
                "mixture": self.mixture.to_json() if self.mixture else None,
                "order": order.VERSION,
                "draw": drawing.VERSION if self.mixture else None,
                "packer": PACKERS[self.settings.packer].version,
                "rest": self.rest.to_json() if self.rest else None,
            }
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
        draw = self._streams.start() if epoch == self.first_epoch else origin
        return Cursor(epoch=epoch, step=self._first_step(epoch), block=0, pack=0, draw=draw, origin=origin)

    def _first_step(self, epoch: int) -> int:
        """Steps of an epoch that were taken under another plan."""
        return self.rest.step if self.rest and epoch == self.first_epoch else 0

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

    def passes(self, draw: Draw) -> dict[str, int]:
        """How often each source was drawn whole before `draw`; not of sources that are not drawn."""
        return self._streams.source_passes(draw)

    # ------------------------------------------------------------------ blocks
    def block(self, epoch: int, number: int, draw: Draw, origin: Draw) -> Block:
        """The packs of block `number` of an epoch, in plan order.

        Args:
            draw: before this block.
            origin: before the epoch.
        """
        first, size = self._first_step(epoch), self.settings.global_batch
        step = draw.steps + first + draw.packs // size
        drawn = self._streams.draw(draw, self.settings.block, origin=origin, step=step)
        packed = self._members.pack(drawn)
        change = self._streams.next_change(draw, step)
        if change is not None:
            left = (change - draw.steps - first) * size - draw.packs
            if len(packed.packs) > left:
                packed = self._shortened(drawn, left, draw, origin, step)
        numbers = np.arange(len(packed.packs), dtype=np.uint64)
        packs, places = self._members.named(
            packed, permutation(mix64(self.settings.seed, epoch, number, "packs"), numbers)
        )
        drawn = packed.drawn
        return Block(
            packs=packs,
            after=self._counted(drawn, len(packs), draw, epoch),
            last=drawn.last,
            places=places,
            drawn=drawn.indices,
        )

    def _shortened(self, drawn: Drawn, left: int, draw: Draw, origin: Draw, step: int) -> Packed:
        """As many sequences as give `left` packs, so that the next block begins with the step that is due to change."""
        few, many = 1, len(drawn.indices)
        while many - few > 1:
            middle = (few + many) // 2
            part = Drawn(
                indices=drawn.indices[:middle], passes=drawn.passes[:middle], after=drawn.after, last=drawn.last
            )
            if len(self._members.pack(part).packs) <= left:
                few = middle
            else:
                many = middle
        return self._members.pack(self._streams.draw(draw, few, origin=origin, step=step))

    def _counted(self, drawn: Drawn, num_packs: int, draw: Draw, epoch: int) -> Draw:
        """The draw after a block, with the packs of the epoch or, where it ends, the steps of the run."""
        if self._mixed is None:
            return drawn.after
        packs = draw.packs + num_packs
        if not drawn.last:
            return replace(drawn.after, packs=packs)
        return replace(drawn.after, packs=0, steps=draw.steps + self._first_step(epoch) + self._steps_of(packs))

    def _steps_of(self, packs: int) -> int:
        size = self.settings.global_batch
        return packs // size if self.settings.tail == "drop" else -(-packs // size)

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
        begun = self._streams.start() if cursor.epoch == self.first_epoch else cursor.origin
        start = Cursor(epoch=cursor.epoch, step=0, block=0, pack=0, draw=begun, origin=cursor.origin)
        again = chain.from_iterable(block.packs for _, _, block in self._blocks(start))
        return (*packs, *islice(cycle(again), missing))

    def knows_steps(self, epoch: int) -> bool:
        """Whether `num_steps` needs no survey."""
        return epoch in self._num_steps or epoch in self._surveys

    def num_steps(self, epoch: int) -> int:
        """Steps of an epoch, exactly; surveys it where they are not known. With a rest, steps taken before count."""
        if epoch not in self._num_steps:
            self._num_steps[epoch] = self._first_step(epoch) + self._steps_of(self.survey(epoch).num_packs)
        return self._num_steps[epoch]

    def global_batch(self, epoch: int, step: int) -> tuple[Pack, ...]:
        """The packs of one step, over all ranks."""
        return next(self.steps(self.place(epoch, step))).packs

    def rest_at(self, cursor: Cursor, *, of_run: bool = False) -> Rest:
        """What another plan must take over to go on from `cursor` without repeating or losing a sequence.

        Args:
            of_run: count the steps and tokens of the epochs before too, where nothing is mixed and counts them anyway.
        """
        self.remember(cursor)
        start = self.start(cursor.epoch)
        steps = takewhile(lambda step: step.step != cursor.step, self.steps(start))
        if of_run and not self._mixed:
            run_tokens, run_steps = self._of_run(cursor)
        else:
            run_tokens, run_steps = cursor.origin.tokens, cursor.origin.steps
        return left_of(
            self.lengths,
            (member for step in steps for pack in step.packs for member in pack),
            epoch=cursor.epoch,
            step=cursor.step,
            due=self._streams.due(cursor.origin),
            began=self._streams.source_passes(cursor.origin),
            before=self.rest if cursor.epoch == self.first_epoch else None,
            run_tokens=run_tokens,
            run_steps=run_steps,
        )

    def _of_run(self, cursor: Cursor) -> tuple[int, int]:
        """Tokens and steps of the run before the epoch of `cursor`."""
        tokens, steps = (self.rest.run_tokens, self.rest.run_steps) if self.rest else (0, 0)
        for epoch in range(self.first_epoch, cursor.epoch):
            tokens += self.survey(epoch).sums["tokens"]
            if self.rest and epoch == self.first_epoch:
                tokens += self.rest.tokens
            steps += self.num_steps(epoch)
        return tokens, steps

    # ------------------------------------------------------------------ sums
    def targets(self, members: Sequence[int]) -> npt.NDArray[np.int64]:
        """[number of objectives, n] target tokens of members of packs, by the objective's byte."""
        return self._members.targets(members)

    def denominators(self, packs: Sequence[Pack]) -> npt.NDArray[np.int64]:
        """[number of objectives] target tokens in `packs`, by the objective's byte."""
        return self._members.denominators(packs)

    def costs(self, packs: Sequence[Pack]) -> list[int]:
        """The cost of each pack; see `Lengths.cost`."""
        return self._members.costs(packs)

    def survey(self, epoch: int) -> Survey:
        """Plan a whole epoch and say what it is; the last few are remembered."""
        if epoch not in self._surveys:
            builder = SurveyBuilder(self.lengths, self._streams, self._mixed)
            for _, draw, block in self._blocks(self.start(epoch)):
                members = [member for pack in block.packs for member in pack]
                amounts, targets = self._members.amounts(members), self._members.targets(members)
                builder.add(draw, block, as_indices(members), amounts, targets)
            self._surveys[epoch] = builder.finish()
            while len(self._surveys) > _KEPT_SURVEYS:
                del self._surveys[next(iter(self._surveys))]
        return self._surveys[epoch]

    def least_packs(self, epoch: int) -> tuple[int, str]:
        """The least number of packs that the limits allow, and the limit that says so: the sum over its capacity."""
        sums = self.survey(epoch).sums
        bounds = {name: -(-sums[name] // limit) for name, limit in self.settings.capacities.items()}
        return max(bounds.values()), max(bounds, key=bounds.__getitem__)

    def fill(self, epoch: int) -> float:
        """The least number of packs over the number of packs; 1.0 for an empty epoch."""
        packs = self.survey(epoch).num_packs
        return self.least_packs(epoch)[0] / packs if packs else 1.0
