"""How sources are mixed: shares by a stated denominator, drawn without chance. `mixture_file` has what a file says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture_file import SUBSET_UNITS as SUBSET_UNITS  # noqa: PLC0414 - words of mixtures
from shardkit.sequence.plan.mixture_file import UNITS as UNITS  # noqa: PLC0414
from shardkit.sequence.plan.mixture_file import parse, read_file

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
            return cls._parsed(value, "mixture")
        return cls._parsed(read_file(Path(value)), str(value))

    @classmethod
    def _parsed(cls, value: Mapping[str, Any], where: str) -> Mixture:
        fields = parse(value, where)
        return cls(**{**fields, "then": tuple(Change(**one) for one in fields["then"])})

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
