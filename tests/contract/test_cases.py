"""The case corpus, through the command line. `--cases DIR` runs any other folder of the same form."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.caserunner import awaits, load, make_big, run_case

ROOT = Path(__file__).resolve().parent.parent.parent


def _folder(config: pytest.Config) -> Path:
    given = config.getoption("--cases")
    shared = Path(config.getoption("--shared") or ROOT.parent / "shared")
    return Path(given) if given else shared / "cases"


def _parted(config: pytest.Config) -> tuple[list[dict], dict[str, str]]:
    """Cases whose command lines can run, and what each of the others waits for."""
    folder = _folder(config)
    cases = [case for case in load(folder) if case["runs"]]
    waiting = {case["id"]: what for case in cases if (what := awaits(case, folder)) is not None}
    return [case for case in cases if case["id"] not in waiting], waiting


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        there = (_folder(metafunc.config) / "cases.jsonl").exists()
        cases = _parted(metafunc.config)[0] if there else []
        full = {"big": pytest.mark.full}
        metafunc.parametrize(
            "case", [pytest.param(case, id=case["id"], marks=full.get(case["build"], ())) for case in cases]
        )


@pytest.fixture(scope="session")
def big(request, tmp_path_factory) -> Path:
    """The large inputs, about 3 GB; made only where a case asks for them."""
    return make_big(request.getfixturevalue("cases"), tmp_path_factory.mktemp("big"))


def test_case(case, cases, tmp_path, record_property, request):
    record_property("case", case["id"])
    needed = "{tokenizer}" in str(case["runs"])
    tokenizer = request.getfixturevalue("shared") / "data" / "tokenizers" / "minimind" if needed else tmp_path
    large = request.getfixturevalue("big") if case["build"] == "big" else None
    broken = run_case(case, cases, tmp_path, tokenizer, large)
    assert not broken, f"\n{case['right']}\n" + "\n".join(broken)


def test_cases_that_wait_for_a_format_are_counted(cases, pytestconfig, record_property):
    running, waiting = _parted(pytestconfig)
    for what in sorted(set(waiting.values())):
        record_property("awaits", (what, [name for name, reason in waiting.items() if reason == what]))
    assert len(running) + len(waiting) == sum(bool(case["runs"]) for case in load(cases))
