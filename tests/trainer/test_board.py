"""The event file of TensorBoard says what the log says."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.trainer.board import scalars
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from tests.trainer.test_loop import make_config


def read_events(folder: Path) -> list[tuple[int, str, float]]:
    """(step, tag, value), by the framing of a record file: length, its checksum, data, its checksum."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = []
    for file in sorted(folder.iterdir()):
        data, at = file.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = event_pb2.Event.FromString(data[at + 12 : at + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            at += length + 16
    return found


def test_every_number_of_the_log_is_there_once_at_its_step(tokens: Path, tmp_path: Path):
    board = tmp_path / "board"
    train(make_config(tokens, tmp_path / "run", steps=2, tensorboard=board, eval_every=2))
    train(make_config(tokens, tmp_path / "run", steps=3, tensorboard=board, eval_every=2, resume=True))
    assert len(list(board.iterdir())) == 2
    events = sorted(read_events(board), key=lambda event: event[0])
    expected = [
        (record["step"], tag, pytest.approx(value, rel=1e-6))
        for record in read_log(tmp_path / "run/log.jsonl")
        for tag, value in scalars(record)
    ]
    assert events == expected
    tags = {tag for _, tag, _ in events}
    assert {"loss", "lr", "loss_by_objective/ocr", "per_second/tokens", "seconds_by_part/data", "eval/all/ocr"} <= tags


def test_without_it_nothing_is_written_or_imported(tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    train(make_config(tokens, tmp_path / "run", steps=1))
    with pytest.raises(ConfigError, match="needs tensorboardX") as caught:
        train(make_config(tokens, tmp_path / "other", steps=1, tensorboard=tmp_path / "board"))
    assert "shardkit[tensorboard]" in caught.value.hint
    assert not (tmp_path / "board").exists()
    assert not (tmp_path / "other").exists()
