"""--label-vocab: what the token ids of labels stand for, one label a line."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path

from shardkit.digest import xxh3
from shardkit.errors import ConfigError
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.reasons import Bad

SPACE = "<space>"
"""How a line of its own writes a space."""


def vocabulary_digest(path: Path) -> str:
    """xxh3-128 of the file.

    Raises:
        ConfigError: where it cannot be read, is no UTF-8 or names nothing.
    """
    load_vocabulary(path)
    return xxh3(_read(path))


@lru_cache(maxsize=4)
def load_vocabulary(path: Path) -> tuple[str, ...]:
    """The labels; the first line is the label of id 1.

    Raises:
        ConfigError: where it cannot be read, is no UTF-8 or names nothing.
    """
    try:
        text = decoded(_read(path), Counter())
    except Bad as bad:
        raise ConfigError(
            f"--label-vocab: {bad.detail}", where=str(path), hint="give a UTF-8 file of one label a line"
        ) from None
    if not text:
        raise ConfigError("--label-vocab is empty", where=str(path), hint="give a UTF-8 file of one label a line")
    return tuple(" " if label == SPACE else label for label in text.split("\n"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--label-vocab cannot be read: {error.strerror}",
            where=str(path),
            hint="check the path and its permissions",
        ) from None
