"""What a mixture file says, checked field by field.

    by = "token"                     # example | token | media | loss | compute: what a share is a share of
    weights = {web = 3, ocr = 1}     # every source of the dataset is named; 0 leaves one out
    epoch = {source = "ocr"}         # or {tokens = N}; without it an epoch ends when the last source was drawn whole
    objectives = {answer = 2}        # by = "loss": weight of each objective's target tokens, 1 where not named
    repeat = {ocr = 4}               # a source is drawn at most so often; then the others share what it had
    subset = {tokens = 1_000_000}    # or examples, compute: only the first so many that these shares draw, in every epoch

    [[then]]                         # a curriculum: other weights from a step of the run on, or from_tokens = N
    from_step = 1000
    weights = {web = 1, ocr = 1}

Instead of weights, `temperature = 0.5` gives each source the weight (units that it holds) ** temperature: 1 as they are,
0 all the same. `cap = N` counts no more than N units of a source before.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.records.toml_file import read_toml
from shardkit.sequence.objectives import OBJECTIVES

UNITS = {
    "example": "one a sequence",
    "token": "tokens of the sequence",
    "media": "image patches, that is pixels after processing in units of a patch",
    "loss": "target tokens times the weight of their objective",
    "compute": "the plan's cost formula",
}


SUBSET_UNITS = {"tokens": "token", "examples": "example", "compute": "compute"}
"""What a subset or a budget counts, and the unit that it is."""


def read_file(path: Path) -> Mapping[str, Any]:
    """The content of a mixture file.

    Raises:
        ConfigError: where it cannot be read, or is no TOML.
    """
    return read_toml(
        path, "the mixture file", find="check the path of --mixture", write="write it as `shardkit plan --help` shows"
    )


_FIELDS = ("by", "weights", "epoch", "objectives", "repeat", "subset", "then", "temperature", "cap")


def parse(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The arguments of a `Mixture`; of each change of its curriculum those of a `Change`.

    Args:
        where: the file, for messages.

    Raises:
        ConfigError: for what a mixture cannot say.
    """
    for name in value:
        if name not in _FIELDS:
            raise _bad(f"a mixture has no field {name!r} (known: {', '.join(_FIELDS)})", where)
    by = value.get("by", "example")
    if by not in UNITS:
        raise _bad(f"a mixture cannot be by {by!r} (known: {', '.join(UNITS)})", where)
    temperature, cap = _temperature(value, where)
    weights = {} if temperature is not None else _shares(value.get("weights"), "weights", where)
    objectives = _weights(value.get("objectives", {}), "objectives", where)
    for name, weight in objectives.items():
        if name not in OBJECTIVES:
            raise _bad(f"there is no objective {name!r} (known: {', '.join(OBJECTIVES)})", where)
        if weight > 1000 or 1000 % weight.denominator:
            raise _bad(f"the weight of {name!r} is {weight}, not a number up to 1,000 with three decimals", where)
    if objectives and by != "loss":
        raise _bad(f"weights of objectives mean nothing in a mixture by {by}", where)
    epoch: Any = value.get("epoch") or {}
    if not isinstance(epoch, Mapping) or len(epoch) > 1 or not set(epoch) <= {"source", "tokens"}:
        raise _bad(f"the mixture's epoch is {epoch!r}, not {{source = NAME}} or {{tokens = N}}", where)
    if "tokens" in epoch and not _is_count(epoch["tokens"]):
        raise _bad(f"the mixture's epoch is {epoch['tokens']!r} tokens, not a number above 0", where)
    return {
        "by": by,
        "weights": tuple(sorted(weights.items())),
        "epoch_source": epoch.get("source"),
        "epoch_tokens": epoch.get("tokens"),
        "objectives": tuple(sorted(objectives.items())),
        "repeat": _repeat(value.get("repeat", {}), where),
        "subset": _subset(value.get("subset") or {}, where),
        "then": _then(value.get("then", []), where),
        "temperature": temperature,
        "cap": cap,
    }


