"""A TOML file that a user wrote: recipes, mixtures, stages, control tokens."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_toml(file: Path, what: str, *, find: str, write: str) -> dict[str, Any]:
    """The content of a TOML file; a byte order mark and the line ends of Windows are no part of it.

    Args:
        what: how an error calls the file, such as "the mixture file".
        find: what helps where it cannot be read.
        write: what helps where it is no TOML.

    Raises:
        ConfigError: in both cases.
    """
    try:
        content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{what} cannot be read ({error.strerror})", where=str(file), hint=find) from error
    # No TOML, no UTF-8, a number of thousands of digits, brackets without end.
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is no TOML ({error})", where=str(file), hint=write) from error
    return content
