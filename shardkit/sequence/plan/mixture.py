"""How sources are mixed: shares by a stated denominator, drawn without chance.

A mixture file:

    by = "token"                     # example | token | media | loss | compute: what a share is a share of
    weights = {web = 3, ocr = 1}     # every source of the dataset is named; 0 leaves one out
    epoch = {source = "ocr"}         # or {tokens = N}; without it an epoch ends when the last source was drawn whole
    objectives = {answer = 2}        # by = "loss": weight of each objective's target tokens, 1 where not named
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Mixture:
    by: str
    """One of UNITS."""
    weights: tuple[tuple[str, Fraction], ...]
    """Source -> weight, by name; sources of weight 0 are not drawn."""
    epoch_source: str | None = None
    """An epoch ends when this source was drawn whole."""
    epoch_tokens: int | None = None
    """An epoch ends when so many tokens were drawn."""
    objectives: tuple[tuple[str, Fraction], ...] = ()
    """Weights of objectives for by = "loss"."""

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
        }

    def check(self, sources: tuple[str, ...]) -> None:
        """Compare the names with those of the data.

        Raises:
            ConfigError: where a source has no weight, or a weight no source.
        """
        named = dict(self.weights)
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
        if self.epoch_source is not None and not named.get(self.epoch_source):
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
        weights = _whole({name: Fraction(1) for name in OBJECTIVES} | dict(self.objectives))
        return sum(
            (lengths.supervised[byte] * weights[name] for name, byte in OBJECTIVES.items()),
            np.zeros(len(lengths), np.int64),
        )


def whole_weights(mixture: Mixture) -> dict[str, int]:
    """The drawn sources with integer weights in the same proportions."""
    return _whole({name: weight for name, weight in mixture.weights if weight})


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


def _parse(value: Mapping[str, Any], where: str) -> Mixture:
    for name in value:
        if name not in ("by", "weights", "epoch", "objectives"):
            raise _bad(f"a mixture has no field {name!r} (known: by, weights, epoch, objectives)", where)
    by = value.get("by", "example")
    if by not in UNITS:
        raise _bad(f"a mixture cannot be by {by!r} (known: {', '.join(UNITS)})", where)
    weights = _weights(value.get("weights"), "weights", where)
    if not any(weights.values()):
        raise _bad("no weight of the mixture is above 0", where)
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
    tokens = epoch.get("tokens")
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise _bad(f"the mixture's epoch is {tokens!r} tokens, not a number above 0", where)
    return Mixture(
        by=by,
        weights=tuple(sorted(weights.items())),
        epoch_source=epoch.get("source"),
        epoch_tokens=tokens,
        objectives=tuple(sorted(objectives.items())),
    )


def _weights(value: Any, field: str, where: str) -> dict[str, Fraction]:
    if not isinstance(value, Mapping):
        raise _bad(f"the mixture's {field} are not a table of NAME = NUMBER", where)
    weights: dict[str, Fraction] = {}
    for name, number in value.items():
        try:
            # Text first: 0.1 means a tenth, not the binary fraction next to it.
            weight = Fraction(str(number))
        except (ValueError, ZeroDivisionError):
            weight = Fraction(-1)
        if weight < 0:
            raise _bad(f"the weight of {name!r} is {number!r}, not a number from 0 on", where)
        weights[str(name)] = weight
    return weights


def _bad(what: str, where: str) -> ConfigError:
    return ConfigError(what, where=where, hint="write the mixture as `shardkit plan --help` shows")
