"""The end of a process: threads that fetch or wait give up, so that Ctrl-C ends a run within seconds.

Before it ends, the interpreter waits for the threads of pools, and these for a server that may be silent. Nothing public
tells them that nobody waits for what they do.
"""

from __future__ import annotations

from concurrent.futures import thread as pools

from shardkit.errors import SourceError


def check_going_on(where: str) -> None:
    """Stop a thread once its process is ending and only waits for it.

    Raises:
        SourceError: then.
    """
    if getattr(pools, "_shutdown", False):
        raise SourceError("the process ends, so it is not fetched", where=where, hint="run the command again")
