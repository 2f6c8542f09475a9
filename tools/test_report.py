"""Run every test, long counts too, and store the report with its date: `python tools/test_report.py [PYTEST OPTIONS]`.

The report is docs/test-report.txt, or the file behind --report: date, revision of the sources, machine, versions, what ran and how long, each long
test (the marker `full`) with its result, what was skipped and why, what failed. It holds no paths of the machine.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "test-report.txt"
VERSIONS = ("numpy", "pillow", "pyarrow", "simplejpeg", "tokenizers", "torch", "pytest")
SLOWEST = 15
_ABSOLUTE = re.compile(r"(?<![\w.:/])/(?:[\w.+-]+/)+")


@dataclass(kw_only=True, slots=True)
class Results:
    """A plugin of pytest that keeps what became of each test."""

    outcomes: dict[str, str] = field(default_factory=dict)
    """Test -> passed | failed | skipped | error."""
    seconds: Counter[str] = field(default_factory=Counter)
    """Test -> set up, call and tear down together."""
    long: set[str] = field(default_factory=set)
    """Tests with the marker `full`."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why tests were skipped."""

    messages: dict[str, str] = field(default_factory=dict)
    """Test that failed -> the first line of what it says."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self.seconds[name] += report.duration
        if "full" in report.keywords:
            self.long.add(name)
        if report.when == "call" or report.outcome != "passed":
            broken = "failed" if report.when == "call" else "error"
            self.outcomes[name] = broken if report.outcome == "failed" else report.outcome
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            said = crash.message if crash is not None else str(report.longrepr)
            self.messages[name] = said.strip().partition("\n")[0][:200]
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "failed":
            self.outcomes[report.nodeid] = "error"


def composed(results: Results, options: list[str], *, wall: float, code: int, revision: str) -> str:
    """The text of the report. `wall` is in seconds; `code` is pytest's exit status; `revision` is what was tested."""
    folders: dict[str, Counter[str]] = {}
    spent: Counter[str] = Counter()
    for name, outcome in results.outcomes.items():
        folder = "/".join(name.split("::")[0].split("/")[:2])
        folders.setdefault(folder, Counter())[outcome] += 1
        spent[folder] += results.seconds[name]
    lines = [
        f"date: {datetime.now(timezone.utc):%Y-%m-%d}",
        f"revision: {revision}",
        f"machine: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        f"versions: {' '.join(f'{name} {_version(name)}' for name in VERSIONS)}",
        f"command: pytest {' '.join(options)}",
        f"duration: {wall:.0f} s",
        f"result: {_counted(Counter(results.outcomes.values()))}; exit status {code}",
        "",
        "what ran, with seconds of all workers together",
        *(f"  {spent[name]:8.1f}  {name}: {_counted(counts)}" for name, counts in sorted(folders.items())),
        "",
        f"long tests: {len(results.long)}",
        *(f"  {results.seconds[n]:8.1f}  {results.outcomes.get(n, 'none')}  {n}" for n in sorted(results.long)),
        "",
        f"the {SLOWEST} slowest",
        *(f"  {seconds:8.1f}  {name}" for name, seconds in results.seconds.most_common(SLOWEST)),
    ]
    broken = [name for name, outcome in sorted(results.outcomes.items()) if outcome in ("failed", "error")]
    bad = [f"{name}: {results.messages.get(name, 'could not be collected')}" for name in broken]
    for title, entries in (
        ("skipped", [f"{count}  {reason}" for reason, count in sorted(results.reasons.items())]),
        ("failed", bad),
    ):
        lines += ["", title, *(f"  {entry}" for entry in entries or ["none"])]
    return _ABSOLUTE.sub("", "\n".join(lines)) + "\n"


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no test"


def _revision() -> str:
    """The commit that is checked out, and whether files differ from it; `unknown` outside a repository."""
    try:
        head, changed = (
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head} with changes" if changed else head


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def main(words: list[str]) -> int:
    report = REPORT
    if "--report" in words:
        at = words.index("--report")
        report, words = Path(words[at + 1]).resolve(), words[:at] + words[at + 2 :]
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    results, begin, revision = Results(), time.monotonic(), _revision()
    code = int(pytest.main([*words], plugins=[results]))
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):  # one that was broken off says nothing
        text = composed(results, words, wall=time.monotonic() - begin, code=code, revision=revision)
        report.write_text(text, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
