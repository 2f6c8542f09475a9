"""Checkpoints: everything that a run needs to go on bit for bit, written so that a kill leaves the old or the new one.

    RUN/checkpoints/step-00000020.pt    temporary name, fsync, rename
    RUN/checkpoints/latest              {"file", "step", "size", "xxh3"}: replaced by a rename, after the file is safe

`latest` is what a resume reads. Files that it does not name are leftovers of a kill, or older checkpoints kept on
purpose.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import orjson
import torch

from shardkit.digest import canonical_json
from shardkit.errors import IntegrityError
from shardkit.store.dataset import check_file
from shardkit.store.files import DurableFile, make_folder, output_errors, sync_folder

LATEST = "latest"


def save_checkpoint(folder: Path, step: int, content: dict[str, Any], *, keep_last: int) -> None:
    """Write `content` as the checkpoint of `step`, point `latest` at it, and drop all but the newest `keep_last`.

    Args:
        content: tensors, and plain lists, dicts, strings and numbers; nothing else could be loaded again.

    Raises:
        OutputError: where the disk refuses; `latest` then still names the checkpoint before.
    """
    make_folder(folder)
    name = f"step-{step:08d}.pt"
    temporary = folder / f"{name}.tmp"
    with output_errors(temporary):
        temporary.unlink(missing_ok=True)
    with DurableFile(temporary) as file:
        torch.save(content, file)  # type: ignore[arg-type]  # it only writes and flushes
        size, digest = file.size, file.xxh3
    replace_whole(temporary, folder / name)
    replace_durably(folder / LATEST, canonical_json({"file": name, "step": step, "size": size, "xxh3": digest}))
    # A file of a later step is what a killed run left before `latest` could name it.
    kept = sorted(path.name for path in folder.glob("step-*.pt") if path.name <= name)[-keep_last:]
    for path in [*folder.glob("step-*.pt"), *folder.glob("*.tmp")]:
        if path.name not in kept:
            with output_errors(path):
                path.unlink()


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The content of the checkpoint that `latest` names, or None where there is none yet. Nothing is unpickled
    beyond tensors and plain containers.

    Raises:
        IntegrityError: where the file is missing or its bytes are not those that were written.
    """
    pointer = folder / LATEST
    if not pointer.exists():
        return None
    try:
        latest = orjson.loads(pointer.read_bytes())
        path, size, digest = folder / latest["file"], latest["size"], latest["xxh3"]
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the pointer to the latest checkpoint is damaged ({error})",
            where=str(pointer),
            hint="train into a new --out",
        ) from error
    check_file(path, size=size, digest=digest)
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise IntegrityError(
            "the checkpoint holds more than tensors and plain values", where=str(path), hint="train into a new --out"
        ) from error
    return content


def replace_durably(path: Path, data: bytes) -> None:
    """Give `path` the new content `data` in one step that survives a power loss."""
    temporary = path.with_name(f"{path.name}.tmp")
    with output_errors(temporary):
        temporary.unlink(missing_ok=True)
    with DurableFile(temporary) as file:
        file.write(data)
    replace_whole(temporary, path)


def replace_whole(temporary: Path, path: Path) -> None:
    """Give a file that is whole and on disk its name."""
    with output_errors(path):
        os.replace(temporary, path)
    sync_folder(path.parent)
