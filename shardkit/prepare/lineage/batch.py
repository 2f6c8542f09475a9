"""From a batch id to its sequences: the plan is made again from what was saved of it, and asked for that step.

<plan digest>/<epoch>/<step>/<rank>of<world>
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.lineage.index import Place
from shardkit.sequence.plan import Cursor, Draw, Lengths, Mixture, Plan, PlanSettings, Step, check_world
from shardkit.sequence.plan.after import held_by, plan_after, state_digest
from shardkit.sequence.plan.order import Indices
from shardkit.sequence.plan.shares import shares
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.store.dataset import Dataset
from shardkit.store.plans import read_blocks, read_plan

_FORM = re.compile(r"([0-9a-f]{32})/([0-9]{1,18})/([0-9]{1,18})/([0-9]{1,18})of([0-9]{1,18})")
RUN_FILE = "run.json"
"""In the folder of a run: settings, facts of the dataset; those of its first stage."""
STAGES_FILE = "stages.jsonl"
"""There too: the same of each stage, a line each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchId:
    plan: str
    """Its digest."""
    epoch: int
    step: int
    rank: int
    world_size: int

    @classmethod
    def parse(cls, given: str) -> BatchId | None:
        """None where it has not the form of one."""
        match = _FORM.fullmatch(given)
        if match is None:
            return None
        epoch, step, rank, world = map(int, match.groups()[1:])
        return cls(plan=match[1], epoch=epoch, step=step, rank=rank, world_size=world)


