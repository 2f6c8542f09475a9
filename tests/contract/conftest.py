"""One line about the case corpus at the end of the run, so that nothing waits in silence."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, [])]
    properties = [entry for report in reports for entry in report.user_properties]
    num_run = sum(name == "case" for name, _ in properties)
    waiting = {what: names for name, value in properties if name == "awaits" for what, names in [value]}
    if num_run or waiting:
        words = "; ".join(f"{what}: {', '.join(names)}" for what, names in waiting.items())
        terminalreporter.write_line(
            f"cases: {num_run} run, {sum(map(len, waiting.values()))} await formats ({words or 'none'})"
        )
