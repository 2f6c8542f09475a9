"""Checkpoints: everything that a run needs to go on bit for bit, written so that a kill leaves the old or the new one.

    RUN/checkpoints/step-00000020-<digest>.pt    temporary name, fsync, rename
    RUN/checkpoints/latest                       {"file", "step"}: replaced by a rename, after the file is safe

A file is named by its content, so that each of them can be checked for itself. `latest` is what a resume reads; where a
kill came before the first one, or it was deleted, the newest file is. Files that it does not name are older checkpoints
kept on purpose, or leftovers of a kill.
"""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import orjson
import torch

from shardkit.digest import canonical_json
from shardkit.errors import ConfigError, IntegrityError
from shardkit.store.files import DurableFile, digest_file, make_folder, output_errors, sync_folder

LATEST = "latest"
_DIGEST = re.compile(r"-([0-9a-f]{32})\.pt")
"""At the end of the name of a file of tensors."""


def save_checkpoint(folder: Path, step: int, content: dict[str, Any], *, keep_last: int) -> None:
    """Write `content` as the checkpoint of `step`, point `latest` at it, and drop all but the newest `keep_last`.

    Args:
        content: tensors, and plain lists, dicts, strings and numbers; nothing else could be loaded again.

    Raises:
        OutputError: where the disk refuses; `latest` then still names the checkpoint before.
    """
    make_folder(folder)
    saved = save_tensors(folder, f"step-{step:08d}", content)
    replace_durably(folder / LATEST, canonical_json({"file": saved.name, "step": step}))
    # A file of a later step is what a killed run left before `latest` could name it, or what a run went back behind.
    older = [path for at, path in sorted(steps_of(folder).items(), reverse=True) if at < step]
    kept = {saved, *older[: keep_last - 1]}
    for path in {*folder.glob("step-*.pt"), *folder.glob("*.tmp")} - kept:
        with output_errors(path):
            path.unlink()


def load_checkpoint(folder: Path, step: int | None = None) -> dict[str, Any] | None:
    """The content of the checkpoint that `latest` names, or of that of `step`; None where there is none at all.

    Raises:
        ConfigError: where there is none of `step`.
        IntegrityError: where the file is missing or its bytes are not those that were written.
    """
    files = steps_of(folder)
    if step is not None and step not in files:
        raise ConfigError(
            f"there is no checkpoint of step {step}", where=str(folder), hint=_older(files, than=None) or "train anew"
        )
    path = files[step] if step is not None else _latest(folder, files)
    if path is None:
        return None
    hint = _older(files, than=path) or "train into a new --out"
    if not path.is_file():
        raise IntegrityError("the checkpoint is missing", where=str(path), hint=hint)
    return load_tensors(path, hint=hint)


def steps_of(folder: Path) -> dict[int, Path]:
    """Step -> its checkpoint, of all that are in a folder, from the oldest on."""
    files = sorted(path for path in folder.glob("step-*.pt") if _DIGEST.search(path.name))
    return {int(path.name.split("-")[1]): path for path in files}


def _latest(folder: Path, files: dict[int, Path]) -> Path | None:
    pointer = folder / LATEST
    data = read_whole(pointer)
    if data is None:
        return files[max(files)] if files else None
    try:
        return folder / Path(orjson.loads(data)["file"]).name
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the pointer to the latest checkpoint is damaged ({error})",
            where=str(pointer),
            hint="remove it: the newest checkpoint is taken then",
        ) from error


def _older(files: dict[int, Path], *, than: Path | None) -> str:
    steps = [str(step) for step, path in files.items() if path != than]
    return f"go on from another one with --resume-from {steps[-1]} (there are {', '.join(steps)})" if steps else ""


def save_tensors(folder: Path, stem: str, content: dict[str, Any]) -> Path:
    """Write `content` durably as FOLDER/<stem>-<digest>.pt, where <digest> is the xxh3-128 of its bytes; its path.

    Raises:
        OutputError: where the disk refuses; nothing has the name then.
    """
    temporary = folder / f"{stem}.pt.tmp"
    with output_errors(temporary):
        temporary.unlink(missing_ok=True)
    with DurableFile(temporary) as file:
        torch.save(content, file)  # type: ignore[arg-type]  # it only writes and flushes
    path = folder / f"{stem}-{file.xxh3}.pt"
    _replace(temporary, path)
    return path


def load_tensors(path: Path, *, hint: str) -> dict[str, Any]:
    """The content of a file that `save_tensors` wrote. Nothing is unpickled beyond tensors and plain containers.

    Args:
        hint: what helps where it is damaged.

    Raises:
        IntegrityError: where its bytes are not those that it is named by.
    """
    named = _DIGEST.search(path.name)
    _, found = digest_file(path)
    if named is None or named[1] != found:
        raise IntegrityError(f"the file is damaged: its digest is xxh3:{found}", where=str(path), hint=hint)
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise IntegrityError("the file holds more than tensors and plain values", where=str(path), hint=hint) from error
    return content


def read_whole(path: Path) -> bytes | None:
    """A small file of the run; None where there is none.

    Raises:
        IntegrityError: where it cannot be read.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise IntegrityError(
            f"a file of the run cannot be read ({error.strerror})", where=str(path), hint="restore it"
        ) from error


def replace_durably(path: Path, data: bytes) -> None:
    """Give `path` the new content `data` in one step that survives a power loss."""
    temporary = path.with_name(f"{path.name}.tmp")
    with output_errors(temporary):
        temporary.unlink(missing_ok=True)
    with DurableFile(temporary) as file:
        file.write(data)
    _replace(temporary, path)


def _replace(temporary: Path, path: Path) -> None:
    """Give a file that is whole and on disk its name."""
    with output_errors(path):
        os.replace(temporary, path)
    sync_folder(path.parent)
