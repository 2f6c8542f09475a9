"""The recipe that a command line names: NAME or FILE, and settings that stand before the file's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardkit.errors import ConfigError
from shardkit.sequence.recipes import RECIPES, Recipe, configure, guess

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping


def read_recipe(name: str, settings: Mapping[str, str]) -> Recipe:
    """The recipe `name`, or the one that the TOML file `name` describes, with `settings` laid over it.

    Raises:
        ConfigError: for an unknown recipe or setting, or an unreadable file.
    """
    described: dict[str, Any] = {}
    if name not in RECIPES and (name.endswith(".toml") or Path(name).is_file()):
        described = _read(Path(name))
        name = str(described.pop("name", ""))
    if name not in RECIPES:
        raise ConfigError(
            f"there is no recipe {name!r}; there are {', '.join(RECIPES)}",
            hint=f"choose one with --recipe{guess(name, RECIPES)}, or give a TOML file with name = ... in it",
        )
    return configure(RECIPES[name], {**described, **settings})


def _read(file: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the recipe cannot be read ({error.strerror})", where=str(file), hint="give a file or a name with --recipe"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the recipe is no TOML ({error})", where=str(file), hint="write name = ... and settings"
        ) from error
    return described
