"""Processes of ours spare themselves pandas."""

from __future__ import annotations

import sys

import pyarrow as pa


def spare_pandas() -> None:
    """Let pyarrow take it that there is no pandas; to be called by a process that is ours alone, not by a library.

    pyarrow looks for it when it converts the first list, and where it is installed the import takes a fifth of a second of
    every command and every worker. We never hand a frame of pandas to pyarrow and never ask for one.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _Absent)
        try:
            pa.array([0])
        finally:
            sys.meta_path.remove(_Absent)


class _Absent:
    """Finds no pandas, and leaves all else to those who come next."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not looked for", name=name)
