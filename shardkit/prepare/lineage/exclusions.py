"""Exclusions of a dataset by what was left out, found in the stream of lines without parsing each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa

from shardkit.digest import canonical_json
from shardkit.store.dataset import Dataset

_BLOCK = 4 << 20


def exclusions_of(dataset: Dataset, places: Iterable[tuple[str, str | None]]) -> list[dict[str, Any]]:
    """The exclusions of these (input, position), in order; of a whole input where the position is None."""
    needles = [_needle(*place) for place in places]
    found: list[dict[str, Any]] = []
    rest = b""
    with pa.input_stream(str(dataset.exclusions_file()), compression="zstd") as stream:
        while block := stream.read(_BLOCK):
            lines, end, rest = (rest + block).rpartition(b"\n")
            found += _in_lines(lines + end, needles)
    return found


def _in_lines(lines: bytes, needles: list[bytes]) -> list[dict[str, Any]]:
    starts: set[int] = set()
    for needle in needles:
        at = lines.find(needle)
        while at >= 0:
            starts.add(lines.rfind(b"\n", 0, at) + 1)
            at = lines.find(needle, at + len(needle))
    return [orjson.loads(lines[start : lines.index(b"\n", start)]) for start in sorted(starts)]


def _needle(name: str, position: str | None) -> bytes:
    """Keys of canonical JSON are sorted, so that input and position stand side by side."""
    if position is None:
        return canonical_json({"input": name})[1:-1] + b',"position":'
    return canonical_json({"input": name, "position": position})[1:-1] + b',"reason":'
