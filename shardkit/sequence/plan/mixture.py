"""How sources are mixed: shares by a stated denominator, drawn without chance.

A mixture file:

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

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan.lengths import Lengths

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

UNITS = {
    "example": "one a sequence",
    "token": "tokens of the sequence",
    "media": "image patches, that is pixels after processing in units of a patch",
    "loss": "target tokens times the weight of their objective",
    "compute": "the plan's cost formula",
}


SUBSET_UNITS = {"tokens": "token", "examples": "example", "compute": "compute"}
"""What a subset or a budget counts, and the unit that it is."""

Weights = tuple[tuple[str, Fraction], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """Other weights from some place of the run on."""

    step: int | None = None
    """From this step on, or ..."""
    tokens: int | None = None
    """... from the sequence on before which so many tokens were drawn."""
    weights: Weights

    def to_json(self) -> dict[str, Any]:
        place = {"from_tokens": self.tokens} if self.step is None else {"from_step": self.step}
        return {**place, "weights": {name: str(weight) for name, weight in self.weights}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    by: str
    """One of UNITS."""
    weights: Weights
    """Source -> weight, by name; sources of weight 0 are not drawn. Empty where a temperature gives them."""
    epoch_source: str | None = None
    """An epoch ends when this source was drawn whole."""
    epoch_tokens: int | None = None
    """An epoch ends when so many tokens were drawn."""
    objectives: Weights = ()
    """Weights of objectives for by = "loss"."""
    repeat: tuple[tuple[str, int], ...] = ()
    """Source -> passes after which it is drawn no more."""
    subset: tuple[str, int] | None = None
    """Unit and number of what is taken of the data."""
    then: tuple[Change, ...] = ()
    """Other weights later, by the place from which they hold."""
    temperature: Fraction | None = None
    cap: int | None = None

    @classmethod
    def of(cls, value: Mixture | Mapping[str, Any] | str | os.PathLike[str]) -> Mixture:
        """A mixture from the content of a mixture file, or from its path.

        Raises:
            ConfigError: for what a mixture file cannot say.
        """
        if isinstance(value, Mixture):
            return value
        if isinstance(value, Mapping):
            return _parse(value, "mixture")
        return _parse(_read(Path(value)), str(value))

    def to_json(self) -> dict[str, Any]:
        """The mixture as it stands in states and digests; `of` reads it back."""
        epoch = {"source": self.epoch_source, "tokens": self.epoch_tokens}
        return {
            "by": self.by,
            "weights": {name: str(weight) for name, weight in self.weights},
            "epoch": {name: value for name, value in epoch.items() if value is not None},
            "objectives": {name: str(weight) for name, weight in self.objectives},
            "repeat": dict(self.repeat),
            "subset": dict([self.subset]) if self.subset else {},
            "then": [change.to_json() for change in self.then],
        }

    def weighed(self, lengths: Lengths) -> Mixture:
        """The same with weights in whole numbers, where a temperature gives them."""
        if self.temperature is None:
            return self
        units = self.units(lengths)
        amounts = np.zeros(len(lengths.sources), np.int64)
        np.add.at(amounts, lengths.source, units)
        weights = by_temperature(dict(zip(lengths.sources, amounts.tolist(), strict=True)), self.temperature, self.cap)
        return replace(self, weights=tuple(sorted(weights.items())), temperature=None, cap=None)

    def check(self, sources: tuple[str, ...]) -> None:
        """Compare the names with those of the data.

        Raises:
            ConfigError: where a source has no weight, or a weight no source.
        """
        for weights in (self.weights, *(change.weights for change in self.then)):
            named = dict(weights)
            for name in named:
                if name not in sources:
                    raise ConfigError(
                        f"the mixture weighs a source {name!r} that is not in the data (found: {', '.join(sources)})",
                        hint="correct the name in the mixture file",
                    )
            for name in sources:
                if name not in named:
                    raise ConfigError(
                        f"the mixture gives the source {name!r} no weight",
                        hint=f"add {name} = 0 to the mixture's weights to leave it out",
                    )
        for name, _ in self.repeat:
            if name not in sources:
                raise ConfigError(
                    f"the mixture limits a source {name!r} that is not in the data (found: {', '.join(sources)})",
                    hint="correct the name in `repeat` of the mixture file",
                )
        if self.epoch_source is not None and self.epoch_source not in drawn_sources(self):
            raise ConfigError(
                f"the mixture's epoch ends with the source {self.epoch_source!r}, which is not drawn",
                hint="name a source with a weight above 0 in `epoch`",
            )

    def units(self, lengths: Lengths) -> npt.NDArray[np.int64]:
        """[N] what each sequence counts for, in whole units."""
        if self.by == "example":
            return np.ones(len(lengths), np.int64)
        if self.by == "token":
            return lengths.tokens
        if self.by == "media":
            return lengths.patches
        if self.by == "compute":
            return lengths.cost
        units: npt.NDArray[np.int64] = objective_weights(self) @ lengths.supervised
        return units

    def to_toml(self) -> str:
        """A mixture file that says the same."""
        stated = self.to_json()
        lines = [f'by = "{self.by}"', f"weights = {_inline(self.weights)}"]
        lines += [f"{name} = {_inline(stated[name].items())}" for name in ("epoch", "repeat", "subset") if stated[name]]
        if self.objectives:
            lines.append(f"objectives = {_inline(self.objectives)}")
        for change in self.then:
            place = f"from_step = {change.step}" if change.tokens is None else f"from_tokens = {change.tokens}"
            lines += ["", "[[then]]", place, f"weights = {_inline(change.weights)}"]
        return "\n".join([*lines, ""])


def drawn_sources(mixture: Mixture) -> tuple[str, ...]:
    """The sources that have a weight at any time, by name."""
    everything = (mixture.weights, *(change.weights for change in mixture.then))
    return tuple(sorted({name for weights in everything for name, weight in weights if weight}))


def whole_weights(mixture: Mixture, stage: int = 0) -> dict[str, int]:
    """The drawn sources with integer weights in the same proportions.

    Args:
        stage: 0, or the number of a change, from 1.
    """
    weights = mixture.then[stage - 1].weights if stage else mixture.weights
    return _whole({name: weight for name, weight in weights if weight})


def by_temperature(amounts: Mapping[str, int], temperature: Fraction, cap: int | None = None) -> dict[str, Fraction]:
    """A weight for each amount: amount ** temperature, the largest as 1,000,000, in whole numbers; 0 for nothing.

    In decimals of fixed precision, so that every machine finds the same.
    """
    with localcontext() as context:
        context.prec = 40
        exponent = Decimal(temperature.numerator) / Decimal(temperature.denominator)
        held = {name: min(amount, cap) if cap else amount for name, amount in amounts.items()}
        raised = {name: Decimal(amount) ** exponent for name, amount in held.items() if amount}
        largest = max(raised.values(), default=Decimal(1))
        shares = {name: max(int((one / largest * 1_000_000).to_integral_value()), 1) for name, one in raised.items()}
    return {name: Fraction(shares.get(name, 0)) for name in amounts}


def objective_weights(mixture: Mixture | None) -> npt.NDArray[np.int64]:
    """[number of objectives] the whole weight of each objective's target tokens; 1 where no mixture says otherwise."""
    weights = _whole({name: Fraction(1) for name in OBJECTIVES} | dict(mixture.objectives if mixture else ()))
    return np.array([weights[name] for name in sorted(OBJECTIVES, key=OBJECTIVES.__getitem__)], np.int64)


