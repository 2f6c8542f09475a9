"""Mutants of good and bad inputs: a parser gives records, exclusions or one refusal, and never anything else."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Callable

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest.containers.streams import Damaged, Stream
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats.ocr_label import read_label
from shardkit.prepare.ingest.formats.tiff_pages import tiff_pages
from shardkit.prepare.ingest.reasons import REASONS, Bad
from shardkit.prepare.ingest.units import InputFile
from shardkit.records import Exclusion
from shardkit.store.tar_walk import walk
from tests.prepare.ingest.builders import config, entries, input_file, jsonl, picture, tar, tiff

MUTANTS = 400


def mutants(seed: bytes, count: int, number: int) -> list[bytes]:
    """Copies with bytes turned, cut, repeated, spliced or swapped for telling ones."""
    chance = random.Random(number)
    telling = [b'"', b"\n", b"\0", b"\xff", b",", b"{", b"]", b"9" * 30, b"\\ud800", b"\xef\xbb\xbf", b"\r"]
    made = []
    for _ in range(count):
        data = bytearray(seed)
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(data) + 1)
            kind = chance.randrange(5)
            if kind == 0 and at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                del data[at : at + chance.randrange(1, 40)]
            elif kind == 2:
                data[at:at] = data[at : at + chance.randrange(1, 60)]
            elif kind == 3:
                data[at:at] = chance.choice(telling)
            else:
                data[at:] = b"" if chance.random() < 0.3 else data[at:]
        made.append(bytes(data))
    return made


ROWS = jsonl(
    [{"text": "<image> ä", "images": ["a.png"], "n": [1, 2.5, None]}, {"text": "two\nlines", "x": {"y": "z"}}] * 3
)
TABLE = 'image,caption\na.png,"say ""hi"", twice"\nb.png,"two\nlines"\nc.png,plain ü\n'.encode() * 2
SAMPLES = tar([("a.jpg", b"x" * 600), ("a.txt", b"t"), ("b.json", b"{}"), ("dir/c.jpg", b"y")])
LABEL = b'{"lines": [{"text": "a", "bbox": [0, 1, 2, 3]}, {"text": "b"}], "reading_order": [1, 0], "size": [4, 4]}'


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("jsonl", ROWS),
        ("table", TABLE),
        ("tar", SAMPLES),
        ("tar", gzip.compress(SAMPLES)),
        ("jsonl", gzip.compress(ROWS)),
    ],
    ids=["jsonl", "table", "tar", "tar.gz", "jsonl.gz"],
)
def test_containers(tmp_path, kind, seed):
    outcomes: Counter[str] = Counter()
    for number, data in enumerate(mutants(seed, MUTANTS, 1)):
        file = input_file(tmp_path, "input", data)
        settings = config(unit_size=(100, 10**9)[number % 2], salvage=number % 3 == 0)
        got = _read(kind, file, settings)
        outcomes["refused" if got is None else "read"] += 1
        assert all(entry.reason in REASONS for entry in got or () if isinstance(entry, Exclusion))
    assert outcomes["read"] > 30, "the mutants are not all refused at the door"


def _read(kind: str, file: InputFile, settings: IngestConfig) -> list | None:
    """What a container reads; None where it refuses the input."""
    try:
        return entries(kind, file, settings)
    except SourceError:
        return None


def _walked(tmp_path, data: bytes) -> None:
    file = input_file(tmp_path, "input", data)
    stream = Stream(file)
    try:
        list(walk(stream, size=len(data), keep=100))
    finally:
        stream.close()


PARSERS: dict[str, tuple[bytes, Callable[..., object]]] = {
    "json": (ROWS.split(b"\n")[0], lambda _, data: parse(data)),
    "label": (LABEL, lambda _, data: read_label({".json": data, ".txt": b"b\na"}, Counter())),
    "tiff": (tiff(3), lambda _, data: tiff_pages(data)),
    "walk": (SAMPLES, _walked),
}


@pytest.mark.parametrize("name", PARSERS)
def test_parsers(tmp_path, name):
    seed, parser = PARSERS[name]
    outcomes: Counter[str] = Counter()
    for data in mutants(seed, 3 * MUTANTS, 2):
        try:
            parser(tmp_path, data)
            outcomes["taken"] += 1
        except (Bad, Damaged):
            outcomes["bad"] += 1
    assert outcomes["taken"] > 10
    assert name == "tiff" or outcomes["bad"] > 10


def test_pictures_of_the_seeds_are_good():
    assert picture().startswith(b"\x89PNG")
