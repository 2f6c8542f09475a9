"""Run every test, long counts too, and store the report with its date: `python tools/test_report.py [PYTEST OPTIONS]`.

The report is docs/test-report.txt: date, machine, versions, the slowest tests, what was skipped and why, the counts.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "test-report.txt"
VERSIONS = ("numpy", "pillow", "pyarrow", "torch", "tokenizers", "pytest")


def main(options: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "--durations=15", "-rsfE", *options]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert run.stdout is not None
    lines = []
    for line in run.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    code = run.wait()

    kept = [index for index, line in enumerate(lines) if "slowest" in line or "short test summary" in line]
    versions = " ".join(f"{name} {metadata.version(name)}" for name in VERSIONS)
    head = [
        f"date: {datetime.now(timezone.utc):%Y-%m-%d}\n",
        f"machine: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n",
        f"versions: {versions}\n",
        f"command: pytest {' '.join(options)}\n\n",
    ]
    REPORT.write_text("".join(head + lines[kept[0] if kept else -1 :]), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
