"""Programs in processes of their own that start warm: forked from one that has imported torch and the loader already."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

SERVER = """
import gc, importlib, json, os, sys
import torch, torch._dynamo, shardkit.loader  # optimizers import _dynamo at their first step
gc.freeze()  # a child that ends looks at every object else, and so copies all memory
program = None
for line in sys.stdin:
    asked = json.loads(line)
    for name in asked["preload"]:
        importlib.import_module(name)
    child = os.fork()
    if not child:
        program = asked
        break
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
if program is not None:
    for target, name in enumerate(("/dev/null", program["out"], program["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), target)
    os.chdir(program["cwd"])
    sys.path.insert(0, program["cwd"])
    sys.argv = ["program", *program["arguments"]]
    exec(compile(program["code"], "program", "exec"), {"__name__": "__main__"})
"""
"""One program after the other; the child falls out of the loop, so that it ends as any program does."""


class Warm:
    """Runs programs; a context manager. The first one waits for the imports."""

    def __enter__(self) -> Warm:
        self._process: subprocess.Popen[str] | None = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def run(
        self, code: str, *arguments: object, cwd: Path, preload: tuple[str, ...] = (), timeout: float = 200
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end.

        Args:
            code: its text.
            cwd: where it runs, and where it finds modules.
            preload: what the server imports before it forks, for this program and all that follow.
            timeout: seconds.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", SERVER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            asked = {"code": code, "arguments": list(map(str, arguments)), "cwd": str(cwd), "preload": preload,
                     "out": str(out), "err": str(err)}  # fmt: skip
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], timeout)[0]:
                said = err.read_text() if err.exists() else "it was never started"
                self._stop()
                raise TimeoutError(f"no end after {timeout} s: {said}")
            ended = self._process.stdout.readline()
            assert ended, "the server of warm processes ended"
            return subprocess.CompletedProcess(asked["arguments"], int(ended), out.read_text(), err.read_text())
