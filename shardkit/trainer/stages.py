"""The stages of a run: one after the other in one folder, steps counted through.

A file of stages, in the order in which they come:

    [[stage]]
    name = "alignment"
    steps = 2000                     # of this stage
    data = "tokens/captions"         # paths are relative to this file
    task = "vlm-align"
    freeze = ["lm"]

    [[stage]]
    name = "instruction"
    steps = 500
    data = "tokens/chat"
    task = "sft"
    lr = 1e-4
    reset_optimizer = true           # no moments of the stage before; the warm-up begins at 0
    mixture = {by = "loss", weights = {chat = 9, web = 1}}      # a tenth of what is learned is replay

What a stage leaves out is as the run's options say. What it fixes stands in its record, see run.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.records.toml_file import read_toml
from shardkit.store.remote import as_url
from shardkit.trainer.config import LIMITS, LOOKING, TrainConfig
from shardkit.trainer.schedule import learning_rate

FIELDS: dict[str, str] = {
    **dict.fromkeys(
        ("name", "data", "task", "positions", "packer", "decoder", "precision", "schedule", "eval_split"), "a text"
    ),
    **dict.fromkeys(("steps", *LIMITS, "global_batch", "micro_steps", "warmup"), "a whole number"),
    **dict.fromkeys(("theta", "lr", "weight_decay", "clip", "beta"), "a number"),
    "reset_optimizer": "true or false",
    "freeze": "a list",
    "objective_weights": "a table",
    "mixture": "a table or the path of a mixture file",
}
"""What a stage may say, and as what."""
_TYPES: dict[str, tuple[type, ...]] = {
    "a text": (str,),
    "a whole number": (int,),
    "a number": (int, float),
    "true or false": (bool,),
    "a list": (list,),
    "a table": (dict,),
    "a table or the path of a mixture file": (dict, str),
}
NEEDED = ("name", "steps")
PATHS = ("data", "mixture")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    name: str
    number: int
    """From 0"""
    first: int
    """Its first step, counted from the beginning of the run"""
    config: TrainConfig
    """The run's, with what the stage says; `steps` is its last step, counted from the beginning of the run"""
    reset_optimizer: bool = False
    rate_before: float = 0.0
    """From which its warm-up leads to its own rate"""
    tower: bool = False
    """Whether the model has one: it stays where a stage before had it"""
    positions_before: str | None = None
    """The kind of positions of the stage before"""

    @property
    def last(self) -> int:
        return self.config.steps

    def learning_rate(self, step: int) -> float:
        """Of a step of this stage."""
        number, steps = step - self.first + 1, self.last - self.first + 1
        return learning_rate(self.config, number, steps, before=self.rate_before)


def one_stage(config: TrainConfig) -> list[Stage]:
    """A run that is one stage, named by its task."""
    return in_order([(config.task, config, False)])


def in_order(parts: Sequence[tuple[str, TrainConfig, bool]]) -> list[Stage]:
    """Stages one after the other.

    Args:
        parts: name, settings with the number of its own steps, and whether the optimizer begins anew, of each stage.
    """
    stages: list[Stage] = []
    for number, (name, config, reset) in enumerate(parts):
        before = stages[-1] if stages else None
        done = before.last if before else 0
        stages.append(
            Stage(
                name=name,
                number=number,
                first=done + 1,
                config=replace(config, steps=done + config.steps),
                reset_optimizer=reset,
                rate_before=before.learning_rate(done) if before and not reset else 0.0,
                tower=config.task in LOOKING or bool(before and before.tower),
                positions_before=before.config.positions if before else None,
            )
        )
    return stages


def read_stages(file: Path, options: Mapping[str, Any]) -> list[Stage]:
    """The stages of a file.

    Args:
        options: of the run, by the names of TrainConfig: what a stage leaves out.

    Raises:
        ConfigError: for what a file of stages cannot say.
    """
    content = read_toml(
        file, "the file of stages", find="check the path of --stages", write="write it as docs/training.md shows"
    )
    tables = content.get("stage", [])
    if set(content) != {"stage"} or not _is_tables(tables):
        raise _bad(f"it holds {', '.join(content) or 'nothing'}, not a list of [[stage]]", str(file))
    parts = [_read(table, f"{file}: stage {number}", file.parent, options) for number, table in enumerate(tables, 1)]
    names = [name for name, _, _ in parts]
    for name in names:
        if names.count(name) > 1:
            raise _bad(f"two stages are named {name!r}", str(file))
    return in_order(parts)


def _read(
    table: Mapping[str, Any], where: str, folder: Path, options: Mapping[str, Any]
) -> tuple[str, TrainConfig, bool]:
    for field in table:
        if field not in FIELDS:
            raise _bad(f"a stage has no field {field!r} (known: {', '.join(FIELDS)})", where)
    settings = {**options, **table}
    missing = [
        field
        for field in (*NEEDED, "data", "task")
        if settings.get(field) is None or (field in NEEDED and field not in table)
    ]
    if missing:
        hint = f"add {missing[0]} to the stage" + (
            f", or give --{missing[0]} for all" if missing[0] not in NEEDED else ""
        )
        raise ConfigError(f"the stage has no {missing[0]}", where=where, hint=hint)
    for field, value in table.items():
        if type(value) not in _TYPES[FIELDS[field]]:
            raise _bad(f"{field} is {value!r}, not {FIELDS[field]}", where)
        if field in PATHS and isinstance(value, str):
            settings[field] = Path(value) if as_url(value) else folder / value
    if not table["name"]:
        raise _bad("the stage has an empty name", where)
    settings["freeze"] = tuple(settings.get("freeze", ()))
    reset = settings.pop("reset_optimizer", False)
    name = settings.pop("name")
    try:
        return name, TrainConfig(**settings), reset
    except ConfigError as error:
        raise ConfigError(f"stage {name}: {error.what}", where=where, hint=error.hint) from error


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(table, dict) for table in value)


def _bad(what: str, where: str) -> ConfigError:
    return ConfigError(what, where=where, hint="write it as docs/training.md shows")
