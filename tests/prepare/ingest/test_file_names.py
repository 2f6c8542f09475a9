"""File systems take any bytes as a name: what no table can hold as it stands is written out, and found again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from shardkit.prepare.ingest.roots import as_path, as_text
from shardkit.store.dataset import Dataset
from tests.prepare.builders import png

LATIN = os.fsdecode(b"caf\xe9 1")
"""A name in Latin-1, with a blank."""


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / os.fsdecode(b"B\xfccher")
    folder.mkdir()
    for stem in ("plain", "ümlaut", LATIN):
        (folder / f"{stem}.png").write_bytes(png(len(os.fsencode(stem))))
        (folder / f"{stem}.gt.txt").write_text(f"text of {len(stem)} letters")
    return folder


@pytest.mark.parametrize(("path", "text"), [
    ("a b/c.png", "a b/c.png"), ("ümlaut.png", "ümlaut.png"), (os.fsdecode(b"caf\xe9.png"), r"caf\xe9.png"), (r"a\b.png", r"a\b.png"),
])  # fmt: skip
def test_a_name_is_written_out_and_back(path: str, text: str):
    assert (as_text(path), as_path(text)) == (text, path)


def test_pages_are_kept_under_names_that_are_no_utf8(scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["ingest", "ocr", str(scans), "-o", str(tmp_path / "out"), "--workers", "1", "--json"]
    assert run(command) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["read"], found["kept"]) == (3, 3)
    dataset = Dataset.open(tmp_path / "out")
    assert sorted(dataset.table("examples")["input"].to_pylist()) == [r"caf\xe9 1.png", "plain.png", "ümlaut.png"]
    assert dataset.recipe["source"] == r"B\xfccher"
    assert run(command) == 0, "the files are found again and compared"
    assert orjson.loads(capsys.readouterr().out)["unchanged"] is True
    (scans / f"{LATIN}.png").write_bytes(png(99))
    assert run(command) == 8, "the picture that has changed is noticed"


def test_two_names_that_are_written_alike_are_named(scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copy(scans / f"{LATIN}.png", scans / r"caf\xe9 1.png")
    assert run(["ingest", "ocr", str(scans), "-o", str(tmp_path / "out"), "--workers", "1"]) == 4
    assert r"caf\xe9 1.png: two files have this name" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "code"), [
    (["ingest", "ocr", "in", "-o", "out\udcff"], 8), (["export", "out", "--format", "jsonl", "-o", "x\udcff"], 8), (["head", "out\udcff"], 4),
    (["ingest", "rows", "a\udcff.parquet", "-o", "x"], 4), (["ingest", "ocr", "in", "-o", "x", "--source", "\udcff"], 2),
], ids=ascii)  # fmt: skip
def test_what_arrow_and_json_cannot_name_is_refused(words, code, scans, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scans.rename("in")
    Path("a\udcff.parquet").write_bytes(b"PAR1")
    assert run(["ingest", "text", "in", "-o", "out", "--workers", "1"]) == 0
    assert run(words) == code
    assert "is no UTF-8" in capsys.readouterr().err


def test_a_dataset_under_such_a_name_is_read_by_a_link_alone(scans, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["ingest", "text", str(scans), "-o", "made", "--workers", "1"]) == 0
    Path("made").rename(scans / "made")
    Path("link").symlink_to(scans / "made")
    assert run(["dedup", "link", "-o", "out", "--workers", "1"]) == 0
    assert run(["verify", "out"]) == 0
    assert list(Dataset.open("out").manifest.locations.values()) == ["../link"]
    monkeypatch.chdir(scans)
    capsys.readouterr()
    assert run(["dedup", "made", "-o", str(tmp_path / "other"), "--workers", "1"]) == 4
    assert "is no UTF-8" in capsys.readouterr().err
