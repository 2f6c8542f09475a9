"""Runs one case of the case corpus through the command line and says what is broken.

The README beside cases.jsonl defines every key of `expect` and every word of `check`; this file follows it. A broken
expectation is a sentence in the list that `run_case` returns; an empty list means that all is as it must be.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tests.contract import casechecks
from tests.contract.caserows import Stored, stored

WHOLE_CASE = ("never", "max_seconds", "max_rss_mb")
"""These keys of the case hold in every run, whatever its own expect says."""
DEFAULT_SECONDS = 120
LAUNCHER = """
import json, os, sys
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as out:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_maxrss], out)
"""
"""A small process between: the kernel counts the memory of whoever started a process as its own."""


def load(folder: Path) -> list[dict]:
    """The cases of a folder, in order."""
    return [json.loads(line) for line in (folder / "cases.jsonl").read_bytes().split(b"\n") if line.strip()]


def load_faults(folder: Path) -> ModuleType:
    """The corpus's own helpers for faults."""
    spec = importlib.util.spec_from_file_location("case_faults", folder / "faults.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_big(cases: Path, target: Path) -> Path:
    """The folder of the large inputs, made by the corpus's own maker."""
    sys.path.insert(0, str(cases))
    try:
        spec = importlib.util.spec_from_file_location("make_cases", cases / "make_cases.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.build(target / "files")
        big = target / "big"
        big.mkdir()
        for maker in module.BIG:
            maker(big)
    finally:
        sys.path.remove(str(cases))
    return big


@dataclass(kw_only=True)
class Place:
    """Where one case runs: fresh copies of its inputs, and paths for its outputs."""

    root: Path
    cases: Path
    case: dict
    tokenizer: Path
    big: Path | None = None

    def __post_init__(self):
        self.work = self.root / "work"
        self.cwd = self.root / "cwd"
        self.case_copy = self.root / "case"
        self.base_copy = self.root / "base"
        for folder in (self.work, self.cwd):
            folder.mkdir(parents=True)
        copy_tree(self.cases / "files" / self.case["id"], self.case_copy)
        copy_tree(self.cases / "files" / "base", self.base_copy)

    def path(self, text: str) -> str:
        text = text.replace("{case}", str(self.case_copy)).replace("{base}", str(self.base_copy))
        text = text.replace("{tokenizer}", str(self.tokenizer)).replace("{big}", str(self.big))
        return text.replace("{", f"{self.work}/").replace("}", "") if text.startswith("{out") else text

    def argv(self, run: dict) -> list[str]:
        """The command line of a run, with what a runner adds."""
        argv = [self.path(word) for word in run["argv"]]
        argv += ["--workers", "1", "--json"] if "--workers" in options(argv[0]) else ["--json"]
        return argv + (["--source", "case"] if argv[0] == "ingest" else [])


def copy_tree(source: Path, target: Path) -> None:
    """A writable copy; links stay links, also where a checkout without links holds their targets as small texts."""
    if not source.exists():
        target.mkdir()
        return
    shutil.copytree(source, target, symlinks=True)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    for path in target.rglob("*.png"):
        if not path.is_symlink() and path.stat().st_size < 200:
            data = path.read_bytes()
            if data.endswith((b".png", b".jpg")) and (path.parent / data.decode()).exists():
                path.unlink()
                path.symlink_to(data.decode())


def options(command: str) -> set[str]:
    """The options that a command has."""
    module = importlib.import_module(f"shardkit.cli.{command.replace('-', '_')}")
    return {name for parameter in module.command.params for name in parameter.opts}


# --------------------------------------------------------------------------- what is not there yet
def awaits(case: dict, folder: Path) -> str | None:
    """What the product does not have yet and a run of this case names, by the product's own tables; None: it can run."""
    from shardkit.cli import COMMANDS
    from shardkit.prepare.ingest import SOURCES
    from shardkit.prepare.ingest.containers.pairs import part
    from shardkit.prepare.ingest.listing import container
    from shardkit.sequence.recipes import RECIPES

    for run in case["runs"]:
        argv = run["argv"]
        command = argv[0]
        module = f"shardkit.cli.{command.replace('-', '_')}"
        if command not in COMMANDS or importlib.util.find_spec(module) is None:
            return f"command {command}"
        if command == "ingest":
            source = SOURCES.get(argv[1])
            if source is None:
                return f"format {argv[1]}"
            given = folder / "files" / argv[2].replace("{case}", case["id"]).replace("{base}", "base")
            if given.is_file() and container(given.name, source.containers) is None and source.labels:
                return f"{argv[1]} from {given.suffix} files"
            for file in sorted(given.rglob("*")) if given.is_dir() else ():
                layout = file.suffix in (".xml", ".hocr", ".html")
                if layout and part(file.name, source.labels) is None:
                    return f"{argv[1]} with {file.suffix} labels"
        if command == "tokenize" and argv[argv.index("--recipe") + 1] not in RECIPES:
            return f"recipe {argv[argv.index('--recipe') + 1]}"
        if command == "dedup" and "--level" in argv:
            from shardkit.prepare.dedup.levels import LEVELS

            for level in argv[argv.index("--level") + 1].split(","):
                if level not in LEVELS:
                    return f"dedup level {level}"
    return None


# --------------------------------------------------------------------------- running
@dataclass(kw_only=True)
class Outcome:
    """What a run left behind."""

    argv: list[str]
    code: int
    out: str
    err: str
    seconds: float
    rss_mb: float | None = None
    hung: bool = False
    opened: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)

    @property
    def summary(self) -> dict:
        """The object of --json; empty where the command printed none."""
        lines = [line for line in self.out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    @property
    def output(self) -> Path | None:
        """The path after -o."""
        return Path(self.argv[self.argv.index("-o") + 1]) if "-o" in self.argv else None


def run_case(case: dict, cases: Path, root: Path, tokenizer: Path, big: Path | None = None) -> list[str]:
    """What is broken, run by run; empty where the case passes."""
    place = Place(root=root, cases=cases, case=case, tokenizer=tokenizer, big=big)
    broken: list[str] = []
    for number, run in enumerate(case["runs"]):
        expect = {
            **run.get("expect", case["expect"]),
            **{k: case["expect"][k] for k in WHOLE_CASE if k in case["expect"]},
        }
        checks = run.get("check", case.get("check", []))
        before = casechecks.snapshot(place)
        outcome = execute(place.argv(run), place, expect, checks, number)
        after = casechecks.snapshot(place)
        found = evaluate(place, outcome, expect) + casechecks.evaluate(place, outcome, checks, before, after)
        broken += [f"run {number + 1} ({' '.join(run['argv'])}): {sentence}" for sentence in found]
        if found:
            broken.append(f"   exit {outcome.code}\n   {outcome.out.strip()[:2000]}\n   {outcome.err.strip()[-2000:]}")
    return broken


def execute(argv: list[str], place: Place, expect: dict, checks: list[str], number: int) -> Outcome:
    """Run a command: in a process of its own where it is watched or measured, else in this one."""
    watched = {"opened", "connection", "signal", "hang"} & {check.split(":")[0] for check in checks}
    if watched or {"max_seconds", "max_rss_mb"} & expect.keys():
        return _in_process_of_its_own(argv, place, expect.get("max_seconds", DEFAULT_SECONDS), number)
    return _here(argv, place)


def _here(argv: list[str], place: Place) -> Outcome:
    from shardkit.cli import run

    out, err = io.StringIO(), io.StringIO()
    begin, folder = time.monotonic(), os.getcwd()
    os.chdir(place.cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(argv)
    finally:
        os.chdir(folder)
    return Outcome(argv=argv, code=code, out=out.getvalue(), err=err.getvalue(), seconds=time.monotonic() - begin)


def _in_process_of_its_own(argv: list[str], place: Place, limit: float, number: int) -> Outcome:
    faults = load_faults(place.cases)
    watch = place.root / f"watch-{number}"
    environment = {**os.environ, **faults.watched(watch)}
    begin = time.monotonic()
    measured = place.root / f"measured-{number}"
    command = [sys.executable, "-c", LAUNCHER, str(measured), sys.executable, "-m", "shardkit", *argv]
    with (place.root / "out").open("wb") as out, (place.root / "err").open("wb") as err:
        child = subprocess.Popen(
            command, stdout=out, stderr=err, cwd=place.cwd, env=environment, start_new_session=True
        )
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    hung = not measured.exists()
    code, rss = (-signal.SIGKILL, 0) if hung else json.loads(measured.read_text())
    opened, connections = faults.seen(watch)
    return Outcome(
        argv=argv,
        code=code,
        out=(place.root / "out").read_text(errors="replace"),
        err=(place.root / "err").read_text(errors="replace"),
        seconds=time.monotonic() - begin,
        rss_mb=rss / 1024,
        hung=hung,
        opened=opened,
        connections=connections,
    )


# --------------------------------------------------------------------------- expect
def evaluate(place: Place, outcome: Outcome, expect: dict) -> list[str]:
    """The keys of `expect` that do not hold."""
    broken: list[str] = []
    rows = stored(outcome.output) if outcome.output is not None else None
    wanted = expect.get("exit", 4 if expect.get("refused") else 0)
    codes = wanted if isinstance(wanted, list) else [wanted]
    was_refused = outcome.code in (3, 4) and rows is None
    if not (expect.get("or_refused") and was_refused) and outcome.code not in codes:
        broken.append(f"exit is {outcome.code}, right is {wanted}")
    if expect.get("refused") and rows is not None:
        broken.append("something was committed, it must be refused")
    if "max_seconds" in expect and outcome.seconds > expect["max_seconds"]:
        broken.append(f"took {outcome.seconds:.1f} s, the limit is {expect['max_seconds']}")
    if outcome.rss_mb is not None and outcome.rss_mb > expect.get("max_rss_mb", 1e9):
        broken.append(f"used {outcome.rss_mb:.0f} MB, the limit is {expect['max_rss_mb']}")
    said = said_text(outcome, rows)
    broken += [f"does not say {word!r}" for word in expect.get("says", []) if word.lower() not in said.lower()]
    if was_refused or expect.get("refused"):
        return broken
    broken += _counts(outcome.summary, expect)
    if rows is not None:
        broken += _places(rows, expect) + _contents(place, rows, expect)
    return broken


def said_text(outcome: Outcome, rows: Stored | None) -> str:
    """Output, error, exclusions and manifest as one text."""
    parts = [outcome.out, outcome.err]
    if rows is not None:
        parts += [rows.manifest_text, *(json.dumps(e, ensure_ascii=False) for e in rows.exclusions)]
    return "\n".join(parts)


def _counts(summary: dict, expect: dict) -> list[str]:
    names = {"read": "read", "kept": "kept", "set_aside": "excluded"}
    broken = [
        f"{key} is {summary.get(name)}, right is {expect[key]}"
        for key, name in names.items()
        if key in expect and summary.get(name) != expect[key]
    ]
    kept = summary.get("kept", 0)
    if kept < expect.get("kept_min", 0):
        broken.append(f"kept is {kept}, at least {expect['kept_min']} is right")
    if kept > expect.get("kept_max", kept):
        broken.append(f"kept is {kept}, at most {expect['kept_max']} is right")
    return broken


def _places(rows: Stored, expect: dict) -> list[str]:
    broken = [
        f"{position} is not excluded" for position in expect.get("set_aside_at", []) if not rows.is_excluded(position)
    ]
    if "set_aside" in expect and "set_aside_at" in expect:
        wanted = {str(position) for position in expect["set_aside_at"]}
        others = [
            e["position"] for e in rows.exclusions if not {e["position"], f"{e['input']}:{e['position']}"} & wanted
        ]
        broken += [f"{position} is excluded too" for position in others]
    broken += [f"{position} is not kept" for position in expect.get("kept_at", []) if rows.find(position) is None]
    for positions in expect.get("kept_one_of", []):
        kept = [position for position in positions if rows.find(position) is not None]
        if len(kept) != 1:
            broken.append(f"of {positions} are kept: {kept}, exactly one is right")
    for position, reason in expect.get("reasons", {}).items():
        found = [e["reason"] for e in rows.exclusions_at(position)]
        if found != [reason]:
            broken.append(f"{position} is excluded for {found}, right is {reason}")
    for position, split in expect.get("split_of", {}).items():
        found = rows.split_at(position)
        if found != split:
            broken.append(f"{position} is in split {found}, right is {split}")
    return broken


def _contents(place: Place, rows: Stored, expect: dict) -> list[str]:
    broken = []
    for position, wanted in expect.get("text", {}).items():
        example = rows.find(position)
        if example is not None and example.text not in (wanted if isinstance(wanted, list) else [wanted]):
            broken.append(f"the text of {position} is {example.text!r}, right is {wanted!r}")
    for position, wanted in expect.get("images", {}).items():
        example = rows.find(position)
        sizes = None if example is None else [[image.height, image.width] for image in example.images]
        if sizes is not None and sizes != wanted:
            broken.append(f"the images of {position} are {sizes}, right is {wanted}")
    for position, image, y, x, colour, tolerance in expect.get("pixel", []):
        example = rows.find(position)
        found = None if example is None else casechecks.pixel(example.images[image], y, x)
        if found is not None and max(abs(a - b) for a, b in zip(found, colour, strict=True)) > tolerance:
            broken.append(f"pixel {y},{x} of image {image} of {position} is {found}, right is {colour} +- {tolerance}")
    for position, wanted in expect.get("boxes", {}).items():
        example = rows.find(position)
        found = None if example is None else casechecks.covered(example)
        if example is not None and (found is None or max(abs(a - b) for a, b in zip(found, wanted, strict=True)) > 1):
            broken.append(f"the words of {position} cover {found}, right is {wanted}")
    for position, fields in expect.get("metadata", {}).items():
        example = rows.find(position)
        metadata = {} if example is None else json.loads(example.metadata)
        for name, values in fields.items() if example is not None else ():
            if not any(_same_value(metadata.get(name), value) for value in values):
                broken.append(f"{name} of {position} is {str(metadata.get(name))[:80]!r}, right is {str(values)[:80]}")
    for positions in expect.get("same_row", []):
        found = {casechecks.content(rows.find(position)) for position in positions}
        if len(found) != 1:
            broken.append(f"the rows {positions} differ")
    broken += _comparisons(place, rows, expect)
    return broken


def _same_value(found: object, wanted: object) -> bool:
    if type(found) is int and isinstance(wanted, str):
        return str(found) == wanted
    return json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _comparisons(place: Place, rows: Stored, expect: dict) -> list[str]:
    broken = []
    if "same_rows_as" in expect:
        other = stored(Path(place.path(expect["same_rows_as"])))
        if sorted(map(casechecks.content, rows.examples)) != sorted(map(casechecks.content, other.examples)):
            broken.append(f"the rows are not those of {expect['same_rows_as']}")
    if "same_shards_as" in expect:
        other = stored(Path(place.path(expect["same_shards_as"])))
        if rows.shard_digests != other.shard_digests:
            broken.append(f"the shards are not those of {expect['same_shards_as']}")
    wanted = expect.get("holds", [])
    return broken + [f"no file holds {text!r}" for text in wanted if not casechecks.holds(rows.path, text.encode())]
