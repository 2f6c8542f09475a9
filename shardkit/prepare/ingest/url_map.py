"""--url-map: addresses to files of a local store. An address is a key and is never fetched.

A map is JSON lines of {"url": ..., "file": ...}; file is null where the address could not be fetched. Files lie relative
to the folder of the map.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import orjson

from shardkit.errors import SourceError
from shardkit.prepare.ingest.roots import open_input


@lru_cache(maxsize=1)
def load_maps(paths: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Address -> (folder of its map, file) over all maps; the first map that knows an address wins.

    Held in memory once a process: about 300 bytes an address.

    Raises:
        SourceError: where a line is no such object.
    """
    found: dict[str, tuple[str, str]] = {}
    for path in paths:
        folder, name = os.path.split(path)
        with open_input(path, name) as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    url, file = _entry(line, f"{name}:{number}")
                    if file is not None:
                        found.setdefault(url, (folder, file))
    return found


def _entry(line: bytes, where: str) -> tuple[str, str | None]:
    try:
        entry: Any = orjson.loads(line)
    except ValueError:
        entry = None
    url, file = (entry.get("url"), entry.get("file")) if isinstance(entry, dict) else (None, None)
    if not isinstance(url, str) or not (file is None or isinstance(file, str)):
        raise SourceError(
            'an address map has lines of {"url": "...", "file": "..."}, this is none',
            where=where,
            hint="correct the line, or give another file to --url-map",
        )
    return url, file
