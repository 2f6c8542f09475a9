"""A self-contained copy: the same dataset in one folder, wherever that is moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shardkit.cli import run as command
from shardkit.errors import IntegrityError, OutputError
from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.export.self_contained import SelfContainedConfig, run
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write


@pytest.fixture
def view(tmp_path: Path) -> Path:
    """A view of two datasets, one of them of tars."""
    rows = [example(f"text {k}", png(k), source="a", group=f"g{k // 2}") for k in range(12)]
    write(tmp_path / "arrow", [*rows[:6], rows[1]], unit_rows=3)
    write(tmp_path / "tar", rows[6:], shards="tar")
    dedup(DedupConfig(inputs=(tmp_path / "arrow", tmp_path / "tar"), output=tmp_path / "view"))
    return tmp_path / "view"


def copy(dataset: Path, output: Path | None, **options):
    return run(SelfContainedConfig(dataset=dataset, output=output, **options))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_it_is_the_same_dataset_wherever_it_lies(view: Path, tmp_path: Path):
    before = Dataset.open(view)
    result = copy(view, tmp_path / "copy")
    assert (result.dataset_id, result.num_inputs, result.unchanged) == (before.id, 2, False)
    wanted = texts(before)
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "copy", tmp_path / "elsewhere" / "moved")
    for name in ("view", "arrow", "tar"):
        shutil.rmtree(tmp_path / name)
    moved = tmp_path / "elsewhere" / "moved"
    assert texts(Dataset.open(moved)) == wanted
    checked = verify(VerifyConfig(dataset=moved, deep=True))
    assert (checked.problems, checked.stray) == ((), ())
    for inner in sorted((moved / "inputs").iterdir()):
        assert not verify(VerifyConfig(dataset=inner)).problems
    split(SplitConfig(input=moved, output=tmp_path / "split", ratios=parse_ratios("train=0.5,test=0.5")))
    assert texts(Dataset.open(tmp_path / "split")) == wanted
    again = copy(moved, tmp_path / "again")
    assert again.dataset_id == before.id
    assert contents(tmp_path / "again") == contents(moved)


def test_a_dataset_of_its_own_shards_is_copied_as_it_is(view: Path, tmp_path: Path):
    result = copy(tmp_path / "arrow", tmp_path / "copy")
    assert result.num_inputs == 0
    one, two = contents(tmp_path / "arrow"), contents(tmp_path / "copy")
    del one[".lock"]
    assert one == two


def test_what_stands_in_the_way(view: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "copy"
    told = copy(view, None, dry_run=True)
    assert not out.exists()
    assert copy(view, out).num_files == told.num_files == len(contents(out))
    assert copy(view, out).unchanged
    with pytest.raises(OutputError, match="another one is here, a copy of the dataset"):
        copy(tmp_path / "tar", out)
    (out / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"the folder holds mine\.txt"):
        copy(tmp_path / "tar", out, overwrite=True)
    (out / "mine.txt").unlink()
    copy(tmp_path / "tar", out, overwrite=True)
    assert not (out / "inputs").exists()
    with pytest.raises(OutputError, match="nothing that this command wrote"):
        copy(tmp_path / "tar", view, overwrite=True)
    with pytest.raises(OutputError, match="lie in each other"):
        copy(view, tmp_path / "arrow" / "copy")
    assert command(["export", str(view), "-o", str(tmp_path / "x")]) == 2
    assert "Missing option '--format'" in capsys.readouterr().err
    assert command(["export", str(view), "--self-contained", "-o", str(tmp_path / "x"), "--quiet"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'x'}\t{Dataset.open(view).id}\n"


def test_a_damaged_file_is_no_copy(view: Path, tmp_path: Path):
    shard = next((tmp_path / "arrow" / "shards").rglob("*.arrow"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(IntegrityError, match="digest is xxh3:"):
        copy(view, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / ".copy.new").exists()
