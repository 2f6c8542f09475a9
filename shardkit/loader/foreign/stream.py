"""Packed batches of foreign files: the plan, the packs and the pictures of StreamingLoader, without a dataset.

source = WebDatasetTars(["pairs-000.tar", "pairs-001.tar"])
loader = ForeignLoader(source, tokenizer="tokenizer.json", recipe="vlm", max_tokens=4096, measured="lengths.npz")
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import get_worker_info

from shardkit.errors import ResumeError
from shardkit.loader import state as states
from shardkit.loader.choices import check_choice
from shardkit.loader.foreign.measure import Building, measure
from shardkit.loader.foreign.reader import ForeignReader
from shardkit.loader.foreign.sample import Source
from shardkit.loader.quarantine import by_picture
from shardkit.loader.resumable import ResumableLoader
from shardkit.loader.state import Promise, State
from shardkit.sequence.plan import Plan, PlanSettings
from shardkit.sequence.plan.after import read_cursor
from shardkit.sequence.recipes import OVERLONG, RECIPES, bind, configure, names_of
from shardkit.text.tokenizer import Tokenizer

logger = logging.getLogger("shardkit.loader")

WEAKER = "files are known by name and size, not by digest, so nobody can say that they are still the same"
"""Why a state promises less than that of a dataset; it stands in the state."""


class ForeignLoader(ResumableLoader):
    """Packed batches of a source that was never ingested.

    Making one reads every sample once, for the lengths that the plan is made from. What gives no sequence is left out and
    counted in `excluded`. Iterations, workers and epochs are those of StreamingLoader.

    Args:
        source: WebDatasetTars, HFDataset, or another Source.
        tokenizer: file or folder.
        recipe: a name of RECIPES, with `settings` in place of its defaults.
        max_tokens: of a sequence and of a pack.
        overlong: window | truncate | drop | error: what becomes of a longer sample.
        measured: file in which the lengths are kept for the next start; None measures each time.
        require: what `load_state_dict` is to require where it is not told: "equivalent" lets torchdata, Lightning and
            accelerate restore states, which tell it nothing.
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
        require: str = "replayable",
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
        super().__init__(
            rank=rank,
            world_size=world_size,
            global_batch=global_batch,
            epochs=epochs,
            on_bad=on_bad,
            decoder=decoder,
            device=device,
        )
        check_choice("recipe", recipe, tuple(RECIPES))
        check_choice("require", require, tuple(states.REQUIRE))
        check_choice("overlong", overlong, OVERLONG)
        self._require = require
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
        self._measured = measure(source, self._building, file=None if measured is None else Path(measured))
        if self._measured.excluded:
            logger.warning("%s: samples left out: %s", source.name, self._measured.excluded)
        self._bound: State = {
            "source": source.identity,
            **{f"tokenize.{name}": value for name, value in self._building.identity.items()},
            **states.bound_packs(self._settings, self._decoded_by),
        }
        self._make_plan()
        self._cursor = self._plan.start(0)

    @property
    def excluded(self) -> dict[str, int]:
        """Samples that gave no sequence, by reason."""
        return dict(self._measured.excluded)

    # ------------------------------------------------------------------ state
    def load_state_dict(self, state: Mapping[str, Any], *, require: str | None = None) -> Promise:
        """Go on from a saved place: the same order, as far as the files are still the same.

        Args:
            require: only "equivalent" is kept here; None is what the loader was made with, which refuses where nothing was
                said, so that nobody takes less without saying so.

        Raises:
            ResumeError: where more is required, or the state is of other files or settings.
        """
        require = self._require if require is None else require
        check_choice("require", require, tuple(states.REQUIRE))
        if require != "equivalent":
            raise ResumeError(
                f"{Promise.STATISTICALLY_EQUIVALENT.value} is all that is promised here: {WEAKER}",
                where="loader state",
                hint='accept that with require="equivalent", or ingest the files and stream the dataset',
            )
        if get_worker_info() is not None:
            self._restore_worker(state)
            return Promise.STATISTICALLY_EQUIVALENT
        saved = states.check_form(state)
        found = states.differences(saved["bound"], self._bound)
        states.check_seal(saved, found)
        if found or saved["plan"] != self._plan.digest:
            raise ResumeError(
                f"the state was saved for another stream ({'; '.join(map(str, found)) or 'another plan'})",
                where="loader state",
                hint="load it into a loader of what it was saved with, or begin anew without it",
            )
        cursor = read_cursor(self._plan, saved)
        self._plan.remember(cursor, saved["num_steps"])
        self._quarantine = by_picture(states.read_quarantine(saved["quarantine"]))
        self._place(cursor)
        logger.info("%s: %s", Promise.STATISTICALLY_EQUIVALENT.value, WEAKER)
        return Promise.STATISTICALLY_EQUIVALENT

    def _more_state(self) -> State:
        return {"promise": Promise.STATISTICALLY_EQUIVALENT.value, "because": WEAKER}

    # ------------------------------------------------------------------ what it is made of
    def _open(self) -> ForeignReader:
        return ForeignReader(self._source, self._building, self._measured, decoder=self._decoder)

    @property
    def _where(self) -> str:
        return self._source.name

    def _make_plan(self) -> None:
        self._plan = Plan(self._measured.lengths, self._settings, identity=self._bound)


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