def _temperature(value: Mapping[str, Any], where: str) -> tuple[Fraction | None, int | None]:
    temperature, cap = value.get("temperature"), value.get("cap")
    if temperature is None:
        if cap is not None:
            raise _bad("a cap means nothing without a temperature", where)
        return None, None
    if "weights" in value:
        raise _bad("a mixture has weights or a temperature, not both", where)
    number = _number(temperature)
    if number > 10 or number < 0:
        raise _bad(f"the temperature is {temperature!r}, not a number from 0 to 10", where)
    if cap is not None and not _is_count(cap):
        raise _bad(f"the cap is {cap!r}, not a number above 0", where)
    return number, cap


def _repeat(value: Any, where: str) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping) or not all(_is_count(limit) for limit in value.values()):
        raise _bad(f"the mixture's repeat is {value!r}, not a table of NAME = PASSES", where)
    return tuple(sorted((str(name), limit) for name, limit in value.items()))


def _subset(value: Any, where: str) -> tuple[str, int] | None:
    if value == {}:
        return None
    if not isinstance(value, Mapping) or len(value) != 1 or not set(value) <= set(SUBSET_UNITS):
        raise _bad(f"the mixture's subset is {value!r}, not {{UNIT = N}} with {' | '.join(SUBSET_UNITS)}", where)
    ((unit, number),) = value.items()
    if not _is_count(number):
        raise _bad(f"the mixture's subset is {number!r} {unit}, not a number above 0", where)
    return unit, number


def _then(value: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise _bad("the mixture's `then` is no list of tables", where)
    changes: list[dict[str, Any]] = []
    for number, one in enumerate(value, 1):
        place = [name for name in ("from_step", "from_tokens") if name in one]
        if len(place) != 1 or set(one) != {*place, "weights"}:
            raise _bad(
                f"change {number} of the mixture has {', '.join(one)}, not from_step or from_tokens and weights", where
            )
        at = one[place[0]]
        if not _is_count(at):
            raise _bad(f"{place[0]} of change {number} is {at!r}, not a number above 0", where)
        step, tokens = (at, None) if place[0] == "from_step" else (None, at)
        weights = tuple(sorted(_shares(one["weights"], f"weights of change {number}", where).items()))
        changes.append({"step": step, "tokens": tokens, "weights": weights})
    places = [place for change in changes for place in (change["step"], change["tokens"]) if place is not None]
    if len({change["step"] is None for change in changes}) > 1 or any(a >= b for a, b in pairwise(places)):
        raise _bad("the changes of the mixture do not follow one another, all by steps or all by tokens", where)
    return changes


def _shares(value: Any, field: str, where: str) -> dict[str, Fraction]:
    weights = _weights(value, field, where)
    if not any(weights.values()):
        raise _bad(f"no weight of the mixture is above 0{'' if field == 'weights' else f' ({field})'}", where)
    return weights


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _number(value: Any) -> Fraction:
    """A number from 0 on; -1 for anything else."""
    if isinstance(value, str) and "e" in value.casefold():
        return Fraction(-1)  # an exponent as text has no bound
    try:
        # Text first: 0.1 means a tenth, not the binary fraction next to it.
        return max(Fraction(str(value)), Fraction(-1))
    except (ValueError, ZeroDivisionError):
        return Fraction(-1)


def _weights(value: Any, field: str, where: str) -> dict[str, Fraction]:
    if not isinstance(value, Mapping):
        raise _bad(f"the mixture's {field} are not a table of NAME = NUMBER", where)
    weights: dict[str, Fraction] = {}
    for name, number in value.items():
        weight = _number(number)
        if weight < 0:
            raise _bad(f"the weight of {name!r} is {number!r}, not a number from 0 on", where)
        weights[str(name)] = weight
    return weights


def _bad(what: str, where: str) -> ConfigError:
    return ConfigError(what, where=where, hint="write the mixture as `shardkit plan --help` shows")
