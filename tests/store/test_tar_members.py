"""A tar and its index say the same, member by member; where they do not, the row is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardkit.records import LayoutItem, example_id
from shardkit.store import Dataset
from shardkit.store.tar_shard import TarReader, header
from shardkit.store.whole import open_whole
from tests.prepare.builders import example, png, write

ROWS = [example("a crow", png(1), png(2)), example("a fox"), example("a cheese", png(3), weight=0.5)]


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    dataset = write(tmp_path / "a", ROWS, shards="tar")
    return dataset.shards[0].path


def unlike(shard: Path) -> list[tuple[int, str]]:
    reader = open_whole(Dataset.open(shard.parents[2]).shards[0], compare=False)
    assert isinstance(reader, TarReader)
    found = list(reader.unlike_members())
    reader.close()
    return found


def test_what_we_write_agrees(shard: Path):
    assert unlike(shard) == []


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    assert len(old) == len(new)
    return lambda data: data.replace(old, new)


def resized(data: bytes) -> bytes:
    """The header of the first picture states another size."""
    size = len(ROWS[0].images[0].data)
    name = f"00000000-{ROWS[0].example_id}.0.png"
    return data.replace(header(name, size), header(name, size + 512))


KEY = f"00000001-{ROWS[1].example_id}.json"
CHANGES: dict[str, tuple[Callable[[bytes], bytes], int, str]] = {
    "another text": (replaced(b"a fox", b"a dog"), 1, "says something else than the index"),
    "no JSON": (replaced(b'"a fox"', b'"a fox '), 1, "says something else than the index"),
    "another name": (replaced(KEY.encode(), KEY.replace("json", "text").encode()), 1, "another member"),
    "another size": (resized, 0, "another member"),
    "a member behind the last": (
        lambda data: data[:-1024] + header("more.json", 2) + b"{}".ljust(512, b"\0"),
        2,
        "members that the index does not know",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_named(shard: Path, what: str):
    change, row, says = CHANGES[what]
    before = shard.read_bytes()
    after = change(before)
    assert (len(after), after != before) == (len(before), True)
    shard.write_bytes(after)
    found = unlike(shard)
    assert [number for number, _ in found] == [row]
    assert says in found[0][1]


def test_numbers_are_compared_as_numbers(tmp_path: Path):
    """The index holds floats; the JSON has them as the reader wrote them."""
    word = LayoutItem(level="word", text="crow", polygon=(0, 0, 5, 5), confidence=1)
    row = replace(ROWS[0], images=(replace(ROWS[0].images[0], layout=(word,)), ROWS[0].images[1]))
    dataset = write(tmp_path / "b", [replace(row, example_id=example_id(row))], shards="tar")
    assert unlike(dataset.shards[0].path) == []
