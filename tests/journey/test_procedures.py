"""The procedures of the case corpus for what is written and what is read: places, kills, two writers, changed inputs.

The clean set is that of the corpus: `ingest rows base/rows.jsonl --shard-size 4096`. What needs rights (mounts, another
user) is reported as unavailable where they are missing; the injected variants run everywhere.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from shardkit.cli import run
from shardkit.store.dataset import Dataset
from tests.contract.caserunner import copy_tree, load_faults
from tests.journey.road import apart, content, receipts, shardkit, start

NOBODY = 65534
AS_NOBODY = """
import json, os, sys
from shardkit.cli import run
first, then = json.loads(sys.argv[1])
assert run(first) == 0  # as the superuser, to another place: every module is loaded then
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
sys.exit(run(then))
"""


def ingest(base: Path, out: Path, *more: object) -> list[str]:
    words = ["ingest", "rows", base / "rows.jsonl", "--shard-size", 4096, "--source", "case", "--workers", 1, "-o", out]
    return [str(word) for word in [*words, *more]]


def manifest(out: Path) -> bool:
    return (out / "manifest.json").exists()


def shards(out: Path) -> list[str]:
    """Names of the shards that are there."""
    return sorted(path.name for path in (out / "shards").rglob("*.arrow"))


@pytest.fixture(scope="session")
def faults(cases: Path) -> ModuleType:
    return load_faults(cases)


@pytest.fixture
def base(cases: Path, tmp_path: Path) -> Path:
    """A copy of the corpus's base: 120 rows, 60 of them with a picture."""
    copy_tree(cases / "files" / "base", tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture(scope="session")
def clean(cases: Path, once: Callable[..., Path]) -> Path:
    """The clean set. Only to be read."""

    def make(folder: Path) -> None:
        copy_tree(cases / "files" / "base", folder / "base")
        shardkit(*ingest(folder / "base", folder / "set"))

    return once("clean", make) / "set"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user reaches; those of the test runner are for its own user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def as_nobody(first: list[str], then: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `then` as a user whom permissions bind; `first` is a like command that loads what the program needs."""
    if os.geteuid() != 0:
        pytest.skip("unavailable: only the superuser can become another user")
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY, json.dumps([first, then]), str(NOBODY)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def assert_told(said: subprocess.CompletedProcess[str], folder: Path, cause: str) -> None:
    """Exit 8 with one message that names the folder and the cause."""
    assert said.returncode == 8, said.stderr
    assert folder.name in said.stderr
    assert cause in said.stderr
    assert "\nNext: " in said.stderr
    assert "Traceback" not in said.stderr


# --------------------------------------------------------------------------- read-only-output
def test_output_on_a_read_only_place(base, tmp_path, faults):
    place = tmp_path / "place"
    place.mkdir()
    try:
        with faults.read_only(place):
            assert_told(shardkit(*ingest(base, place / "out"), code=8), place, "EROFS")
    except faults.Unavailable as missing:
        pytest.skip(f"unavailable: {missing}")
    assert list(place.iterdir()) == []


def test_output_in_a_folder_without_permission(base, open_folder, tmp_path):
    copy_tree(base, open_folder / "base")
    place = open_folder / "place"
    place.mkdir(mode=0o755)
    said = as_nobody(ingest(open_folder / "base", tmp_path / "first"), ingest(open_folder / "base", place / "out"))
    assert_told(said, place, "EACCES")
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_an_output_folder_that_cannot_be_made(base, tmp_path, monkeypatch, capsys, error):
    """The injected variant: every call that makes a folder fails."""

    def refuse(path: object, *_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        assert run(ingest(base, tmp_path / "out")) == 8
    said = capsys.readouterr()
    assert errno.errorcode[error] in said.err
    assert "out" in said.err
    assert "\nNext: " in said.err
    assert not (tmp_path / "out").exists()


# --------------------------------------------------------------------------- disk-full
@pytest.mark.parametrize("room", [{"size": "96k"}, {"size": "1m", "files": 5}], ids=["96 KiB", "5 inodes"])
def test_a_full_disk_and_then_room(base, clean, tmp_path, faults, room):
    place = tmp_path / "disk"
    place.mkdir()
    try:
        with faults.small_disk(place, **room):
            said = shardkit(*ingest(base, place / "out"), code=8).stderr
            assert "space" in said
            assert "\nNext: " in said
            assert not manifest(place / "out")
            subprocess.run(["mount", "-o", "remount,size=64m,nr_inodes=10000", place], check=True)
            shardkit(*ingest(base, place / "out"))
            assert content(place / "out") == content(clean)
    except faults.Unavailable as missing:
        pytest.skip(f"unavailable: {missing}")


# --------------------------------------------------------------------------- kill
def verified(out: Path) -> None:
    """`verify` tells a whole set from none."""
    said = shardkit("verify", out, code=0 if manifest(out) else 4).stderr
    assert manifest(out) or "no dataset is here" in said


def killed(command: list[str], ready: Callable[[], bool]) -> None:
    """Start a command and kill it as soon as `ready()`."""
    process = start(*command)
    while process.poll() is None and not ready():
        time.sleep(0.0005)
    process.kill()
    process.communicate()


def kill_at_moments(base: Path, clean: Path, tmp_path: Path, faults: ModuleType, count: int) -> None:
    begin = time.monotonic()
    apart(*ingest(base, tmp_path / "timed"))
    for number, moment in enumerate(faults.moments(time.monotonic() - begin, count, 0)):
        out = tmp_path / f"out-{number}"
        words = [sys.executable, "-m", "shardkit", *ingest(base, out)]
        faults.kill_after(words, moment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        verified(out)
        shardkit(*ingest(base, out))
        assert content(out) == content(clean), f"killed after {moment:.2f} s"


def test_killed_at_moments(base, clean, tmp_path, faults):
    kill_at_moments(base, clean, tmp_path, faults, 4)


@pytest.mark.full
def test_killed_at_forty_moments(base, clean, tmp_path, faults):
    kill_at_moments(base, clean, tmp_path, faults, 40)


@pytest.mark.parametrize("which", [1, 3, -1], ids=["first", "third", "last"])
def test_killed_as_a_shard_appears(base, clean, tmp_path, which):
    number = which if which > 0 else len(shards(clean))
    out = tmp_path / "out"
    killed(ingest(base, out), lambda: len(shards(out)) >= number)
    verified(out)
    shardkit(*ingest(base, out))
    assert content(out) == content(clean)


# --------------------------------------------------------------------------- two-writers
def two_inputs(base: Path, clean: Path, tmp_path: Path, rounds: int) -> None:
    other = tmp_path / "other" / "base"
    copy_tree(base, other)
    rows = (other / "rows.jsonl").read_bytes().split(b"\n")
    (other / "rows.jsonl").write_bytes(b"\n".join(rows[:60]) + b"\n")
    shardkit(*ingest(other, tmp_path / "whole"))
    wholes = [content(clean), content(tmp_path / "whole")]
    for number in range(rounds):
        out = tmp_path / f"out-{number}"
        processes = [start(*ingest(folder, out)) for folder in (base, other)]
        said = [process.communicate(timeout=120)[1] for process in processes]
        assert sorted(process.returncode for process in processes) == [0, 8], said
        assert not any("Traceback" in text for text in said)
        winner = next(k for k, process in enumerate(processes) if process.returncode == 0)
        assert content(out) == wholes[winner]


def test_two_inputs_into_one_folder(base, clean, tmp_path):
    two_inputs(base, clean, tmp_path, 2)


@pytest.mark.full
def test_two_inputs_into_one_folder_often(base, clean, tmp_path):
    two_inputs(base, clean, tmp_path, 20)


# --------------------------------------------------------------------------- half-finished
def half_way(base: Path, out: Path) -> None:
    """A run that is killed when two of its units are finished."""
    killed(ingest(base, out, "--unit-size", 1500), lambda: receipts(out) >= 2 or manifest(out))
    assert not manifest(out)
    assert receipts(out) >= 2


def test_half_finished_and_other_options(base, tmp_path):
    out = tmp_path / "out"
    half_way(base, out)
    command = ingest(base, out, "--unit-size", 1500)
    other = [word if word != "4096" else "8192" for word in command]
    said = shardkit(*other, code=8).stderr
    assert "shard" in said
    assert "\nNext: " in said
    shardkit(*command)
    shardkit(*ingest(base, tmp_path / "whole", "--unit-size", 1500))
    assert content(out) == content(tmp_path / "whole")


# --------------------------------------------------------------------------- unreadable-input
def spoil(base: Path) -> list[Path]:
    """Three of four pictures that cannot be read; the first is left for permission."""
    pictures = sorted((base / "img").iterdir())[:4]
    for picture in pictures[1:]:
        picture.unlink()
    pictures[1].mkdir()
    pictures[2].symlink_to("nowhere.jpg")
    pictures[3].symlink_to(pictures[3].name)
    return pictures


def assert_four_causes(out: Path) -> None:
    dataset = Dataset.open(out)
    reasons = Counter(json.loads(row)["reason"] for row in dataset.exclusions())
    assert reasons == {"asset_unreadable": 1, "asset_folder": 1, "asset_missing": 1, "asset_loop": 1}
    assert dataset.manifest.counts["read"] == 120
    assert dataset.manifest.counts["kept"] == 116


def test_unreadable_pictures_as_another_user(base, open_folder, tmp_path):
    copy_tree(base, open_folder / "base")
    spoil(open_folder / "base")[0].chmod(0)
    place = open_folder / "place"
    place.mkdir()
    place.chmod(0o777)
    said = as_nobody(ingest(base, tmp_path / "first"), ingest(open_folder / "base", place / "out"))
    assert said.returncode == 0, said.stderr
    assert_four_causes(place / "out")


def test_unreadable_pictures(base, tmp_path, monkeypatch):
    """The injected variant: opening one picture is not permitted."""
    forbidden = str(spoil(base)[0].resolve())
    real = os.open

    def guarded(path: object, *arguments: int, **named: int) -> int:
        if str(path) == forbidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), forbidden)
        return real(path, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", guarded)
        assert run(ingest(base, tmp_path / "out")) == 0
    assert_four_causes(tmp_path / "out")


# --------------------------------------------------------------------------- changed-input
def test_pictures_that_change_between_two_runs(base, tmp_path, capsys):
    out = tmp_path / "out"
    half_way(base, out)
    pictures = sorted((base / "img").iterdir())
    first, last = pictures[0], pictures[-1]
    first.write_bytes(pictures[1].read_bytes())
    last.write_bytes(pictures[-2].read_bytes())
    if run(ingest(base, out, "--unit-size", 1500)) == 4:
        assert first.name in capsys.readouterr().err
        return
    assert manifest(out)
    shardkit(*ingest(base, tmp_path / "fresh", "--unit-size", 1500))
    assert content(out) == content(tmp_path / "fresh")


def test_the_clean_set_is_what_the_corpus_says(clean):
    assert len(shards(clean)) >= 7
    assert Dataset.open(clean).manifest.counts["kept"] == 120
