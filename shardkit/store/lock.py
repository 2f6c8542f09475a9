"""One run at a time writes into a folder: flock on its lock file, which the kernel frees however the process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from shardkit.errors import OutputError
from shardkit.store.files import output_errors

LOCK = ".lock"


class Locks:
    """The locks of one output: its own, and that of the folder beside it where it is made anew."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def take(self, folder: Path) -> None:
        """Lock `folder`.

        Raises:
            OutputError: where another run holds it.
        """
        file = folder / LOCK
        while True:
            with output_errors(file):
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise OutputError(
                    "another run is writing here", where=str(folder), hint="wait until it is done, or choose another -o"
                ) from None
            # The folder may have been exchanged between open and flock; then this is the lock of the old one.
            if file.exists() and os.fstat(descriptor).st_ino == file.stat().st_ino:
                self._held.append(descriptor)
                return
            os.close(descriptor)

    def release(self) -> None:
        """Free all of them."""
        while self._held:
            os.close(self._held.pop())
