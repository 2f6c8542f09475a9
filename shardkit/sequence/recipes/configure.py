"""A recipe from its settings, as a command line or a TOML file gives them, and bound to a tokenizer's control tokens."""

from __future__ import annotations

import difflib
import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from shardkit.errors import ConfigError
from shardkit.sequence.recipes.controls import resolve

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shardkit.sequence.recipes.built import Recipe

_BOOLEANS = {"true": True, "false": False}
_WORDS = {bool: "true or false", int: "a whole number", str: "text"}


def configure(kind: type[Any], settings: Mapping[str, Any]) -> Recipe:
    """The recipe `kind`, a value of RECIPES, with `settings` in place of its defaults.

    Args:
        settings: field -> value. A string is read as what the field holds: an integer, true or false, or itself.

    Raises:
        ConfigError: for an unknown setting, or a value of another kind.
    """
    known = {field.name: field.default for field in fields(kind)}
    for key in settings:
        if key not in known:
            raise ConfigError(
                f"recipe {kind.NAME} has no setting {key!r}; it has {', '.join(known)}",
                hint=f"write --set KEY=VALUE with one of these{guess(key, known)}",
            )
    return cast("Recipe", kind(**{key: _value(key, value, known[key]) for key, value in settings.items()}))


def bind(recipe: Recipe, present: Collection[str], *, add: bool = False) -> Recipe:
    """`recipe` with the control tokens it will use by name; `present` are those of the tokenizer.

    Args:
        add: missing ones will be appended to the tokenizer (`names_of` lists them), so a name need not be present.

    Raises:
        ConfigError: where a token is missing.
    """
    names = {part: getattr(recipe, part) for part in recipe.CONTROLS}
    return replace(recipe, **resolve(names, present, add=add))  # type: ignore[type-var]  # every recipe is a dataclass


def names_of(recipe: Recipe) -> list[str]:
    """The control tokens that a bound recipe uses."""
    return [name for part in recipe.CONTROLS if (name := getattr(recipe, part))]


def guess(word: str, known: Collection[str]) -> str:
    """` (did you mean X?)` where one of `known` is close to `word`, else ""."""
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _value(key: str, value: Any, default: Any) -> Any:
    kind = type(default)
    if isinstance(value, str) and kind is bool:
        value = _BOOLEANS.get(value.lower(), value)
    elif isinstance(value, str) and kind is int and re.fullmatch(r"-?[0-9]{1,9}", value):
        value = int(value)
    if type(value) is not kind:
        raise ConfigError(
            f"{key}={value!r} is not {_WORDS[kind]}", hint=f"write --set {key}=VALUE, for instance {key}={default}"
        )
    return value
