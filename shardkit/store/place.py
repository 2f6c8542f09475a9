"""Where an output may stand: apart from its inputs, and in no other dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from shardkit.errors import ELSEWHERE, OutputError
from shardkit.store.files import is_text
from shardkit.store.manifest_file import is_dataset


def place_of_output(path: str | os.PathLike[str], protected: Iterable[Path]) -> Path:
    """`path` made absolute, where an output may stand there.

    Args:
        protected: what the output may not be, hold or lie in, such as its inputs.

    Raises:
        OutputError: that names what is in its way; a dataset is, in whose folder it would lie.
    """
    output = Path(os.path.abspath(path))
    for place in protected:
        keep_apart(output, Path(place))
    if not is_text(output):
        raise OutputError("the name of a folder on the way is no UTF-8", where=ascii(str(output)), hint=ELSEWHERE)
    if not output.name:
        raise OutputError("a whole file system is no place for an output", where=str(output), hint=ELSEWHERE)
    for parent in output.resolve().parents:
        if is_dataset(parent):
            raise OutputError(f"the output lies in the dataset {parent}", where=str(output), hint=ELSEWHERE)
    return output


def keep_apart(output: Path, place: Path) -> None:
    """Refuse an output that is, holds or lies in something that it must not touch.

    Raises:
        OutputError: that names `place`.
    """
    here, there = output.resolve(), place.resolve()
    inside = there.is_dir() and here.is_relative_to(there)
    if here == there or inside or there.is_relative_to(here):
        raise OutputError(
            f"the output and the input {there} lie in each other",
            where=str(output),
            hint="choose another place with -o",
        )
