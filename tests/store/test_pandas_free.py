"""A process of ours does without pandas; a process that only uses the library keeps it."""

import subprocess
import sys

import pytest

CONVERT = "import sys, pyarrow as pa; pa.array(['x']); print('pandas' in sys.modules); import pandas; print(pandas.Series([1]).sum())"


@pytest.mark.parametrize(
    ("before", "found"),
    [("", "True"), ("from shardkit.store.pandas_free import spare_pandas; spare_pandas(); ", "False")],
)
def test_pandas_is_spared_and_can_still_be_imported(before: str, found: str):
    pytest.importorskip("pandas")
    run = subprocess.run([sys.executable, "-c", before + CONVERT], capture_output=True, text=True)
    assert run.stdout.split() == [found, "1"], run.stderr


def test_a_command_spares_it():
    code = "import sys; from shardkit.cli import run; run(['schema', '--json']); print('pandas' in sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "False\n")
