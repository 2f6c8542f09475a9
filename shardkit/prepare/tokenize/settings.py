"""The recipe that a command line names: NAME or FILE, and settings that stand before the file's."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardkit.errors import ConfigError, guess
from shardkit.media.processors import hf
from shardkit.records.toml_file import read_toml
from shardkit.sequence.recipes import RECIPES, Recipe, configure
from shardkit.text.template import ChatTemplate

if TYPE_CHECKING:
    from collections.abc import Mapping


_TEMPLATE = "chat_template"


def read_recipe(name: str, settings: Mapping[str, str], chat_template: Path | None = None) -> Recipe:
    """The recipe `name`, or the one that the TOML file `name` describes, with `settings` laid over it.

    A setting that holds texts or a chat template may be the name of a file, which is read here; files that a TOML file
    names lie beside it.

    Args:
        chat_template: the file of a chat template, before that of the settings.

    Raises:
        ConfigError: for an unknown recipe or setting, or an unreadable file.
    """
    described: dict[str, Any] = {}
    beside = Path()
    if name not in RECIPES and (name.endswith(".toml") or Path(name).is_file()):
        file = Path(name)
        described = read_toml(
            file, "the recipe", find="give a file or a name with --recipe", write="write name = ... and settings"
        )
        beside = file.parent
        name = str(described.pop("name", ""))
        if name not in RECIPES:
            raise ConfigError(
                f"it names {f'the recipe {name!r}' if name else 'no recipe'}; there are {', '.join(RECIPES)}",
                where=str(file),
                hint=f"write name = ... in it{guess(name, RECIPES)}",
            )
    if name not in RECIPES:
        raise ConfigError(
            f"there is no recipe {name!r}; there are {', '.join(RECIPES)}",
            hint=f"choose one with --recipe{guess(name, RECIPES)}, or give a TOML file with name = ... in it",
        )
    given = {_TEMPLATE: str(chat_template)} if chat_template is not None else {}
    if given and _TEMPLATE not in {field.name for field in fields(RECIPES[name])}:
        raise ConfigError(f"recipe {name} has no chat template", hint="leave out --chat-template")
    stated = {**_with_files(name, described, beside), **_with_files(name, {**settings, **given}, Path())}
    return configure(RECIPES[name], stated)


def _with_files(name: str, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`settings` with what the files hold that they name."""
    held = {field.name: field.default for field in fields(RECIPES[name])}
    found = dict(settings)
    for key, value in settings.items():
        if key == _TEMPLATE and key in held:
            if not isinstance(value, str):
                raise ConfigError(f"{key}={value!r} is no name of a file", hint=f"write {key} = 'FILE'")
            found[key] = ChatTemplate.load(folder / value)
        elif key == "processor" and isinstance(value, str) and value.startswith(hf.PREFIX):
            found[key] = f"{hf.PREFIX}{folder / value.removeprefix(hf.PREFIX)}"
        elif isinstance(value, str) and isinstance(held.get(key), tuple):
            found[key] = _lines(folder / value)
    return found


def _lines(file: Path) -> list[str]:
    """The lines of a text file that are not blank."""
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the texts cannot be read ({getattr(error, 'strerror', None) or 'it is no UTF-8 text'})",
            where=str(file),
            hint="give a text file that has one text in each line",
        ) from error
