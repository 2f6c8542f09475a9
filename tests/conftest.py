"""Options and fixtures of all tests: where the shared data lies, and one thread a process."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.journey.road import Road, walk

# Two xdist workers on two cores: a pool of threads in each would only make them wait for one another. Set before
# numpy and torch are first imported, and inherited by the command lines that tests start.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"

# A wall clock says little on a busy machine; tests have their own limit.
settings.register_profile("shardkit", deadline=None)
settings.load_profile("shardkit")

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("shardkit")
    group.addoption("--shared", metavar="DIR", help="shared data and cases (default: ../shared beside the repository)")
    group.addoption("--cases", metavar="DIR", help="the case corpus (default: SHARED/cases)")
    group.addoption("--torture", metavar="DIR", help="hostile and odd pictures (default: SHARED/data/image_torture)")


def pytest_configure() -> None:
    # What a shell starts in the background ignores Ctrl-C, and so does every process that a test starts there.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _folder(config: pytest.Config, option: str, *below: str) -> Path:
    """The folder that `option` names, else `below` in the shared folder. Only an absent default skips a test."""
    given = config.getoption(option)
    shared = Path(config.getoption("--shared") or ROOT.parent / "shared")
    folder = Path(given) if given else shared.joinpath(*below)
    if folder.is_dir():
        return folder.resolve()
    if given or config.getoption("--shared"):
        pytest.fail(f"no such folder: {folder}", pytrace=False)
    pytest.skip(f"no {folder.name} folder here; name one with {option}")


@pytest.fixture(scope="session")
def shared(pytestconfig: pytest.Config) -> Path:
    return _folder(pytestconfig, "--shared")


@pytest.fixture(scope="session")
def cases(pytestconfig: pytest.Config) -> Path:
    return _folder(pytestconfig, "--cases", "cases")


@pytest.fixture(scope="session")
def torture(pytestconfig: pytest.Config) -> Path:
    return _folder(pytestconfig, "--torture", "data", "image_torture")


@pytest.fixture(scope="session")
def sample() -> Path:
    """The bundled sample: tests/data, with captions, ocr, obelics and a tokenizer."""
    return ROOT / "tests" / "data"


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """`once(name, make)`: the folder that make(folder) fills, made by the first of all test workers that asks for it.

    Only to be read: the others get the very same folder.
    """
    base = tmp_path_factory.getbasetemp()
    shared_base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make_once(name: str, make: Callable[[Path], object]) -> Path:
        folder = shared_base / f"once-{name}"
        done = folder.with_suffix(".done")
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of one that failed half-way
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return make_once


@pytest.fixture(scope="session")
def road(once: Once, sample: Path) -> Road:
    """The whole road on the bundled sample, with one worker. Only to be read."""
    return Road(root=once("road", lambda folder: walk(folder, sample, workers=1)))
