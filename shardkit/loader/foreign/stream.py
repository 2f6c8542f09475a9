"""Packed batches of foreign files: the plan, the packs and the pictures of StreamingLoader, without a dataset.

source = WebDatasetTars(["pairs-000.tar", "pairs-001.tar"])
loader = ForeignLoader(source, tokenizer="tokenizer.json", recipe="vlm", max_tokens=4096, measured="lengths.npz")
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import jpegs, pictures
from shardkit.loader import state as states
from shardkit.loader.assemble import Assembler
from shardkit.loader.batch import VERSION, HostBatch
from shardkit.loader.choices import check_choice, choose_rank
from shardkit.loader.device import Batch
from shardkit.loader.foreign.measure import Building, measure
from shardkit.loader.foreign.reader import ForeignReader
from shardkit.loader.foreign.sample import Source
from shardkit.loader.metrics import Meter, Metrics
from shardkit.loader.state import Promise, State
from shardkit.loader.steps import last_epoch, steps_until
from shardkit.loader.stream import AHEAD, MAX_THREADS, ON_BAD, num_cores
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan import Cursor, Plan, PlanSettings, Step
from shardkit.sequence.plan import order as ordering
from shardkit.sequence.plan.after import read_cursor
from shardkit.sequence.recipes import RECIPES, bind, configure, names_of
from shardkit.text.tokenizer import Tokenizer

logger = logging.getLogger("shardkit.loader")

WEAKER = "files are known by name and size, not by digest, so nobody can say that they are still the same"
"""Why a state promises less than that of a dataset; it stands in the state."""


class ForeignLoader(IterableDataset[Any]):
    """Packed batches of a source that was never ingested.

    Making one reads every sample once, for the lengths that the plan is made from. What gives no sequence is left out and
    counted in `excluded`. In the workers of a `torch.utils.data.DataLoader(loader, batch_size=None)` it gives `HostBatch`es;
    each iteration there begins at the loader's place.

    Args:
        source: WebDatasetTars, HFDataset, or another Source.
        tokenizer: file or folder.
        recipe: a name of RECIPES, with `settings` in place of its defaults.
        max_tokens: of a sequence and of a pack.
        overlong: window | truncate | drop | error: what becomes of a longer sample.
        measured: file in which the lengths are kept for the next start; None measures each time.
        seed, max_images, max_patches, global_batch, packer, tail, rank, world_size, epochs, on_bad, decoder, device: as
            for StreamingLoader.

    Raises:
        ConfigError: where settings, tokenizer and source do not fit.
        SourceError: where a sample cannot be read.
    """

    def __init__(
        self,
        source: Source,
        *,
        tokenizer: str | os.PathLike[str],
        recipe: str = "vlm",
        settings: Mapping[str, Any] | None = None,
        max_tokens: int,
        overlong: str = "window",
        measured: str | os.PathLike[str] | None = None,
        seed: int = 0,
        max_images: int | None = None,
        max_patches: int | None = None,
        global_batch: int = 1,
        packer: str = "best-fit",
        tail: str = "drop",
        rank: int | None = None,
        world_size: int | None = None,
        epochs: int | None = None,
        on_bad: str = "raise",
        decoder: str = "pillow",
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        check_choice("on_bad", on_bad, ON_BAD)
        check_choice("decoder", decoder, pictures.DECODERS)
        check_choice("recipe", recipe, tuple(RECIPES))
        check_choice("overlong", overlong, ("window", "truncate", "drop", "error"))
        self._source = source
        self._building = _building(Path(tokenizer), recipe, settings or {}, max_tokens, overlong)
        self._settings = PlanSettings(
            max_tokens=max_tokens,
            max_images=max_images,
            max_patches=max_patches,
            global_batch=global_batch,
            packer=packer,
            seed=seed,
            tail=tail,
        )
        self._rank = choose_rank(rank, world_size, global_batch)
        self._epochs = epochs
        self._on_bad = on_bad
        self._decoder = decoder
        self._device = torch.device(device)
        self._measured = measure(source, self._building, file=None if measured is None else Path(measured))
        if self._measured.excluded:
            logger.warning("%s: samples left out: %s", source.name, self._measured.excluded)
        self._bound: State = {
            "source": source.identity,
            **{f"tokenize.{name}": value for name, value in self._building.identity.items()},
            **asdict(self._settings),
            "order_version": ordering.VERSION,
            "packer_version": PACKERS[packer].version,
            "batch_version": VERSION,
            "decoder": jpegs.identity(decoder, self._device),
        }
        self._plan = Plan(self._measured.lengths, self._settings, identity=self._bound)
        self._cursor = self._plan.start(0)
        self._meter = Meter()
        self._placed = 0

    @property
    def excluded(self) -> dict[str, int]:
        """Samples that gave no sequence, by reason."""
        return dict(self._measured.excluded)

    def __len__(self) -> int:
        """Batches of the epoch the loader is in, or of all `epochs` where given; the same on every rank."""
        if self._epochs is None:
            return self._plan.num_steps(self._cursor.epoch)
        return sum(self._plan.num_steps(epoch) for epoch in range(self._epochs))

    def __iter__(self) -> Iterator[Any]:
        return self._own() if get_worker_info() is None else self._hosted()

    def metrics(self, *, restart: bool = False) -> Metrics:
        """What was delivered and what it cost; see StreamingLoader.metrics."""
        found = self._meter.metrics()
        if restart:
            self._meter.start()
        return found

    # ------------------------------------------------------------------ state
    def state_dict(self) -> State:
        """The place after the last batch that this process handed out; it says that it promises less, and why."""
        return self._state(self._cursor)

    def state_after(self, batch: Batch | HostBatch) -> State:
        """The place after `batch`, in every hosting.

        Raises:
            ConfigError: where the batch is none of this loader.
        """
        info = batch.info
        if info is None or not info.batch_id.startswith(f"{self._plan.digest}/"):
            raise ConfigError("the batch is none of this loader", hint="give a batch that this loader handed out")
        return self._state(info.after)

    def load_state_dict(self, state: Mapping[str, Any], *, require: str = "replayable") -> Promise:
        """Go on from a saved place: the same order, as far as the files are still the same.

        Args:
            require: only "equivalent" is kept here; the default refuses, so that nobody takes less without saying so.

        Raises:
            ResumeError: where more is required, or the state is of other files or settings.
        """
        check_choice("require", require, tuple(states.REQUIRE))
        if require != "equivalent":
            raise ResumeError(
                f"{Promise.STATISTICALLY_EQUIVALENT.value} is all that is promised here: {WEAKER}",
                where="loader state",
                hint='accept that with require="equivalent", or ingest the files and stream the dataset',
            )
        if state.get("version") != states.VERSION or "bound" not in state or "plan" not in state:
            raise ResumeError(
                "the state has not the form of one", where="loader state", hint="give the state as it was saved"
            )
        found = states.differences(state["bound"], self._bound)
        if found or state["plan"] != self._plan.digest:
            raise ResumeError(
                f"the state was saved for another stream ({'; '.join(map(str, found)) or 'another plan'})",
                where="loader state",
                hint="load it into a loader of what it was saved with, or begin anew without it",
            )
        self._cursor = read_cursor(self._plan, state)
        self._placed += 1
        logger.info("%s: %s", Promise.STATISTICALLY_EQUIVALENT.value, WEAKER)
        return Promise.STATISTICALLY_EQUIVALENT

    def _state(self, cursor: Cursor) -> State:
        return {
            "version": states.VERSION,
            "plan": self._plan.digest,
            **states.write_cursor(self._plan, cursor),
            "bound": self._bound,
            "promise": Promise.STATISTICALLY_EQUIVALENT.value,
            "because": WEAKER,
        }

    # ------------------------------------------------------------------ iteration
    def _own(self) -> Iterator[Batch]:
        placed = self._placed
        steps = self._steps()
        for host in self._meter.waits(self._batches(steps, min(MAX_THREADS, num_cores()), AHEAD)):
            with self._meter.copy():
                batch = host.to_device(self._device)
            self._cursor = host.info.after
            self._meter.add(batch)
            yield batch
            if placed != self._placed:
                yield from self._own()
                return

    def _hosted(self) -> Iterator[HostBatch]:
        """Every n-th batch, so that the DataLoader, which asks its n workers in turn, restores the order."""
        worker = get_worker_info()
        assert worker is not None, "only workers are hosted"
        if self._device.type != "cpu":
            raise ConfigError(
                f"workers of a DataLoader cannot build batches on {self._device}",
                hint='set device="cpu" and call batch.to_device(device) where the batches arrive',
            )
        yield from self._batches(islice(self._steps(), worker.id, None, worker.num_workers), 0, 0)

    def _steps(self) -> Iterator[Step]:
        return steps_until(self._plan, self._cursor, last_epoch(self._cursor, self._epochs))

    def _batches(self, steps: Iterator[Step], threads: int, ahead: int) -> Iterator[HostBatch]:
        reader = ForeignReader(self._source, self._building, self._measured, decoder=self._decoder)
        assembler = Assembler(
            self._plan,
            reader,
            self._rank,
            threads=threads,
            ahead=ahead,
            on_bad=self._on_bad,
            decoder=self._bound["decoder"],
        )
        try:
            yield from assembler.batches(steps)
        finally:
            assembler.close()
            reader.close()

    def close(self) -> None:
        """Nothing is held between iterations."""

    def __enter__(self) -> ForeignLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _building(path: Path, name: str, settings: Mapping[str, Any], max_tokens: int, overlong: str) -> Building:
    plain = Tokenizer.load(path)
    recipe = bind(configure(RECIPES[name], settings), plain.controls)
    tokenizer = plain.with_controls(names_of(recipe))
    return Building(
        recipe=recipe,
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        overlong=overlong,
        identity={
            "tokenizer": tokenizer.digest,
            "recipe": recipe.recipe(),
            "max_tokens": max_tokens,
            "overlong": overlong,
        },
    )
