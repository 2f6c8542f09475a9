"""A recipe from its settings, as a command line or a TOML file gives them, and bound to a tokenizer's control tokens."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shardkit.errors import ConfigError, guess
from shardkit.media.processors import PROCESSORS, hf
from shardkit.sequence.recipes.controls import resolve
from shardkit.sequence.recipes.with_images import SQUARE, settings_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from shardkit.media.processors import Processor
    from shardkit.sequence.recipes.built import Recipe

_BOOLEANS = {"true": True, "false": False}
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", tuple: "a list of texts"}
_MOST = (1 << 63) - 1
"""The largest whole number that a manifest can hold, and a seed can be."""


def configure(kind: type[Any], settings: Mapping[str, Any]) -> Recipe:
    """The recipe `kind`, a value of RECIPES, with `settings` in place of its defaults.

    Args:
        settings: field -> value; the fields of the image processor stand among them. A string is read as what the field holds: a number, true or false, or itself. A list of
            texts stands for a tuple.

    Raises:
        ConfigError: for an unknown setting, or a value of another kind.
    """
    own: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    processor = own.pop("processor", None)
    if processor is not None and "processor" in settings:
        processor = _processor(settings["processor"], processor)
    inner = {} if processor is None else settings_of(processor)
    known = {**own, **inner}
    beside = "" if processor is None else f" with processor={processor.NAME}"
    values = {}
    for key, value in settings.items():
        if key == "processor" and processor is not None:
            continue
        if key not in known:
            raise ConfigError(
                f"recipe {kind.NAME} has no setting {key!r}{beside}; it has {', '.join(known)}",
                hint=f"write --set KEY=VALUE with one of these{guess(key, known)}",
            )
        values[key] = _value(key, value, known[key])
    if processor is not None:
        changed = {key: values.pop(key) for key in inner if key in values}
        values["processor"] = replace(processor, **changed)
    return cast("Recipe", kind(**values))


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


def recorded_processor(kind: type[Any], recorded: Mapping[str, Any]) -> Processor | None:
    """The image processor of a recipe `kind` as a manifest has it; None for one without images.

    Raises:
        ConfigError: where it has settings that this version does not take.
    """
    if recorded.get("image_processor") is None:
        return None
    name = recorded.get("processor")
    known = settings_of(_processor(name, SQUARE))
    settings = {key: value for key, value in recorded.items() if key in known}
    return configure(kind, {"processor": name, **settings}).image_processor()


def _processor(name: Any, default: Processor) -> Any:
    """The processor `name` with its defaults; `default` itself where that is the one."""
    if name == default.NAME:
        return default
    if isinstance(name, str) and name in PROCESSORS:
        return PROCESSORS[name]()
    if isinstance(name, str) and name.startswith(hf.PREFIX):
        return hf.read(Path(name.removeprefix(hf.PREFIX)))
    raise ConfigError(
        f"processor={name!r} is none of {', '.join(PROCESSORS)}, {hf.PREFIX}DIR",
        hint=f"choose one with --set processor=NAME{guess(str(name), PROCESSORS)}",
    )


def _value(key: str, value: Any, default: Any) -> Any:
    if default is None:  # an object, which the recipe itself looks at
        return value
    kind = type(default)
    if isinstance(value, str) and kind is bool:
        value = _BOOLEANS.get(value.lower(), value)
    elif isinstance(value, str) and kind is int and re.fullmatch(r"-?[0-9]{1,20}", value):
        value = int(value)
    elif kind is float and (type(value) is int or (isinstance(value, str) and re.fullmatch(r"[0-9.]{1,20}", value))):
        value = _number(value)
    elif kind is tuple and isinstance(value, list) and all(isinstance(text, str) for text in value):
        value = tuple(value)
    if type(value) is not kind:
        hint = f"write --set {key}=VALUE, for instance {key}={default}"
        if kind is tuple:
            hint = f"write {key} = [...] in a TOML file, or --set {key}=FILE, a file with one text in each line"
        raise ConfigError(f"{key}={value!r} is not {_WORDS[kind]}", hint=hint)
    if kind is int and not -_MOST <= value <= _MOST:
        raise ConfigError(f"{key}={value} is not {-_MOST} to {_MOST}", hint=f"write a smaller number for {key}")
    return value


def _number(value: Any) -> Any:
    try:
        return float(value)
    except ValueError:
        return value
