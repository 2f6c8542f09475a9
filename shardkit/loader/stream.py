"""The loader: a plan carried out, from any place of it, on any number of ranks and workers.

for batch in loader: ...            one epoch, or `epochs` of them
loader.state_dict()                 the place after the last batch that this process handed out
loader.state_after(batch)           the place after a batch, whoever handed it out
loader.load_state_dict(state)       go on from there; returns what is promised
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import get_worker_info

from shardkit.errors import ResumeError
from shardkit.loader import state as states
from shardkit.loader.append import marks, places_in
from shardkit.loader.choices import check_choice
from shardkit.loader.objects import changed_objects, etag_marks
from shardkit.loader.packed import VERIFY
from shardkit.loader.quarantine import by_picture
from shardkit.loader.reader import Reader, check_files
from shardkit.loader.resumable import ResumableLoader
from shardkit.loader.state import Promise, State
from shardkit.loader.trace import remember
from shardkit.sequence.plan import Mixture, Plan, PlanSettings
from shardkit.sequence.plan.after import plan_after, read_cursor
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.plans import read_plan
from shardkit.store.remote import RemoteSettings

logger = logging.getLogger("shardkit.loader")


class StreamingLoader(ResumableLoader):
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

    _dataset: Dataset
    _rebuilt = (*ResumableLoader._rebuilt, "_lengths")

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
        super().__init__(
            rank=rank,
            world_size=world_size,
            global_batch=global_batch,
            epochs=epochs,
            on_bad=on_bad,
            decoder=decoder,
            device=device,
        )
        check_choice("verify", verify, VERIFY)
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
        self._mixture = None if mixture is None else Mixture.of(mixture)
        self._dataset = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, remote=remote)
        self._split = choose_split(self._dataset, split)
        self._verify: Verify = verify
        check_files(self._dataset, self._split)
        remember(self._dataset)
        objects = etag_marks(self._dataset)
        self._objects: State = {"objects": objects} if objects else {}

        self._lengths = read_lengths(self._dataset, self._split)
        self._plan = self._plan_after(self._rests)
        self._bound = states.bound(self._dataset, self._plan, self._decoded_by)
        self._cursor = self._plan.start(0)
        stated = {"bound": self._bound, "recorded": self._recorded, **self._more_state()}
        self._room = states.room_for_rests(
            {**stated, **states.write_cursor(self._plan, self._cursor)},
            len(self._plan.mixture.weights) if self._plan.mixture else 0,
        )

    # ------------------------------------------------------------------ state
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
            self._restore_worker(state)
            return Promise.REPLAYABLE
        saved = states.check_form(state)
        found = states.differences(saved["bound"], self._bound)
        states.check_seal(saved, found)
        bound = saved["bound"].get("dataset")
        if bound == self._dataset.id:
            found += changed_objects(self._dataset, saved["recorded"].get("objects"))
        same = bound == self._dataset.id or "shards" not in saved
        places = None if same else places_in(self._dataset, saved["shards"], bound)
        promise = states.judge(found, saved["bound"], appended=places is not None)
        states.refuse_less(logger, promise, require, found)
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
            rests = states.with_rest(saved, places, room=self._room)
            plan = self._plan_after(rests)
            cursor = plan.start(plan.first_epoch)
        self._rests, self._plan = rests, plan
        self._quarantine = by_picture(states.read_quarantine(saved["quarantine"], places))
        self._place(cursor)
        before, now = ({**one, "objects": None} for one in (saved["recorded"], self._recorded))
        states.log(logger, promise, [*found, *states.differences(before, now)])
        return promise

    @property
    def _recorded(self) -> State:
        return {**super()._recorded, **self._objects}

    def _more_state(self) -> State:
        return {"shards": marks(self._dataset)}

    def _num_steps(self, epoch: int) -> int:
        if not self._plan.knows_steps(epoch):
            saved = read_plan(self._dataset.path, self._plan.digest) or {"num_steps": {}}
            self._plan.remember_steps({int(known): steps for known, steps in saved["num_steps"].items()})
        if not self._plan.knows_steps(epoch):
            logger.info("planning epoch %d of %d sequences to count its batches", epoch, len(self._lengths))
        return self._plan.num_steps(epoch)

    # ------------------------------------------------------------------ what it is made of
    def _open(self) -> Reader:
        return Reader(self._dataset, verify=self._verify, decoder=self._decoder)

    def _make_plan(self) -> None:
        remember(self._dataset)
        self._lengths = read_lengths(self._dataset, self._split)
        self._plan = self._plan_after(self._rests)
        self._plan.remember(self._cursor)

    def _plan_after(self, rests: list[State]) -> Plan:
        return plan_after(rests, self._lengths, self._settings, self._mixture, identity(self._dataset, self._split))
