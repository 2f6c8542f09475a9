"""Whether datasets can be one: all before their split or all after it, and sequences of one recipe alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shardkit.errors import ConfigError
from shardkit.store.dataset import Dataset
from shardkit.store.sequences import is_tokenized, sequence_recipe


def check_fit(datasets: Sequence[Dataset]) -> None:
    """Refuse datasets that are not of one kind.

    Args:
        datasets: by id.

    Raises:
        ConfigError: naming the two and what differs.
    """
    first = datasets[0]
    for other in datasets[1:]:
        if first.is_split != other.is_split:
            raise ConfigError(
                f"{first.path} has the splits {', '.join(first.splits)}, {other.path} has {', '.join(other.splits)}",
                hint="run `shardkit split` on the one without, with --like the other; or concat before the split",
            )
        if is_tokenized(first) != is_tokenized(other):
            one, two = (first, other) if is_tokenized(first) else (other, first)
            raise ConfigError(
                f"{one.path} holds sequences, {two.path} holds none",
                hint="run `shardkit tokenize` on the other first, or name the datasets that they were made from",
            )
        if is_tokenized(first):
            _check_recipes(first, other)


def _check_recipes(one: Dataset, other: Dataset) -> None:
    names = list(_differences(sequence_recipe(one.recipe), sequence_recipe(other.recipe)))
    if one.manifest.format_versions.get("sequences") != other.manifest.format_versions.get("sequences"):
        names.append("the format of sequences")
    if names:
        raise ConfigError(
            f"{one.path} and {other.path} were tokenized in different ways: {'; '.join(names)}",
            hint="run `shardkit tokenize` on both with the same tokenizer, recipe and settings",
        )


def _differences(one: Any, other: Any, name: str = "") -> Iterator[str]:
    """What two recipes do not agree in, by name."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differences(one.get(key), other.get(key), f"{name}.{key}" if name else key)
    elif one != other:
        yield f"{name} is {_short(one)} and {_short(other)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
