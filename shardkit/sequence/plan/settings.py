"""What a plan is made with, beside lengths and mixture."""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.errors import ConfigError
from shardkit.records.counts import MOST
from shardkit.sequence.packers import PACKERS

TAILS = {
    "drop": "packs that do not fill a last global batch are left out",
    "pad": "the last global batch is filled up with empty packs",
    "wrap": "the last global batch is filled up with the first packs of the epoch",
}
_OPTIONAL = ("max_images", "max_patches", "max_attention")
"""Limits of a pack that need not be set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanSettings:
    max_tokens: int
    max_images: int | None = None
    max_patches: int | None = None
    max_attention: int | None = None
    """Pairs of tokens that attend to one another: the sum of the squares of the sequences' lengths."""
    global_batch: int = 1
    """Packs of one step over all ranks."""
    packer: str = "best-fit"
    """One of PACKERS."""
    seed: int = 0
    tail: str = "drop"
    """One of TAILS."""
    block: int = 4096
    """Sequences that are packed together: none is delayed by more."""
    window: int = 8
    """Shards of a source whose rows are shuffled together."""

    def __post_init__(self) -> None:
        for name in ("max_tokens", *_OPTIONAL, "global_batch", "block", "window"):
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if type(value) is not int or value < 1:
                raise ConfigError(f"{name} is {value!r}, not a whole number above 0", hint=f"set {option(name)}")
            if value > MOST:
                raise ConfigError(f"{name} is {value}; {MOST} is the most", hint=f"set {option(name)}")
        if type(self.seed) is not int or not -(2**63) <= self.seed < 2**63:
            raise ConfigError(f"seed is {self.seed!r}, not a whole number of 64 bits", hint=f"set {option('seed')}")
        for name, known in (("packer", tuple(PACKERS)), ("tail", tuple(TAILS))):
            value = getattr(self, name)
            if value not in known:
                raise ConfigError(
                    f"there is no {name} {value!r} (known: {', '.join(known)})",
                    hint=f"set {option(name)} to one of them",
                )

    @property
    def capacities(self) -> dict[str, int]:
        """The limits that are set, by the name of what they limit."""
        names = ("max_tokens", *_OPTIONAL)
        return {name.removeprefix("max_"): getattr(self, name) for name in names if getattr(self, name) is not None}


def option(name: str) -> str:
    """How a setting is called on the command line."""
    return "--" + name.replace("_", "-")
