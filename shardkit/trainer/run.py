"""The folder of a run: who may use it, and what a resumed run must share with the one it goes on from.

RUN/run.json      settings, dataset, versions; written once
RUN/log.jsonl     one record a step
RUN/checkpoints/
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import torch

from shardkit import __version__
from shardkit.digest import canonical_json, fingerprint
from shardkit.errors import ConfigError, IntegrityError, OutputError, ResumeError
from shardkit.store.files import make_folder, output_errors
from shardkit.trainer.checkpoint import replace_durably
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.objective import objective_weights

RUN_FILE = "run.json"
LOCK_FILE = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out of `folder`, which is created; the kernel frees the lock however the process ends.

    Raises:
        OutputError: where another run is in it.
    """
    make_folder(folder)
    with output_errors(folder):
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                "another run is training here", where=str(folder), hint="wait for it, or choose another --out"
            ) from None
        yield
    finally:
        os.close(descriptor)


def settle(config: TrainConfig, facts: Facts) -> TrainConfig:
    """`config` with everything decided that it left open: by the run that it resumes, by the dataset, by the machine.

    Raises:
        ConfigError: where task and dataset do not fit.
    """
    _check_task(config, facts)
    saved = read_run(config.out) or {"settings": {}} if config.resume else {"settings": {}}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return replace(
        config,
        max_tokens=config.max_tokens or saved["settings"].get("max_tokens", facts.longest),
        threads=config.threads or saved["settings"].get("threads", cores),
    )


def _check_task(config: TrainConfig, facts: Facts) -> None:
    """Refuse a task that the dataset is not for."""
    if (config.task == "vlm-align") != bool(facts.num_images):
        held = f"the dataset has {facts.num_images}" if facts.num_images else "the dataset has none to train on"
        needs = "needs images" if config.task == "vlm-align" else "takes no images"
        hint = "use --task vlm-align" if facts.num_images else "use --task lm"
        raise ConfigError(f"task {config.task} {needs}, {held}", hint=hint)
    pairs = {"chosen", "rejected"} & set(facts.objectives)
    if (config.task == "dpo") != bool(pairs):
        raise ConfigError(
            f"task {config.task} does not fit a dataset whose objectives are {', '.join(facts.objectives)}",
            hint="use --task dpo, or tokenize with another recipe" if pairs else "tokenize it with --recipe dpo",
        )
    if pairs and config.objective_weights:
        raise ConfigError("task dpo has one loss, and nothing to weigh", hint="leave out --objective-weight")
    if not pairs:
        objective_weights(facts.objectives, config.objective_weights)  # refuses weights that do not fit
    if config.task == "sft" and "answer" not in facts.objectives:
        raise ConfigError(
            f"task sft learns answers, the dataset has {', '.join(facts.objectives)}",
            hint="tokenize dialogues with --recipe sft, or use --task lm",
        )


def open_run(config: TrainConfig, facts: Facts, *, world_size: int) -> bool:
    """Begin the run's folder, or find that it is one to go on from; True where a run was begun there before.

    Raises:
        OutputError: where something is there and `resume` was not asked for.
        ResumeError: where the run was begun with other settings or another dataset; both sides are named.
    """
    saved = read_run(config.out)
    if saved is None:
        strangers = sorted({path.name for path in config.out.iterdir()} - {LOCK_FILE, f"{RUN_FILE}.tmp"})
        if strangers:
            raise OutputError(
                f"the folder holds {strangers[0]}, and no run", where=str(config.out), hint="choose another --out"
            )
        run = {
            "settings": config.bound(),
            "facts": asdict(facts),
            "world_size": world_size,
            "versions": {"shardkit": __version__, "torch": torch.__version__},
            "data": str(config.data),
        }
        replace_durably(config.out / RUN_FILE, canonical_json(run))
        return False
    if not config.resume:
        raise OutputError(
            "a run is there already", where=str(config.out), hint="go on with it by --resume, or choose another --out"
        )
    refuse_changes(saved["settings"], config.bound(), where=config.out)
    refuse_changes(saved["facts"], orjson.loads(canonical_json(asdict(facts))), where=config.out)
    return True


def refuse_changes(saved: Mapping[str, Any], now: Mapping[str, Any], *, where: Path) -> None:
    """Raise a ResumeError that names both sides of whatever differs."""
    changes = [
        f"{name}: {saved.get(name)} -> {now.get(name)}"
        for name in sorted(saved.keys() | now.keys())
        if saved.get(name) != now.get(name)
    ]
    if changes:
        raise ResumeError(
            f"the run was begun with other settings ({'; '.join(changes)})",
            where=str(where),
            hint="give those of the run, or train into a new --out",
        )


def read_run(folder: Path) -> dict[str, Any] | None:
    """run.json of a run's folder, or None where no run was begun.

    Raises:
        IntegrityError: where it is damaged.
    """
    file = folder / RUN_FILE
    if not file.exists():
        return None
    try:
        run: dict[str, Any] = orjson.loads(file.read_bytes())
        run["settings"], run["facts"]  # a run without them is damaged
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the run's settings are damaged ({error})", where=str(file), hint="train into a new --out"
        ) from error
    return run


def stage_record(config: TrainConfig, facts: Facts, *, start: str) -> list[dict[str, Any]]:
    """The stages of a run so far, each chained to the one before by its digest; today a run is one stage.

    Args:
        start: digest of the weights that the stage began with.
    """
    stage = {
        "name": config.task,
        "first_step": 1,
        "parent": None,
        "start": start,
        "settings": config.bound(),
        "facts": asdict(facts),
        "masks": "causal inside a document",
        "labels": "of the token after, inside a document",
    }
    return [{**stage, "digest": fingerprint(stage)}]
