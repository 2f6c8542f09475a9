"""How sources are mixed: shares by a stated denominator, drawn without chance. `mixture_file` has what a file says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from math import lcm, log10
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


_ENDLESS = (1000, 10_000_000)
"""An epoch of so many times the data and so many sequences is taken for a slip: nobody waits for its end."""


def check_amounts(mixture: Mixture, lengths: Lengths) -> None:
    """Compare the weights with what the sources hold.

    Raises:
        ConfigError: where a source that is drawn has nothing to count, or an epoch would never end.
    """
    units = np.bincount(lengths.source, mixture.units(lengths), minlength=len(lengths.sources))
    held = dict(zip(lengths.sources, units.tolist(), strict=True))
    for name in drawn_sources(mixture):
        if not held[name]:
            raise ConfigError(
                f"the source {name!r} has nothing to count by {mixture.by}",
                hint=f"mix by another unit, or give {name} the weight 0",
            )
    draws = _epoch_draws(mixture, lengths, held)
    if draws > max(_ENDLESS[0] * len(lengths), _ENDLESS[1]):
        raise ConfigError(
            f"an epoch of this mixture would draw about 10^{int(log10(int(draws)))} sequences, of {len(lengths)} that there are",
            hint="bring the weights nearer to one another, or end epochs with epoch = {source = NAME} or {tokens = N}",
        )


def _epoch_draws(mixture: Mixture, lengths: Lengths, held: Mapping[str, float]) -> Fraction:
    """About how many sequences an epoch draws by the weights that hold in the end.

    Sources that are soon used up do not count: without them the others draw as much of one another.
    """
    if mixture.epoch_tokens is not None:
        return Fraction(mixture.epoch_tokens * len(lengths), int(lengths.tokens.sum()))
    limits = dict(mixture.repeat)
    weights = {
        name: weight
        for name, weight in whole_weights(mixture, len(mixture.then)).items()
        if limits.get(name, _ENDLESS[0]) >= _ENDLESS[0]
    }
    ending = {mixture.epoch_source} & set(weights) or set(weights)
    numbers = dict(zip(lengths.sources, np.bincount(lengths.source).tolist(), strict=True))
    # Units a weight that are drawn when the last one was drawn whole.
    level = max((Fraction(int(held[name]), weights[name]) for name in ending if name), default=Fraction(0))
    return sum((level * weight * numbers[name] / int(held[name]) for name, weight in weights.items()), Fraction(0))


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
