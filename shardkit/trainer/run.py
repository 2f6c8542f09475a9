"""The folder of a run: who may use it, and what a resumed run must share with the one it goes on from.

RUN/run.json      settings, dataset, versions of the first stage; written once
RUN/stages.jsonl  one record a stage, in the order in which they were opened, each chained to the one before
RUN/log.jsonl     one record a step
RUN/checkpoints/
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orjson
import torch

from shardkit import __version__
from shardkit.digest import canonical_json, fingerprint
from shardkit.errors import ConfigError, IntegrityError, OutputError, ResumeError
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.source import choose_split, read_lengths
from shardkit.store.dataset import Dataset
from shardkit.store.files import make_folder, output_errors
from shardkit.trainer.checkpoint import replace_durably
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.objective import objective_weights
from shardkit.trainer.stages import Stage

RUN_FILE = "run.json"
STAGES_FILE = "stages.jsonl"
LOCK_FILE = ".lock"
COMPILERS = ("c++", "g++", "clang++")
"""One of them is what torch.compile calls on a CPU."""

Record = dict[str, Any]
"""Of a stage"""


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


def settle(stage: Stage, facts: Facts, dataset: Dataset, held: Sequence[Record]) -> Stage:
    """`stage` with everything decided that it left open: by what it began with, by the dataset, by the machine.

    Args:
        held: records of the stages that the run has opened.

    Raises:
        ConfigError: where task and dataset, or mixture and dataset, do not fit, or something is not installed.
    """
    config = stage.config
    _check_tools(config)
    _check_task(config, facts)
    saved = held[stage.number]["settings"] if stage.number < len(held) else {}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    mixture = None
    if config.mixture is not None:
        lengths = read_lengths(dataset, choose_split(dataset, facts.split))
        mixture = Mixture.of(config.mixture).weighed(lengths).to_json()
    return replace(
        stage,
        config=replace(
            config,
            max_tokens=config.max_tokens or saved.get("max_tokens", facts.longest),
            threads=config.threads or (held[0]["settings"]["threads"] if held else cores),
            mixture=mixture,
        ),
    )


def _check_tools(config: TrainConfig) -> None:
    """Refuse what this machine cannot do, before a run is begun."""
    if config.tensorboard is not None and find_spec("tensorboardX") is None:
        raise ConfigError("--tensorboard needs tensorboardX", hint="install it: pip install 'shardkit[tensorboard]'")
    if config.compile and not any(map(shutil.which, COMPILERS)):
        raise ConfigError("--compile needs a C++ compiler", hint="install g++ or clang, or leave out --compile")


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


def open_run(stages: Sequence[Stage], facts: Sequence[Facts], *, world_size: int) -> None:
    """Begin the run's folder, or find that it is one to go on from.

    Args:
        facts: of the dataset of each stage.

    Raises:
        OutputError: where something is there and `resume` was not asked for.
        ResumeError: where a stage was opened with other settings or another dataset; both sides are named.
    """
    config = stages[0].config
    saved = read_run(config.out)
    if saved is None:
        strangers = sorted({path.name for path in config.out.iterdir()} - {LOCK_FILE, f"{RUN_FILE}.tmp"})
        if strangers:
            raise OutputError(
                f"the folder holds {strangers[0]}, and no run", where=str(config.out), hint="choose another --out"
            )
        run = {
            "settings": config.bound(),
            "facts": asdict(facts[0]),
            "world_size": world_size,
            "versions": {"shardkit": __version__, "torch": torch.__version__},
            "data": str(config.data),
        }
        replace_durably(config.out / RUN_FILE, canonical_json(run))
        return
    if not config.resume:
        raise OutputError(
            "a run is there already", where=str(config.out), hint="go on with it by --resume, or choose another --out"
        )
    refuse_changes(saved["settings"], config.bound(), where=config.out)
    refuse_changes(saved["facts"], _plain(asdict(facts[0])), where=config.out)
    held = read_stage_records(config.out)
    if len(held) > len(stages):
        raise ResumeError(
            f"the run is in stage {held[-1]['name']}, its number {len(held)}; {len(stages)} are given",
            where=str(config.out),
            hint="give the stages of the run; further ones come after them",
        )
    for stage, of_stage, record in zip(stages, facts, held, strict=False):
        now = stage_record(
            stage, of_stage, start=record["start"], trained=record["trained"], before=held[: stage.number]
        )
        refuse_changes(record, now, where=config.out, what=f"stage {record['name']}")


def refuse_changes(saved: Mapping[str, Any], now: Mapping[str, Any], *, where: Path, what: str = "the run") -> None:
    """Raise a ResumeError that names both sides of whatever differs."""
    saved, now = _flat(saved), _flat(now)
    changes = [
        f"{name}: {saved.get(name)} -> {now.get(name)}"
        for name in sorted(saved.keys() | now.keys())
        if saved.get(name) != now.get(name)
    ]
    if changes:
        raise ResumeError(
            f"{what} was begun with other settings ({'; '.join(changes)})",
            where=str(where),
            hint="give those of the run, add a stage with others after it, or train into a new --out",
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


def stage_record(stage: Stage, facts: Facts, *, start: str, trained: str, before: Sequence[Record]) -> Record:
    """All that a stage fixes, chained to the record of the stage before by its digest.

    Args:
        start: digest of the weights that the stage began with.
        trained: fingerprint of the names of the parameters that it trains.
        before: the records of the stages before.
    """
    record = {
        "name": stage.name,
        "first_step": stage.first,
        "parent": before[-1]["digest"] if before else None,
        "start": start,
        "trained": trained,
        "reset_optimizer": stage.reset_optimizer,
        "rate_before": stage.rate_before,
        "settings": stage.config.bound(),
        "facts": asdict(facts),
        "masks": "causal inside a document",
        "labels": "of the token after, inside a document",
    }
    return _plain({**record, "digest": fingerprint(record)})


def read_stage_records(folder: Path) -> list[Record]:
    """RUN/stages.jsonl; nothing where no stage was opened.

    Raises:
        IntegrityError: where a record is damaged, or not chained to the one before.
    """
    file = folder / STAGES_FILE
    records: list[Record] = []
    try:
        for line in file.read_bytes().splitlines() if file.exists() else ():
            record = orjson.loads(line)
            content = {name: value for name, value in record.items() if name != "digest"}
            if record["digest"] != fingerprint(content) or record["parent"] != (
                records[-1]["digest"] if records else None
            ):
                raise ValueError(f"record {len(records) + 1} does not fit the one before, or its digest")
            records.append(record)
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the record of stages is damaged ({error})", where=str(file), hint="restore it, or train into a new --out"
        ) from error
    return records


def append_stage_record(folder: Path, records: Sequence[Record]) -> None:
    """Write the record of the stage that is opened, the last of `records`; where it was opened before, compare.

    Raises:
        ResumeError: where it was opened as another one.
        IntegrityError: where the records before it are not those that the run wrote.
    """
    held = read_stage_records(folder)
    if held[: len(records) - 1] != list(records[:-1]):
        raise IntegrityError(
            "the record of stages is not that of the checkpoint",
            where=str(folder / STAGES_FILE),
            hint="restore it, or train into a new --out",
        )
    if len(held) >= len(records):
        refuse_changes(held[len(records) - 1], records[-1], where=folder, what=f"stage {records[-1]['name']}")
        return
    replace_durably(folder / STAGES_FILE, b"".join(canonical_json(record) + b"\n" for record in records))


def _plain(value: Record) -> Record:
    """As it is read again."""
    read: Record = orjson.loads(canonical_json(value))
    return read


def _flat(record: Mapping[str, Any]) -> Record:
    """Settings and facts beside the rest; without the digests that follow from it."""
    flat = {name: value for name, value in record.items() if name not in {"settings", "facts", "digest", "parent"}}
    return {**flat, **record.get("settings", {}), **record.get("facts", {})}
