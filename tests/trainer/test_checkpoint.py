"""Checkpoints: whole or not there, checked, and never code."""

from __future__ import annotations

import os

import pytest
import torch

from shardkit.errors import IntegrityError, OutputError
from shardkit.store import files
from shardkit.trainer.checkpoint import load_checkpoint, save_checkpoint


def content(step):
    return {"step": step, "model": {"w": torch.full((100,), float(step))}, "loader": {"epoch": 1, "sums": [1, 2]}}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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
    assert at["sync step-00000007.pt.tmp"] < at["name step-00000007.pt"] < at["sync latest.tmp"] < at["name latest"]
    assert events[-1] == "sync c"


def test_leftovers_of_later_steps_go_with_the_next_save(tmp_path):
    save_checkpoint(tmp_path, 2, content(2), keep_last=1)
    (tmp_path / "step-00000009.pt").write_bytes(b"killed before latest named it")
    (tmp_path / "step-00000009.pt.tmp").write_bytes(b"torn")
    assert load_checkpoint(tmp_path)["step"] == 2
    save_checkpoint(tmp_path, 4, content(4), keep_last=1)
    assert names(tmp_path) == ["latest", "step-00000004.pt"]


def test_changed_bytes_are_found(tmp_path):
    save_checkpoint(tmp_path, 1, content(1), keep_last=1)
    file = tmp_path / "step-00000001.pt"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match="digest is xxh3:"):
        load_checkpoint(tmp_path)
    file.unlink()
    with pytest.raises(IntegrityError, match="the file is missing"):
        load_checkpoint(tmp_path)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


def test_a_checkpoint_with_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path, 1, {"step": 1, "model": Evil()}, keep_last=1)
    with pytest.raises(IntegrityError, match="more than tensors"):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "evil").exists()