@dataclass(frozen=True, kw_only=True, slots=True)
class Packs:
    """The packs of one rank at one step, in the order of the batch."""

    numbers: tuple[int, ...]
    """Place of each in the global batch."""
    sequences: tuple[tuple[Place, ...], ...]
    """Places of its sequences; none for a pack that only fills up."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Made:
    """A plan, and the dataset in which its sequences are looked up."""

    plan: Plan
    lengths: Lengths
    """Of the dataset here."""
    rows: Indices | None
    """[n] where the sequences of the plan stand in `lengths`, where it was made before an append; None for all."""

    def place(self, at: int) -> Place:
        """Of a sequence of the plan."""
        at = int(at if self.rows is None else self.rows[at])
        return int(self.lengths.shard[at]), int(self.lengths.row[at])


class Batches:
    """Batches of one dataset; a plan is made once.

    Args:
        run: the folder of a training run, where the plan was not saved beside the dataset.
        state: a file with the state of a loader, for its plan and those that it went on from.
    """

    def __init__(self, dataset: Dataset, run: Path | None, state: Path | None = None) -> None:
        self._dataset = dataset
        self._run = run
        self._state = state
        self._plans: dict[str, _Made] = {}
        self._saved: set[str] = set()
        """Digests of the plans whose blocks are saved."""
        self._blocks: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def packs(self, batch: BatchId) -> Packs:
        """What was in a batch.

        Raises:
            ConfigError: where its plan is not at hand, or it has no such step or rank.
        """
        made = self._plan(batch.plan)
        plan = made.plan
        check_world(plan.settings.global_batch, batch.world_size)
        if batch.rank >= batch.world_size:
            raise ConfigError(f"rank {batch.rank} is not one of {batch.world_size} ranks", hint="check the batch id")
        step = self._step(plan, batch)
        numbers = shares(plan.costs(step.packs), batch.world_size)[batch.rank]
        return Packs(
            numbers=numbers,
            sequences=tuple(tuple(map(made.place, step.packs[number])) for number in numbers),
        )

    def _step(self, plan: Plan, batch: BatchId) -> Step:
        cursor = self._saved_place(plan, batch) if plan.digest in self._saved else None
        try:
            cursor = cursor or plan.place(batch.epoch, batch.step)
        except IndexError as error:
            raise ConfigError(f"the plan has no such batch: {error}", hint="check the batch id") from None
        return next(plan.steps(cursor))

    def _saved_place(self, plan: Plan, batch: BatchId) -> Cursor | None:
        """The place of a step from saved blocks, without planning those before it; None where they do not hold it."""
        wanted = (plan.digest, batch.epoch)
        if wanted not in self._blocks:
            self._blocks[wanted] = read_blocks(self._dataset.path, *wanted)
        blocks = self._blocks[wanted]
        if not blocks:
            return None
        number = batch.step * plan.settings.global_batch
        at = int(np.searchsorted([block["first_pack"] for block in blocks], number, side="right")) - 1
        pack = number - blocks[at]["first_pack"]
        # The last step of an epoch may be a filled one: only a plan of the epoch knows whether there is one.
        whole = blocks[-1]["first_pack"] + blocks[-1]["num_packs"]
        if number + plan.settings.global_batch > whole:
            return None
        return Cursor(
            epoch=batch.epoch,
            step=batch.step,
            block=at,
            pack=pack,
            draw=Draw.of(blocks[at]["draw"]),
            origin=Draw.of(blocks[0]["draw"]),
        )

    # ------------------------------------------------------------------ plans
    def _plan(self, digest: str) -> _Made:
        if not self._dataset.has_table("lengths"):
            raise ConfigError(
                f"a dataset of stage {self._dataset.stage} holds no sequences, so no batch is of it",
                where=str(self._dataset.path),
                hint="name the tokenized dataset that the run read",
            )
        if digest not in self._plans:
            about = read_plan(self._dataset.path, digest)
            if about is not None:
                about = {**about, "from": "the saved plan"}
                self._saved.add(digest)
            elif self._state is not None:
                self._plans[digest] = _of_state(self._state, self._dataset, digest)
                return self._plans[digest]
            elif self._run is not None:
                self._plans[digest] = self._of_run(self._run, digest)
                return self._plans[digest]
            else:
                raise ConfigError(
                    f"the plan {digest} is not saved beside the dataset",
                    where=str(self._dataset.path),
                    hint="save it with `shardkit plan DATASET --save` and the settings of the run, name the run's folder "
                    "with --run, or the state of its loader with --state",
                )
            plan = self._made(about, digest)
            self._plans[digest] = _Made(plan=plan, lengths=plan.lengths, rows=None)
        return self._plans[digest]

    def _of_run(self, folder: Path, digest: str) -> _Made:
        """The plan of the stage of a run that the batch is of.

        Raises:
            ConfigError: where it is of none; with what the last one gives.
        """
        *others, last = _stages_of(folder, self._dataset)
        for about in others:
            try:
                plan = self._made(about, digest)
            except ConfigError:
                continue
            return _Made(plan=plan, lengths=plan.lengths, rows=None)
        plan = self._made(last, digest)
        return _Made(plan=plan, lengths=plan.lengths, rows=None)

    def _made(self, about: Mapping[str, Any], digest: str) -> Plan:
        split = choose_split(self._dataset, about["of"]["split"])
        plan = Plan(
            read_lengths(self._dataset, split),
            PlanSettings(**about["settings"]),
            mixture=Mixture.of(about["mixture"]) if about["mixture"] else None,
            identity=identity(self._dataset, split),
        )
        if plan.digest != digest:
            raise ConfigError(
                f"the batch is of plan {digest}, {about['from']} gives {plan.digest} with this dataset",
                where=str(self._dataset.path),
                hint="name the dataset and the run that the batch is of; where a run was resumed with other settings, name "
                "the state of its loader with --state",
            )
        return plan


def _of_state(file: Path, dataset: Dataset, digest: str) -> _Made:
    """The plan of a state of a loader, or one of those that it went on from.

    Raises:
        SourceError: where no state is there, or it is damaged.
        ConfigError: where it is of another dataset, or of other plans.
    """
    try:
        state = orjson.loads(file.read_bytes())
        if state_digest(state) != state["digest"]:
            raise ValueError("it was changed since it was saved")
        bounds = [*(link["bound"] for link in state["rests"]), state["bound"]]
        split = choose_split(dataset, state["bound"]["split"])
        if state["bound"]["dataset"] != dataset.id:
            raise ConfigError(
                f"the state is of dataset {state['bound']['dataset']}, this is {dataset.id}",
                where=str(file),
                hint="name the dataset that the state was saved for",
            )
        lengths = read_lengths(dataset, split)
        shards = [*(link["shards"] for link in state["rests"]), None]
        for number in reversed(range(len(bounds))):
            saved = bounds[number]
            plan = plan_after(
                state["rests"][:number],
                lengths,
                PlanSettings(**{name: saved[name] for name in PlanSettings.__slots__}),
                Mixture.of(saved["mixture"]) if saved["mixture"] else None,
                {"dataset": saved["dataset"], "split": saved["split"]},
                shards=shards[number],
            )
            if plan.digest == digest:
                return _Made(plan=plan, lengths=lengths, rows=held_by(shards[number], lengths)[1])
    except OSError as error:
        raise SourceError(
            f"no state can be read here ({error.strerror})",
            where=str(file),
            hint="write `json.dumps(loader.state_dict())` to a file and name it with --state",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise SourceError(
            f"this is no state of a loader ({error!r})",
            where=str(file),
            hint="write `json.dumps(loader.state_dict())` to a file and name it with --state",
        ) from error
    raise ConfigError(
        f"neither the plan of the state nor one that it went on from is {digest}",
        where=str(file),
        hint="name the state of the run that the batch is of, saved after it",
    )


def _stages_of(folder: Path, dataset: Dataset) -> list[dict[str, Any]]:
    """What a run's folder says of the plan of each of its stages, in the form of saved ones; those of this dataset, or all.

    Raises:
        SourceError: where no run is there, or its files are damaged.
    """
    file, of_stages = folder / RUN_FILE, folder / STAGES_FILE
    try:
        run = orjson.loads(file.read_bytes())
        lines = of_stages.read_bytes().splitlines() if of_stages.exists() else []
        stages = [orjson.loads(line) for line in lines] or [run]
        stages = [stage for stage in stages if stage["facts"].get("dataset_id") == dataset.id] or stages[-1:]
        return [
            {
                "from": f"the run {folder}",
                "of": {"split": choose_split(dataset, stage["facts"]["split"])},
                "settings": {
                    name: stage["settings"][name] for name in PlanSettings.__slots__ if name in stage["settings"]
                },
                "mixture": stage["settings"].get("mixture"),
            }
            for stage in stages
        ]
    except OSError as error:
        raise SourceError(
            f"no run is here ({error.strerror})",
            where=str(folder),
            hint="name the folder that `shardkit train --out` wrote",
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"the run's settings are damaged ({error})",
            where=str(file),
            hint="save the plan with `shardkit plan --save` instead",
        ) from error
