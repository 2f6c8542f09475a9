"""A dump that has grown: only what is new is read as records, and the two datasets together are a fresh one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.prepare.ingest import IngestConfig, IngestResult, example, run
from shardkit.store import Dataset
from tests.prepare.builders import png
from tests.prepare.ingest import builders


def ingest(out: Path, dump: Path, kind: str = "caption", **options) -> IngestResult:
    return run(IngestConfig(format=kind, paths=(dump,), output=out, source="dump", **options))


def tar(path: Path, first: int, count: int) -> None:
    """A tar of pictures with captions, numbered from `first`."""
    path.parent.mkdir(exist_ok=True)
    members = [
        (f"{number:04d}{suffix}", data)
        for number in range(first, first + count)
        for suffix, data in ((".png", png(number)), (".txt", f"caption {number}".encode()))
    ]
    path.write_bytes(builders.tar(members))


def pair(folder: Path, number: int, *, image: bool = True, label: bool = True) -> None:
    folder.mkdir(exist_ok=True)
    if image:
        (folder / f"line{number}.png").write_bytes(png(number))
    if label:
        (folder / f"line{number}.gt.txt").write_text(f"text {number}\n")


def ids(path: Path) -> list[str]:
    return sorted(Dataset.open(path).table("examples")["example_id"].to_pylist())


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the pictures that are decoded from here on; with one worker everything happens here."""
    sizes: list[int] = []
    plain = example.load

    def counted(data: bytes, **options):
        sizes.append(len(data))
        return plain(data, **options)

    monkeypatch.setattr(example, "load", counted)
    monkeypatch.setattr(example, "_load_again", counted)
    return sizes


def test_only_new_tars_are_decoded_and_the_whole_is_a_fresh_one(tmp_path: Path, loads: list[int]):
    dump = tmp_path / "dump"
    tar(dump / "b.tar", 0, 4)
    tar(dump / "d.tar", 4, 3)
    ingest(tmp_path / "old", dump)
    assert len(loads) == 7
    tar(dump / "a.tar", 20, 2)  # sorts before the others, so that units of a fresh run would have other borders
    tar(dump / "c.tar", 30, 1)
    loads.clear()
    result = ingest(tmp_path / "new", dump, new_since=(tmp_path / "old",))
    assert (result.tally.read, len(loads)) == (3, 3)
    concat(ConcatConfig(inputs=(tmp_path / "old", tmp_path / "new"), output=tmp_path / "both"))
    ingest(tmp_path / "fresh", dump)
    assert ids(tmp_path / "both") == ids(tmp_path / "fresh")
    old, both = Dataset.open(tmp_path / "old"), Dataset.open(tmp_path / "both")
    assert {shard.entry.xxh3 for shard in old.shards} < {shard.entry.xxh3 for shard in both.shards}
    places = ["example_id", "input", "position", "group", "source"]
    both_rows, fresh_rows = (
        sorted(Dataset.open(tmp_path / name).table("examples", places).to_pylist(), key=str)
        for name in ("both", "fresh")
    )
    assert both_rows == fresh_rows


def test_it_goes_on_from_a_concat_and_may_find_nothing(tmp_path: Path, loads: list[int]):
    dump = tmp_path / "dump"
    tar(dump / "a.tar", 0, 2)
    ingest(tmp_path / "one", dump)
    tar(dump / "b.tar", 2, 2)
    ingest(tmp_path / "two", dump, new_since=(tmp_path / "one",))
    concat(ConcatConfig(inputs=(tmp_path / "one", tmp_path / "two"), output=tmp_path / "both"))
    loads.clear()
    nothing = ingest(tmp_path / "none", dump, new_since=(tmp_path / "both",))
    assert (nothing.tally.read, loads) == (0, [])
    assert ingest(tmp_path / "none", dump, new_since=(tmp_path / "one", tmp_path / "two")).unchanged
    tar(dump / "c.tar", 4, 1)
    assert ingest(tmp_path / "three", dump, new_since=(tmp_path / "both",)).tally.read == 1


def test_which_datasets_are_left_out_is_no_part_of_the_recipe(tmp_path: Path):
    dump = tmp_path / "dump"
    tar(dump / "a.tar", 0, 2)
    ingest(tmp_path / "old", dump)
    tar(dump / "b.tar", 2, 2)
    new = ingest(tmp_path / "new", dump, new_since=(tmp_path / "old",))
    (tmp_path / "alone").mkdir()
    (dump / "b.tar").rename(tmp_path / "alone" / "b.tar")
    assert ingest(tmp_path / "same", tmp_path / "alone").dataset == new.dataset


def test_pairs_are_new_by_their_stem(tmp_path: Path, loads: list[int]):
    dump = tmp_path / "dump"
    for number in range(3):
        pair(dump, number)
    pair(dump, 3, label=False)  # left out: its label comes later
    old = ingest(tmp_path / "old", dump, "ocr")
    assert (old.tally.kept, dict(old.tally.excluded)) == (3, {"missing_label": 1})
    pair(dump, 3, image=False)
    pair(dump, 4)
    loads.clear()
    new = ingest(tmp_path / "new", dump, "ocr", new_since=(tmp_path / "old",))
    assert (new.tally.kept, len(loads)) == (2, 2)
    ingest(tmp_path / "fresh", dump, "ocr")
    assert sorted([*ids(tmp_path / "old"), *ids(tmp_path / "new")]) == ids(tmp_path / "fresh")
    (dump / "line0.json").write_text(json.dumps({"text": "another text"}))
    with pytest.raises(SourceError, match=r"line0.json is new and belongs to line0, which the older dataset holds"):
        ingest(tmp_path / "more", dump, "ocr", new_since=(tmp_path / "old",))


