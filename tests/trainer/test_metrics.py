"""The log holds every step once."""

from __future__ import annotations

from shardkit.trainer.metrics import Log, read_log


def test_a_log_goes_on_from_the_step_that_the_run_goes_on_from(tmp_path):
    path = tmp_path / "log.jsonl"
    with Log(path, step=0) as log:
        for step in (1, 2, 3, 4):
            log.append({"step": step, "loss": step / 2})
    with path.open("ab") as file:
        file.write(b'{"step": 5, "lo')  # a torn line
    assert [record["step"] for record in read_log(path)] == [1, 2, 3, 4]
    with Log(path, step=2) as log:
        log.append({"step": 3, "loss": 9.0})
    assert read_log(path) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 1.0}, {"step": 3, "loss": 9.0}]


def test_a_run_that_begins_anew_begins_its_log_anew(tmp_path):
    path = tmp_path / "log.jsonl"
    with Log(path, step=0) as log:
        log.append({"step": 1})
    with Log(path, step=0):
        pass
    assert read_log(path) == []
