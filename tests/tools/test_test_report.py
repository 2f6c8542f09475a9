"""The stored report of a test run: what ran, counts, date and versions, and no path of the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = """
import pytest

@pytest.mark.full
def test_long(): pass

def test_short(): pass

def test_skipped(): pytest.skip("unavailable: nothing at /somewhere/else/there")

def test_failing(tmp_path): raise AssertionError(f"nothing at {tmp_path}")
"""


def test_the_report_says_what_ran_and_names_no_place(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    report = tmp_path / "report.txt"
    words = ["--report", report, "-q", "-p", "no:cacheprovider", tmp_path / "test_it.py"]
    run = subprocess.run(
        [sys.executable, ROOT / "tools" / "test_report.py", *words], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1, run.stdout + run.stderr
    said = report.read_text()
    assert re.search(r"^date: \d{4}-\d\d-\d\d$", said, re.MULTILINE)
    assert re.search(r"^revision: (unknown|[0-9a-f]{12}( with changes)?)$", said, re.MULTILINE)
    assert re.search(r"^versions: numpy .* pyarrow .* pytest ", said, re.MULTILINE)
    assert re.search(r"^duration: \d+ s$", said, re.MULTILINE)
    assert "result: 1 failed, 2 passed, 1 skipped; exit status 1" in said
    assert re.search(r"^long tests: 1\n +\S+  passed  .*test_it\.py::test_long$", said, re.MULTILINE)
    assert re.search(r"^skipped\n  1  unavailable: nothing at there$", said, re.MULTILINE)
    assert re.search(r"^failed\n  .*test_it\.py::test_failing: AssertionError: nothing at \S+$", said, re.MULTILINE)
    assert str(tmp_path) not in said
    assert str(ROOT) not in said


def test_a_run_that_is_broken_off_leaves_the_last_report(tmp_path):
    report = tmp_path / "report.txt"
    report.write_text("the last one")
    words = ["--report", report, "-q", "-p", "no:cacheprovider", tmp_path / "absent.py"]
    run = subprocess.run([sys.executable, ROOT / "tools" / "test_report.py", *words], capture_output=True, check=False)
    assert run.returncode != 0
    assert report.read_text() == "the last one"