def natural(lengths: Lengths, by: str) -> Mixture:
    """The mixture that draws each source as much as there is of it."""
    mixture = Mixture(by=by, weights=())
    amounts = np.zeros(len(lengths.sources), np.int64)
    np.add.at(amounts, lengths.source, mixture.units(lengths))
    weights = zip(lengths.sources, map(Fraction, amounts.tolist()), strict=True)
    return replace(mixture, weights=tuple(weights))


def _inline(pairs: Iterable[tuple[str, Any]]) -> str:
    """An inline table of TOML; fractions as text where decimals cannot say them."""
    return "{" + ", ".join(f"{json.dumps(name)} = {_value(value)}" for name, value in pairs) + "}"


def _value(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value) if value.denominator == 1 else f'"{value}"'
    return json.dumps(value)


def _whole(weights: Mapping[str, Fraction]) -> dict[str, int]:
    scale = lcm(*(weight.denominator for weight in weights.values()))
    return {name: int(weight * scale) for name, weight in weights.items()}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the mixture file cannot be read ({error.strerror})", where=str(path), hint="check the path of --mixture"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the mixture file is no TOML ({error})", where=str(path), hint="write it as `shardkit plan --help` shows"
        ) from error
    return content


_FIELDS = ("by", "weights", "epoch", "objectives", "repeat", "subset", "then", "temperature", "cap")


def _parse(value: Mapping[str, Any], where: str) -> Mixture:
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
    return Mixture(
        by=by,
        weights=tuple(sorted(weights.items())),
        epoch_source=epoch.get("source"),
        epoch_tokens=epoch.get("tokens"),
        objectives=tuple(sorted(objectives.items())),
        repeat=_repeat(value.get("repeat", {}), where),
        subset=_subset(value.get("subset") or {}, where),
        then=_then(value.get("then", []), where),
        temperature=temperature,
        cap=cap,
    )


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


def _then(value: Any, where: str) -> tuple[Change, ...]:
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise _bad("the mixture's `then` is no list of tables", where)
    changes: list[Change] = []
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
        changes.append(Change(step=step, tokens=tokens, weights=weights))
    places = [place for change in changes for place in (change.step, change.tokens) if place is not None]
    if len({change.step is None for change in changes}) > 1 or any(a >= b for a, b in pairwise(places)):
        raise _bad("the changes of the mixture do not follow one another, all by steps or all by tokens", where)
    return tuple(changes)


def _shares(value: Any, field: str, where: str) -> dict[str, Fraction]:
    weights = _weights(value, field, where)
    if not any(weights.values()):
        raise _bad(f"no weight of the mixture is above 0{'' if field == 'weights' else f' ({field})'}", where)
    return weights


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _number(value: Any) -> Fraction:
    """A number from 0 on; -1 for anything else."""
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
