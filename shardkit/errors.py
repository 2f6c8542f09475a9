"""Errors, each with its exit code.

    ShardkitError            1   anything of ours that has no better name
    |- ConfigError           3   a setting is impossible, or contradicts another
    |- SourceError           4   an input is not what its format says, or too many rows are bad
    |- IntegrityError        5   bytes are not those that the manifest names
    |- LeakError             6   something stands on two sides of a split
    |- ResumeError           7   a saved state does not fit this run
    `- OutputError           8   the output cannot be written: space, permission, busy, exists, I/O

Usage errors exit with 2, SIGINT with 130, SIGTERM with 143. Only `shardkit.cli` turns an error into text and a code.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any, ClassVar


class ShardkitError(Exception):
    """What is wrong, where, and what to do next.

    Args:
        what: one sentence, without the place.
        where: `file:row` or `shard:example` that it is about, or "".
        hint: the option or command that helps; printed after `Next: `.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        return {
            "kind": type(self).__name__,
            "exit_code": self.exit_code,
            "what": self.what,
            "where": self.where,
            "next": self.hint,
        }

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword fields do not survive the default pickling, and errors travel back from worker processes.
        return (_rebuild, (type(self), self.what, self.where, self.hint))


class ConfigError(ShardkitError):
    exit_code = 3


class SourceError(ShardkitError):
    exit_code = 4


class IntegrityError(ShardkitError):
    exit_code = 5


class LeakError(ShardkitError):
    exit_code = 6


class ResumeError(ShardkitError):
    exit_code = 7


ELSEWHERE = "choose another place with -o"
"""What a hint says where the place of an output is at fault; of one that is no dataset see `store.files.output_is`."""


class OutputError(ShardkitError):
    exit_code = 8

    @classmethod
    def from_os(cls, error: OSError, where: str) -> OutputError:
        """The OutputError that says in words what `error` means for the output at `where`."""
        known = {
            errno.ENOSPC: (
                "no space is left for the output",
                "free some space and run the same command again; it goes on where it stopped",
            ),
            errno.EDQUOT: (
                "the disk quota is used up: no space for the output",
                "free some space and run the same command again",
            ),
            errno.EROFS: ("the output lies on a read-only file system", ELSEWHERE),
            errno.EACCES: (
                "no permission to write the output",
                f"{ELSEWHERE}, or change the folder's permissions",
            ),
            errno.EPERM: (
                "no permission to write the output",
                f"{ELSEWHERE}, or change the folder's permissions",
            ),
            errno.ENOENT: ("a folder on the way to the output is not there", f"make it, or {ELSEWHERE}"),
            errno.ENOTDIR: ("a part of the way to the output is a file, not a folder", ELSEWHERE),
            errno.EEXIST: ("a file is here, where a folder has to be", ELSEWHERE),
        }
        what, hint = known.get(
            error.errno or 0,
            (f"writing the output failed: {error.strerror or error}", "check the disk and run the same command again"),
        )
        return cls(f"{what} ({errno.errorcode.get(error.errno or 0, 'OSError')})", where=where, hint=hint)


def _rebuild(kind: type[ShardkitError], what: str, where: str, hint: str) -> ShardkitError:
    return kind(what, where=where, hint=hint)


def guess(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)` where one of `known` is close to `word`, else "": for the end of a hint."""
    import difflib  # the start of a command goes without

    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
