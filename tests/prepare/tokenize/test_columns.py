"""The columns of sequences and lengths are those of the page on formats."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.store.sequences import lengths_schema, sequences_schema

PAGE = (Path(__file__).resolve().parents[3] / "docs/formats.md").read_text(encoding="utf-8")


def documented(heading: str) -> list[str]:
    """First cells of the table below `heading`."""
    section = re.split(r"\n#+ ", PAGE.split(heading, 1)[1])[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_the_columns_of_a_sequence_shard_are_documented() -> None:
    schema = sequences_schema(pa.uint16())
    assert documented("## Sequence shard: ") == schema.names
    assert documented("### Slots of a sequence: ") == [field.name for field in schema.field("slots").type.value_type]


def test_the_columns_of_lengths_are_documented() -> None:
    names = lengths_schema(["<objective>"]).names
    assert documented("### Lengths: ") == names


def test_the_bytes_of_objectives_are_documented() -> None:
    listed = re.search(r"0 never a target, ([^.]+)\.", PAGE)
    assert listed is not None
    assert listed[1] == ", ".join(f"{byte} {name}" for name, byte in OBJECTIVES.items() if byte)
