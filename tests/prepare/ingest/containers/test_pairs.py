"""Stems: what belongs together in a folder, in any spelling, and what does not."""

from __future__ import annotations

import random
import unicodedata

import pytest

from shardkit.prepare.ingest.containers.pairs import Pair, pairs, part, plan, records
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.units import InputFile
from tests.prepare.ingest.builders import changes, config

LABELS = (".gt.txt", ".txt", ".json")
ROOT = InputFile(name=".", path="/", size=0)


def files(*names: str, size: int = 10) -> list[InputFile]:
    return [InputFile(name=name, path=f"/{name}", size=size) for name in names]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.png", ("a", "image")),
        ("x/a.v1.JPG", ("x/a.v1", "image")),
        ("line.bin.png", ("line", "image")),
        ("line.gt.txt", ("line", ".gt.txt")),
        ("x.y/line.txt", ("x.y/line", ".txt")),
        ("a.TXT", ("a", ".txt")),
        ("a.yml", None),
        ("png", None),
        ("x.y/png", None),
    ],
)
def test_what_a_file_is_to_its_stem(name, expected):
    assert part(name, LABELS) == expected


def read(listed: list[InputFile], max_bytes: int = 10**9) -> list[Pair]:
    return [
        entry.value
        for piece in plan(listed, LABELS, ROOT, max_bytes=max_bytes)
        for entry in records(pairs(piece, LABELS), config())
        if not isinstance(entry, dict)
    ]


def test_stems_of_different_folders_stay_apart_and_others_are_not_looked_at():
    got = read(files("one/c.png", "two/c.png", "one/c.txt", "two/c.gt.txt", "readme.md"))
    assert [(p.stem, p.images, p.labels) for p in got] == [
        ("one/c", ("one/c.png",), ((".txt", "one/c.txt"),)),
        ("two/c", ("two/c.png",), ((".gt.txt", "two/c.gt.txt"),)),
    ]


def test_no_unit_size_parts_a_stem_and_no_listing_order_counts():
    listed = [file for n in range(700) for file in files(f"{n:04}.png", f"{n:04}.txt", f"{n:04}.json")]
    whole = read(listed)
    assert len(whole) == 700
    random.Random(0).shuffle(listed)
    for max_bytes in (1, 50, 1000, 10**9):
        assert read(listed, max_bytes) == whole
    assert max(len(piece.files) for piece in plan(listed, LABELS, ROOT, max_bytes=10**9)) == 256 * 3


def test_names_that_differ_in_unicode_form_alone_are_one_stem():
    composed, apart = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    assert composed != apart
    piece = next(plan(files(f"{composed}.png", f"{apart}.txt", "plain.png"), LABELS, ROOT, max_bytes=10**9))
    got = list(records(pairs(piece, LABELS), config()))
    assert changes(got) == {"stem_matched_by_unicode_form": 1}
    assert [(r.position, len(r.value.files)) for r in got if not isinstance(r, dict)] == [("plain", 1), ("é", 2)]


def test_two_images_or_two_labels_of_a_kind_are_ambiguous():
    twice = Pair(stem="a", images=("a.jpg", "a.png"), labels=())
    with pytest.raises(Bad, match=r"a\.jpg, a\.png"):
        twice.image()
    labels = Pair(stem="a", images=(), labels=((".txt", "a.TXT"), (".txt", "a.txt")))
    with pytest.raises(Bad, match="several labels"):
        labels.label_files()
    with pytest.raises(Bad, match="no image"):
        labels.image()
