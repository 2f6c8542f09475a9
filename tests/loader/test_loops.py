"""The programs of docs/loops.md run, and go on where they stopped."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import webdataset
from PIL import Image

from shardkit.loader import StreamingLoader
from shardkit.store.dataset import Dataset

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loops.md"
PROGRAMS = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL))
RESUMED = ("plain", "workers", "stateful", "lit", "accelerated")
HEAVY = {"lit": ("pytorch_lightning",), "accelerated": ("accelerate",), "stateful": ("torchdata.stateful_dataloader",)}
"""What takes seconds to import: once for both runs of a program."""
BATCH_ID = re.compile(r"[0-9a-f]{32}/\d+/\d+/\d+of\d+")


@pytest.fixture
def folder(tmp_path, tokens):
    """Where the programs of the page lie, with a tokenized dataset at work/tokens."""
    for name, text in PROGRAMS.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "tokens").symlink_to(tokens)
    return tmp_path


@pytest.fixture
def run(folder, warm):
    """Runs a program of the page in a process of its own: run(name, *arguments) is what it printed."""

    def run_program(name, *arguments):
        done = warm.run(PROGRAMS[name], *arguments, cwd=folder, preload=HEAVY.get(name, ()))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_program


def test_every_program_of_the_page_is_run_here():
    assert set(PROGRAMS) == {"tiny", *RESUMED, "evaluate", "foreign", "trace"}
    assert PAGE.read_text("utf-8").count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("name", RESUMED)
def test_a_loop_goes_on_where_it_stopped(run, tokens, name):
    with StreamingLoader(tokens, max_tokens=256, global_batch=2, epochs=10) as loader:
        expected = [batch.batch_id for batch, _ in zip(loader, range(8), strict=False)]

    assert BATCH_ID.findall(run(name, 4)) == expected[:4]
    assert BATCH_ID.findall(run(name, 8)) == expected[4:]


def test_evaluation_reports_by_source(run, tokens):
    lines = [line.split() for line in run("evaluate").splitlines()]

    dataset = Dataset.open(tokens)
    table = dataset.table("lengths")
    held = [row for row in table.to_pylist() if dataset.splits == ("all",) or row["split"] == "val"]
    targets = {}
    for row in held:
        targets[row["source"]] = targets.get(row["source"], 0) + row["num_supervised"]
    assert {source: int(number) for source, _, number, _ in lines} == targets


def test_a_trace_names_ids_that_the_command_takes(run, tokens):
    lines = [line.split() for line in run("trace").splitlines()]

    assert lines
    command = [sys.executable, "-m", "shardkit", "trace", str(tokens), lines[0][0], "--json"]
    assert lines[0][2] in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_foreign_tars_are_read_on_from_where_the_loop_stopped(folder, run):
    (folder / "pairs").mkdir()
    with webdataset.ShardWriter(str(folder / "pairs" / "%03d.tar"), maxcount=40, verbose=0) as writer:
        for number in range(60):
            picture = io.BytesIO()
            Image.new("RGB", (40, 30), (number, 9, 9)).save(picture, "JPEG")
            writer.write(
                {"__key__": f"{number:03}", "txt": "a green house " * (number % 9 + 1), "jpg": picture.getvalue()}
            )

    whole = run("foreign", 8)
    (folder / "foreign.json").unlink()
    assert run("foreign", 4) + run("foreign", 8) == whole
    assert len(whole.splitlines()) == 8
