"""The commit: all or nothing, go on where a killed run stopped, replace nothing that is not ours."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import orjson
import pytest

from shardkit.errors import IntegrityError, OutputError, SourceError
from shardkit.records import Tally
from shardkit.store import Dataset, Output, Sealed, files
from tests.store.builders import RECIPE, fill, make_example, tree, write_dataset

UNITS = [[make_example(unit * 10 + row) for row in range(10)] for unit in range(3)]
OTHER = [[make_example(900 + row) for row in range(4)]]


def begin(path: Path, **changes: object) -> Output:
    settings = {"stage": "ingest", "recipe": RECIPE, "inputs": ["rows.jsonl"], **changes}
    return Output(path, **settings)


def test_a_dataset_gives_back_what_was_written(tmp_path: Path):
    dataset = write_dataset(tmp_path / "d", UNITS)
    assert [e for _, _, e in dataset.examples()] == [e for unit in UNITS for e in unit]
    assert dataset.manifest.counts == {
        "read": 33, "kept": 30, "excluded": 3, "excluded_by_reason": {"no_text": 3}, "changes": {},
    }  # fmt: skip
    assert dataset.manifest.totals["by_source"]["src"]["images"] == 30
    examples = dataset.table("examples").to_pylist()
    assert [row["position"] for row in examples[:11]] == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "1"]
    assert [dataset.shards[row["shard_index"]].name for row in examples] == [row["shard"] for row in examples]
    assert not (tmp_path / "d" / ".work").exists()


def test_no_manifest_no_dataset(tmp_path: Path):
    with begin(tmp_path / "d") as output, output.unit(0, "unit-0", shards="arrow", shard_size=400) as unit:
        unit.add(UNITS[0][0], input="rows.jsonl", position="1")
        unit.finish()
    with pytest.raises(SourceError, match="no dataset is here"):
        Dataset.open(tmp_path / "d")


def test_a_run_goes_on_after_its_receipts_and_ends_with_the_same_bytes(tmp_path: Path):
    whole = write_dataset(tmp_path / "whole", UNITS)
    with begin(tmp_path / "d") as output, output.unit(0, "unit-0", shards="arrow", shard_size=400) as unit:
        for row, example in enumerate(UNITS[0]):
            assets = [{"asset_id": i.asset_id, "frame": i.frame, "size": len(i.data)} for i in example.images]
            unit.add(example, input="rows.jsonl", position=str(row + 1), assets=assets)
        unit.tally.read = unit.tally.kept = 10
        unit.finish()
    with begin(tmp_path / "d") as output:
        assert list(output.receipts) == ["unit-0"]
        output.drop("unit-0")
        again = fill(output, UNITS)
    assert again.id == whole.id
    clean = tree(tmp_path / "whole")
    found = tree(tmp_path / "d")
    assert found.keys() == clean.keys()
    assert [name for name in clean if found[name] != clean[name]] in ([], ["manifest.json"])


def test_a_receipt_whose_shard_is_gone_does_not_count(tmp_path: Path):
    with begin(tmp_path / "d") as output, output.unit(0, "unit-0", shards="arrow", shard_size=400) as unit:
        unit.add(UNITS[0][0], input="rows.jsonl", position="1")
        unit.finish()
    next((tmp_path / "d" / "shards").rglob("*.arrow")).unlink()
    with begin(tmp_path / "d") as output:
        assert output.receipts == {}


def test_the_same_again_is_unchanged(tmp_path: Path):
    write_dataset(tmp_path / "d", UNITS)
    before = tree(tmp_path / "d")
    with begin(tmp_path / "d") as output:
        assert output.unchanged is not None
    assert tree(tmp_path / "d") == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": {**RECIPE, "shards": "tar"}}, "shards was 'arrow', now 'tar'"),
        (
            {"recipe": {**RECIPE, "limits": {"pixels": 1, "image": {"side": 3, "bytes": 2}}}},
            r"here: limits\.image\.side was 2, now 3$",
        ),
        ({"inputs": ["more.jsonl"]}, r"inputs differ \(before: rows.jsonl; now: more.jsonl\)"),
        ({"stage": "dedup"}, "made by ingest, not by dedup"),
    ],
)
def test_another_dataset_is_refused_with_the_difference(tmp_path: Path, changes: dict, message: str):
    nested = {**RECIPE, "limits": {"pixels": 1, "image": {"side": 2, "bytes": 2}}}
    write_dataset(tmp_path / "d", UNITS, recipe=nested if "limits" in changes.get("recipe", {}) else RECIPE)
    with pytest.raises(OutputError, match=message), begin(tmp_path / "d", **changes):
        pass


def test_an_unfinished_run_with_another_recipe_is_refused_with_the_difference(tmp_path: Path):
    with begin(tmp_path / "d"):
        pass
    with pytest.raises(OutputError, match="unfinished run is here: shards was 'arrow', now 'tar'"):
        begin(tmp_path / "d", recipe={**RECIPE, "shards": "tar"}).__enter__()
    with begin(tmp_path / "d", recipe={**RECIPE, "shards": "tar"}, overwrite=True) as output:
        assert output.receipts == {}


def test_overwrite_replaces_everything_and_only_after_the_new_one_is_whole(tmp_path: Path):
    write_dataset(tmp_path / "d", UNITS)
    before = tree(tmp_path / "d")
    other = {**RECIPE, "limit": 4}
    with begin(tmp_path / "d", recipe=other, overwrite=True) as output:
        assert tree(tmp_path / "d") == before
        fill(output, OTHER)
    assert [e for _, _, e in Dataset.open(tmp_path / "d").examples()] == OTHER[0]
    named = set(files_named(tmp_path / "d"))
    assert {name for name in tree(tmp_path / "d") if name.startswith("shards/")} == named
    assert [child.name for child in tmp_path.iterdir()] == ["d"]


def files_named(folder: Path) -> list[str]:
    return [shard["path"] for shard in orjson.loads((folder / "manifest.json").read_bytes())["shards"]]


def test_overwrite_never_touches_a_foreign_file(tmp_path: Path):
    write_dataset(tmp_path / "d", UNITS)
    (tmp_path / "d" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds notes\.txt"):
        write_dataset(tmp_path / "d", OTHER, recipe={**RECIPE, "limit": 4}, overwrite=True)
    assert (tmp_path / "d" / "notes.txt").read_text() == "mine"


def test_a_foreign_folder_a_file_and_an_input_are_refused(tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"not empty and holds no dataset \(notes.txt\)"):
        write_dataset(tmp_path / "d", UNITS)
    with pytest.raises(OutputError, match="a file is here"):
        write_dataset(tmp_path / "d" / "notes.txt", UNITS)
    for output, place in ((tmp_path / "d" / "x", tmp_path / "d"), (tmp_path, tmp_path / "d")):
        with pytest.raises(OutputError, match="lie in each other"):
            begin(output, protected=[place])


def test_two_runs_at_once_one_is_told(tmp_path: Path):
    with begin(tmp_path / "d"), pytest.raises(OutputError, match="another run is writing here"):
        begin(tmp_path / "d").__enter__()


def test_rows_that_do_not_add_up_are_not_committed(tmp_path: Path):
    with begin(tmp_path / "d") as output, pytest.raises(SourceError, match="read 3, kept 2, excluded 0"):
        output.commit(Sealed(tally=Tally(read=3, kept=2)))
    assert not (tmp_path / "d" / "manifest.json").exists()


@pytest.mark.parametrize("place", [b'"kept":30', b'"seconds":', b'"path":"shards'])
def test_a_changed_manifest_is_found(tmp_path: Path, place: bytes):
    write_dataset(tmp_path / "d", UNITS)
    file = tmp_path / "d" / "manifest.json"
    data = bytearray(file.read_bytes())
    at = data.index(place) + len(place) - 1
    data[at] = ord("9") if data[at] != ord("9") else ord("8")
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"manifest"):
        Dataset.open(tmp_path / "d")


CALLS = ["open", "write", "fsync", "link", "unlink"]


class Disk:
    """The os module with the n-th of the named calls failing, once or from then on."""

    def __init__(self, fail_at: int, code: int, *, forever: bool) -> None:
        self.count = 0
        self.fail_at = fail_at
        self.code = code
        self.forever = forever

    def __getattr__(self, name: str):
        real = getattr(os, name)
        if name not in CALLS:
            return real

        def call(*args, **kwargs):
            self.count += 1
            if self.count == self.fail_at or (self.forever and self.count > self.fail_at):
                raise OSError(self.code, os.strerror(self.code))
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize(
    ("code", "step"),
    [(errno.ENOSPC, 37), (errno.EIO, 41), pytest.param(errno.EDQUOT, 1, marks=pytest.mark.full)],
)
def test_whatever_call_fails_there_is_no_half_dataset(tmp_path: Path, monkeypatch, code: int, step: int, forever: bool):
    whole = write_dataset(tmp_path / "whole", UNITS[:2])
    counting = Disk(0, code, forever=False)
    monkeypatch.setattr(files, "os", counting)
    write_dataset(tmp_path / "counted", UNITS[:2])
    total = counting.count
    assert total > 100
    refused = 0
    for number in range(1, total + 1, step):
        target = tmp_path / f"d{number}"
        monkeypatch.setattr(files, "os", Disk(number, code, forever=forever))
        refused += _refused(target, errno.errorcode[code])
        monkeypatch.setattr(files, "os", os)
        assert write_dataset(target, UNITS[:2]).id == whole.id
        assert {n for n in tree(target) if n.startswith("shards/")} == {s.name for s in whole.shards}
    assert refused > total // step // 2


def _refused(target: Path, name: str) -> bool:
    try:
        write_dataset(target, UNITS[:2])
    except OutputError as error:
        return name in str(error)
    return False