def test_pictures_that_records_name_count_too(tmp_path: Path):
    dump = tmp_path / "dump"
    dump.mkdir()
    for number in range(2):
        (dump / f"{number}.png").write_bytes(png(number))
    rows = [{"text": f"<image>{k}", "images": [f"{k}.png"]} for k in range(3)]  # 2.png is missing
    (dump / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest(tmp_path / "old", dump, "rows")
    (dump / "b.jsonl").write_text(json.dumps({"text": "more"}) + "\n")
    assert ingest(tmp_path / "new", dump, "rows", new_since=(tmp_path / "old",)).tally.read == 1
    (dump / "0.png").write_bytes(png(99))
    (dump / "2.png").write_bytes(png(2))
    with pytest.raises(SourceError, match=r"are others now, or gone: 0.png, @missing/") as caught:
        ingest(tmp_path / "more", dump, "rows", new_since=(tmp_path / "old",))
    assert "without --new-since" in caught.value.hint


def test_a_changed_or_missing_input_stops_the_run(tmp_path: Path):
    dump = tmp_path / "dump"
    for number, name in enumerate("abcdefgh"):
        tar(dump / f"{name}.tar", number, 1)
    ingest(tmp_path / "old", dump)
    for name in "abcdefg":
        (dump / f"{name}.tar").unlink()
    with pytest.raises(SourceError, match=r"or gone: a.tar, b.tar, c.tar, d.tar, e.tar, ..."):
        ingest(tmp_path / "new", dump, new_since=(tmp_path / "old",))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"licence": "CC0"}, "made in another way: licence was None, now 'CC0'"),
        ({"limit": 3}, "--limit and --new-since exclude each other"),
    ],
)
def test_other_options_are_refused(tmp_path: Path, options: dict, told: str):
    dump = tmp_path / "dump"
    tar(dump / "a.tar", 0, 1)
    ingest(tmp_path / "old", dump)
    with pytest.raises(ConfigError) as caught:
        ingest(tmp_path / "new", dump, new_since=(tmp_path / "old",), **options)
    assert told in caught.value.what


def test_other_sources_and_places_are_refused(tmp_path: Path):
    dump = tmp_path / "dump"
    tar(dump / "a.tar", 0, 1)
    run(IngestConfig(format="caption", paths=(dump,), output=tmp_path / "old", source="else"))
    with pytest.raises(ConfigError, match=r"nothing in the older dataset comes from 'dump' \(its sources: else\)"):
        ingest(tmp_path / "new", dump, new_since=(tmp_path / "old",))
    with pytest.raises(OutputError, match="lie in each other"):
        run(
            IngestConfig(
                format="caption", paths=(dump,), output=tmp_path / "old", source="else", new_since=(tmp_path / "old",)
            )
        )


def lines(first: int, count: int) -> str:
    return "".join(json.dumps({"text": f"line {number}", "n": number}) + "\n" for number in range(first, first + count))


def rows_of(path: Path) -> list[tuple[str, str, str]]:
    table = Dataset.open(path).table("examples", ["example_id", "input", "position"])
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("unit_size", [256_000_000, 100])
def test_of_a_file_that_grew_only_the_new_lines_are_read(tmp_path: Path, unit_size: int):
    dump = tmp_path / "dump"
    dump.mkdir()
    olds: list[Path] = []
    for step, (first, count) in enumerate(((0, 10), (10, 7), (17, 1))):
        with (dump / "a.jsonl").open("a") as file:
            file.write("\n" + lines(first, count))  # a blank line has a number too
        out = tmp_path / f"step{step}"
        result = ingest(out, dump, "rows", new_since=tuple(olds), unit_size=unit_size)
        assert result.tally.read == count
        assert ingest(out, dump, "rows", new_since=tuple(olds), unit_size=unit_size).unchanged
        olds.append(out)
    assert Dataset.open(tmp_path / "step2").recipe["tails"] == {"a.jsonl": [(dump / "a.jsonl").stat().st_size - 30, 20]}
    concat(ConcatConfig(inputs=tuple(olds), output=tmp_path / "both"))
    ingest(tmp_path / "fresh", dump, "rows", unit_size=unit_size)
    assert rows_of(tmp_path / "both") == rows_of(tmp_path / "fresh")
    assert ingest(tmp_path / "none", dump, "rows", new_since=(tmp_path / "both",), unit_size=unit_size).tally.read == 0
    fingerprints = {
        row
        for path in (*olds, tmp_path / "fresh")
        for row in Dataset.open(path).table("provenance")["derived_recipe"].to_pylist()
    }
    assert len(fingerprints) <= 1


def test_lines_that_did_not_end_or_are_packed_are_changes(tmp_path: Path):
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "a.jsonl").write_text(lines(0, 2).rstrip("\n"))
    (dump / "b.jsonl.gz").write_bytes(gzip.compress(lines(10, 2).encode(), mtime=0))
    ingest(tmp_path / "old", dump, "rows")
    with (dump / "a.jsonl").open("a") as file:
        file.write("\n" + lines(2, 1))
    with (dump / "b.jsonl.gz").open("ab") as packed:
        packed.write(gzip.compress(lines(12, 1).encode(), mtime=0))
    with pytest.raises(SourceError, match=r"others now, or gone: a.jsonl, b.jsonl.gz"):
        ingest(tmp_path / "new", dump, "rows", new_since=(tmp_path / "old",))
