"""--recipe: what a public dataset is, so that its name alone ingests it.

A recipe is a TOML file in this folder, or one of the user's own:

    format, homepage, revision, licence    texts
    group_by, on_missing_image             as the options of these names, where the format's own way will not do
    [fields]                               as --field NAME=COLUMN

It stands for options that were not given; it adds nothing that options could not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError, guess
from shardkit.records.toml_file import read_toml

FOLDER = Path(__file__).parent
_SUFFIX = ".toml"


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetRecipe:
    """How a public dataset is read, and under what terms it was published."""

    name: str
    """Also the default name of the source."""
    format: str
    """A key of SOURCES."""
    homepage: str | None = None
    revision: str | None = None
    licence: str | None = None
    group_by: str | None = None
    on_missing_image: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` options, with those of the recipe where they are None; of fields each one by itself."""
        own = {
            "format": self.format,
            "source": self.name,
            "revision": self.revision,
            "licence": self.licence,
            "group_by": self.group_by,
            "on_missing_image": self.on_missing_image,
        }
        filled = {key: value for key, value in own.items() if given.get(key) is None}
        mapped = given.get("fields") or {}
        # `text` is another word for caption: the user's word for it takes the place of the recipe's.
        replaced = {"caption"} if "text" in mapped else set()
        kept = {key: value for key, value in self.fields.items() if key not in replaced}
        return {**given, **filled, "fields": {**kept, **mapped}}


def names() -> list[str]:
    """The recipes that come with the program."""
    return sorted(path.stem for path in FOLDER.glob(f"*{_SUFFIX}"))


def load(recipe: str) -> DatasetRecipe:
    """The recipe of that name, or the one in the TOML file of that path.

    Raises:
        ConfigError: where there is none, or it is not what a recipe is.
    """
    if recipe in names():
        return _read(FOLDER / f"{recipe}{_SUFFIX}", recipe)
    path = Path(recipe)
    if path.suffix == _SUFFIX or path.is_file():
        return _read(path, path.stem)
    raise ConfigError(
        f"there is no recipe {recipe!r}; there are {', '.join(names())}",
        hint=f"choose one with --recipe{guess(recipe, names())}, or give a TOML file",
    )


def _read(path: Path, name: str) -> DatasetRecipe:
    hint = 'write format = "..." and, if need be, revision, licence, group_by, on_missing_image and [fields]'
    content = read_toml(path, "the recipe", find="give a file or a name to --recipe", write=hint)
    known = {one.name for one in fields(DatasetRecipe)}
    for key, value in content.items():
        if key not in known:
            raise ConfigError(f"a recipe has no field {key!r}", where=str(path), hint=hint)
        is_map = isinstance(value, dict) and all(isinstance(column, str) for column in value.values())
        if not (is_map if key == "fields" else isinstance(value, str)):
            raise ConfigError(
                f"{key} of the recipe is no {'table of texts' if key == 'fields' else 'text'}",
                where=str(path),
                hint=hint,
            )
    if "format" not in content:
        raise ConfigError("the recipe names no format", where=str(path), hint=hint)
    return DatasetRecipe(**{"name": name, **content})
