"""RUN/stages.jsonl: what each stage of a run fixed, a record a stage, only ever added to.

Each record holds the digest of the one before, so that a line that was changed or taken out is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from shardkit.digest import canonical_json, fingerprint
from shardkit.errors import IntegrityError, ResumeError
from shardkit.trainer.checkpoint import read_whole, replace_durably
from shardkit.trainer.config import UNSAID
from shardkit.trainer.facts import Facts
from shardkit.trainer.stages import Stage

STAGES_FILE = "stages.jsonl"

StageRecord = dict[str, Any]


def stage_record(stage: Stage, facts: Facts, *, start: str, trained: str, before: Sequence[StageRecord]) -> StageRecord:
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
    }
    return as_read({**record, "digest": fingerprint(record)})


def read_stage_records(folder: Path) -> list[StageRecord]:
    """The records of a run; none where no stage was opened.

    Raises:
        IntegrityError: where a record is damaged, or not chained to the one before.
    """
    file = folder / STAGES_FILE
    records: list[StageRecord] = []
    try:
        for line in (read_whole(file) or b"").splitlines():
            record = orjson.loads(line)
            content = {name: value for name, value in record.items() if name != "digest"}
            parent = records[-1]["digest"] if records else None
            if record["digest"] != fingerprint(content) or record["parent"] != parent:
                raise ValueError(f"record {len(records) + 1} does not fit the one before, or its digest")
            records.append(record)
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the record of stages is damaged ({error})", where=str(file), hint="restore it, or train into a new --out"
        ) from error
    return records


def append_stage_record(folder: Path, records: Sequence[StageRecord]) -> None:
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


def refuse_changes(saved: Mapping[str, Any], now: Mapping[str, Any], *, where: Path, what: str) -> None:
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


def as_read(value: dict[str, Any]) -> dict[str, Any]:
    """As it is read again from JSON."""
    read: dict[str, Any] = orjson.loads(canonical_json(value))
    return read


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, said or not, and facts beside the rest; without the digests that follow from it."""
    flat = {name: value for name, value in record.items() if name not in {"settings", "facts", "digest", "parent"}}
    return {**flat, **UNSAID, **record.get("settings", {}), **record.get("facts", {})}
