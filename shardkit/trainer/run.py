"""The folder of a run: who may use it, and what a resumed run must share with the one it goes on from.

RUN/run.json      settings, dataset, versions of the first stage; written once
RUN/stages.jsonl  one record a stage, see stage_records.py
RUN/log.jsonl     one record a step
RUN/checkpoints/
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import torch

from shardkit import __version__
from shardkit.digest import canonical_json
from shardkit.errors import IntegrityError, OutputError, ResumeError
from shardkit.store.files import make_folder, output_errors
from shardkit.trainer.checkpoint import read_whole, replace_durably
from shardkit.trainer.facts import Facts
from shardkit.trainer.stage_records import as_read, read_stage_records, refuse_changes, stage_record
from shardkit.trainer.stages import Stage

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


def check_run(stages: Sequence[Stage], facts: Sequence[Facts]) -> None:
    """Refuse a folder that the run can neither begin in nor go on from; nothing is written.

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
        return
    if not config.resume:
        raise OutputError(
            "a run is there already", where=str(config.out), hint="go on with it by --resume, or choose another --out"
        )
    now = as_read({"settings": config.bound(), "facts": asdict(facts[0])})
    refuse_changes({name: saved[name] for name in now}, now, where=config.out, what="the run")
    held = read_stage_records(config.out)
    if len(held) > len(stages):
        raise ResumeError(
            f"the run is in stage {held[-1]['name']}, its number {len(held)}; {len(stages)} are given",
            where=str(config.out),
            hint="give the stages of the run; further ones come after them",
        )
    for stage, of_stage, record in zip(stages, facts, held, strict=False):
        before = held[: stage.number]
        again = stage_record(stage, of_stage, start=record["start"], trained=record["trained"], before=before)
        refuse_changes(record, again, where=config.out, what=f"stage {record['name']}")


def begin_run(stages: Sequence[Stage], facts: Sequence[Facts], *, world_size: int) -> None:
    """Write run.json, where it is not there yet."""
    config = stages[0].config
    if (config.out / RUN_FILE).exists():
        return
    run = {
        "settings": config.bound(),
        "facts": asdict(facts[0]),
        "world_size": world_size,
        "versions": {"shardkit": __version__, "torch": torch.__version__},
        "data": str(config.data),
    }
    replace_durably(config.out / RUN_FILE, canonical_json(run))


def read_run(folder: Path) -> dict[str, Any] | None:
    """run.json of a run's folder, or None where no run was begun.

    Raises:
        IntegrityError: where it is damaged.
    """
    file = folder / RUN_FILE
    data = read_whole(file)
    if data is None:
        return None
    try:
        run: dict[str, Any] = orjson.loads(data)
        run["settings"], run["facts"]  # a run without them is damaged
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the run's settings are damaged ({error})", where=str(file), hint="train into a new --out"
        ) from error
    return run
