"""Checkpoints: whole or not there, checked, and never code."""

from __future__ import annotations

import os
import re

import pytest
import torch

from shardkit.errors import ConfigError, IntegrityError, OutputError
from shardkit.store import files
from shardkit.trainer.checkpoint import load_checkpoint, load_tensors, save_checkpoint, steps_of


def content(step):
    return {"step": step, "model": {"w": torch.full((100,), float(step))}, "loader": {"epoch": 1, "sums": [1, 2]}}


def names(folder):
    """With the digests of checkpoints left out."""
    return sorted(re.sub(r"-[0-9a-f]{32}\.pt", ".pt", path.name) for path in folder.iterdir())


def test_what_was_saved_comes_back(tmp_path):
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path, 3, content(3), keep_last=2)
    loaded = load_checkpoint(tmp_path)
    assert loaded["loader"] == {"epoch": 1, "sums": [1, 2]}
    assert torch.equal(loaded["model"]["w"], torch.full((100,), 3.0))


def test_only_the_last_ones_are_kept(tmp_path):
    for step in (1, 2, 3, 10):
        save_checkpoint(tmp_path, step, content(step), keep_last=2)
    assert names(tmp_path) == ["latest", "step-00000003.pt", "step-00000010.pt"]
    assert load_checkpoint(tmp_path)["step"] == 10


@pytest.mark.parametrize("refused", [1, 2], ids=["the checkpoint", "the pointer"])
def test_a_save_that_breaks_off_leaves_the_one_before(tmp_path, monkeypatch, refused):
    save_checkpoint(tmp_path, 1, content(1), keep_last=1)
    replaced = []

    def breaking(source, target, real=os.replace):
        replaced.append(target)
        if len(replaced) == refused:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr("shardkit.trainer.checkpoint.os.replace", breaking)
    with pytest.raises(OutputError, match="no space is left"):
        save_checkpoint(tmp_path, 2, content(2), keep_last=1)
    monkeypatch.undo()
    assert load_checkpoint(tmp_path)["step"] == 1
    save_checkpoint(tmp_path, 2, content(2), keep_last=1)
    assert names(tmp_path) == ["latest", "step-00000002.pt"]
    assert load_checkpoint(tmp_path)["step"] == 2


def test_every_byte_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    events = []

    def fsync(descriptor, real=os.fsync):
        events.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    def replace(source, target, real=os.replace):
        events.append("name " + os.path.basename(target))
        real(source, target)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr("shardkit.trainer.checkpoint.os.replace", replace)
    save_checkpoint(tmp_path / "c", 7, content(7), keep_last=1)
    at = {event: number for number, event in enumerate(events)}
    named = next(event for event in events if event.startswith("name step-00000007-"))
    assert at["sync step-00000007.pt.tmp"] < at[named] < at["sync latest.tmp"] < at["name latest"]
    assert events[-1] == "sync c"


def test_leftovers_of_later_steps_go_with_the_next_save(tmp_path):
    save_checkpoint(tmp_path, 2, content(2), keep_last=1)
    (tmp_path / f"step-00000009-{'0' * 32}.pt").write_bytes(b"killed before latest named it")
    (tmp_path / "step-00000009.pt.tmp").write_bytes(b"torn")
    assert load_checkpoint(tmp_path)["step"] == 2
    save_checkpoint(tmp_path, 4, content(4), keep_last=1)
    assert names(tmp_path) == ["latest", "step-00000004.pt"]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_whole(tmp_path, damage):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, content(step), keep_last=2)
    file = steps_of(tmp_path)[2]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes({"truncated": data[:-1], "flipped": data, "empty": b"", "missing": b""}[damage])
    if damage == "missing":
        file.unlink()
    with pytest.raises(IntegrityError, match="missing" if damage == "missing" else "the file is damaged") as caught:
        load_checkpoint(tmp_path)
    assert str(file) in str(caught.value)
    assert "--resume-from 1 (there are 1)" in caught.value.hint
    assert load_checkpoint(tmp_path, 1)["step"] == 1
    with pytest.raises(ConfigError, match="there is no checkpoint of step 7"):
        load_checkpoint(tmp_path, 7)
    save_checkpoint(tmp_path, 2, content(2), keep_last=2)
    assert load_checkpoint(tmp_path)["step"] == 2


def test_the_only_checkpoint_damaged_says_train_anew(tmp_path):
    save_checkpoint(tmp_path, 1, content(1), keep_last=1)
    steps_of(tmp_path)[1].write_bytes(b"")
    with pytest.raises(IntegrityError) as caught:
        load_checkpoint(tmp_path)
    assert caught.value.hint == "train into a new --out"


def test_without_its_pointer_the_newest_one_is_taken(tmp_path):
    for step in (9, 10):
        save_checkpoint(tmp_path, step, content(step), keep_last=2)
    (tmp_path / "latest").write_bytes(b'{"file": 3')
    with pytest.raises(IntegrityError, match="the pointer to the latest checkpoint is damaged") as caught:
        load_checkpoint(tmp_path)
    assert "remove it" in caught.value.hint
    (tmp_path / "latest").unlink()
    assert load_checkpoint(tmp_path)["step"] == 10


def test_a_pointer_leads_nowhere_else(tmp_path):
    save_checkpoint(tmp_path / "other", 1, content(1), keep_last=1)
    save_checkpoint(tmp_path / "run", 1, content(1), keep_last=1)
    name = steps_of(tmp_path / "other")[1].name.replace("00000001", "00000002")
    (tmp_path / "run/latest").write_text(f'{{"file": "../other/{name}"}}')
    with pytest.raises(IntegrityError, match="missing") as caught:
        load_checkpoint(tmp_path / "run")
    assert caught.value.where == str(tmp_path / "run" / name)


def test_one_step_saved_twice_is_one_checkpoint(tmp_path):
    """As after a kill before `latest`, gone on with by another number of ranks, whose bits differ."""
    save_checkpoint(tmp_path, 3, {"step": 3, "loss": 1.0}, keep_last=2)
    save_checkpoint(tmp_path, 3, {"step": 3, "loss": 2.0}, keep_last=2)
    assert names(tmp_path) == ["latest", "step-00000003.pt"]
    assert load_checkpoint(tmp_path)["loss"] == 2.0


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


def test_a_checkpoint_with_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path, 1, {"step": 1, "model": Evil()}, keep_last=1)
    with pytest.raises(IntegrityError, match="more than tensors"):
        load_tensors(steps_of(tmp_path)[1], hint="")
    assert not (tmp_path / "evil").exists()
