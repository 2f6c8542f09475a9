"""The road by the command line: one function a stage, with the options that a test may vary."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardkit.cli import run
from tests.contract.caserunner import options

BOOK = "@path:([^/]+)_[0-9]+_[0-9]+"
"""The book of a line image: its name before page and line."""
MAX_TOKENS = "256"
MANIFEST_OUTSIDE = ("dataset_id", "produced_by", "locations")
"""The parts of a manifest that byte-identical datasets may differ in."""


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start a command in a process of its own; stdout and stderr are pipes."""
    command = [sys.executable, "-m", "shardkit", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def apart(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a process of its own, as a user does, and check its exit code."""
    process = start(*arguments)
    out, err = process.communicate(timeout=240)
    return _checked(arguments, process.returncode, code, out, err)


def shardkit(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has everything loaded; with one worker where nothing else is said."""
    words = [str(word) for word in arguments]
    if "--workers" not in words and "--workers" in options(words[0]):
        words += ["--workers", "1"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = run(words)
    return _checked(arguments, found, code, out.getvalue(), err.getvalue())


def _checked(
    arguments: Sequence[object], found: int, code: int, out: str, err: str
) -> subprocess.CompletedProcess[str]:
    assert found == code, f"shardkit {' '.join(map(str, arguments))}\n{out}{err}"
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(list(map(str, arguments)), found, out, err)


def result(*arguments: object) -> dict[str, object]:
    """Run a command with --json; returns its object."""
    return json.loads(shardkit(*arguments, "--json", "--quiet").stdout)


def ingest_captions(sample: Path, out: Path) -> list[object]:
    raw = sample / "captions"
    return ["ingest", "caption", raw / "00000.tar", raw / "pairs.csv", "-o", out, "--source", "alttext", "--licence", "MIT",
            "--revision", "8bd5355", "--unit-size", 150_000]  # fmt: skip


def ingest_lines(sample: Path, out: Path, paths: Sequence[Path] | None = None) -> list[object]:
    return ["ingest", "ocr", *(paths or [sample / "ocr"]), "-o", out, "--source", "dta", "--licence", "public domain",
            "--group-by", BOOK, "--unit-size", 100_000]  # fmt: skip


def ingest_pages(sample: Path, out: Path) -> list[object]:
    folder = sample / "obelics"
    return ["ingest", "obelics", folder / "obelics.parquet", "--images", folder, "--url-map", folder / "url_map.jsonl",
            "-o", out, "--source", "pages", "--licence", "MIT"]  # fmt: skip


def dedup(inputs: Sequence[Path], out: Path) -> list[object]:
    return ["dedup", *inputs, "-o", out]


def split(source: Path, out: Path) -> list[object]:
    return ["split", source, "-o", out, "--ratios", "train=0.8,val=0.1,test=0.1"]


def tokenize(source: Path, out: Path, sample: Path) -> list[object]:
    return ["tokenize", source, "-o", out, "--tokenizer", sample / "tokenizer", "--recipe", "vlm",
            "--set", "image_size=56", "--max-tokens", MAX_TOKENS]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Road:
    """Where the datasets of one whole walk lie."""

    root: Path

    @property
    def stages(self) -> dict[str, Path]:
        names = ("captions", "lines", "pages", "clean", "split", "tokens")
        return {name: self.root / name for name in names}

    def commands(self, sample: Path) -> dict[str, list[object]]:
        at = self.stages
        return {
            "captions": ingest_captions(sample, at["captions"]),
            "lines": ingest_lines(sample, at["lines"]),
            "pages": ingest_pages(sample, at["pages"]),
            "clean": dedup([at["captions"], at["lines"], at["pages"]], at["clean"]),
            "split": split(at["clean"], at["split"]),
            "tokens": tokenize(at["split"], at["tokens"], sample),
        }


def walk(root: Path, sample: Path, *, workers: int, command: Callable[..., object] = shardkit) -> Road:
    """Go the whole road below `root`; `command` runs each stage."""
    road = Road(root=root)
    for words in road.commands(sample).values():
        command(*words, "--workers", workers)
    return road


def content(dataset: Path) -> dict[str, bytes]:
    """Every file of a dataset by name; of the manifest what byte-identical datasets have in common."""
    files = {}
    for path in sorted(dataset.rglob("*")):
        name = path.relative_to(dataset).as_posix()
        if path.is_file() and not name.startswith(".cache/"):
            files[name] = path.read_bytes()
    manifest = json.loads(files["manifest.json"])
    kept = {key: value for key, value in manifest.items() if key not in MANIFEST_OUTSIDE}
    files["manifest.json"] = json.dumps(kept, sort_keys=True).encode()
    return files


def dataset_id(dataset: Path) -> str:
    return json.loads((dataset / "manifest.json").read_bytes())["dataset_id"]


def receipts(out: Path) -> int:
    """Units that are finished while a stage runs; 0 before the first and after the commit."""
    folder = out / ".work" / "receipts"
    try:
        return sum(name.endswith(".json") for name in os.listdir(folder))
    except FileNotFoundError:
        return 0


def step(out: Path) -> str:
    """What the run that left `out` had reached, in words."""
    if (out / "manifest.json").exists():
        return "committed, clearing up" if (out / ".work").exists() else "committed"
    if not (out / ".work").exists():
        return "before its folders"
    parts = sorted(path.name for path in (out / ".work" / "tmp").glob("*")) if (out / ".work" / "tmp").exists() else []
    tables = sorted(path.name for path in (out / "tables").glob("*"))
    return f"{receipts(out)} receipts, writing {parts or 'nothing'}, tables {tables or 'none'}"
