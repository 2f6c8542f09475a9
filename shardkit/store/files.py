"""Durable files: written whole under a temporary name, synced, then published without replacing anything.

Every system call that changes the output goes through this module, so that its failures have one meaning
(`OutputError`) and faults can be injected in one place.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import xxhash

from shardkit.errors import ELSEWHERE, IntegrityError, OutputError

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_BLOCK = 1 << 20
_SMALL = 1 << 16


@contextmanager
def output_errors(where: Path) -> Iterator[None]:
    """Turn an OSError of the output at `where` into an OutputError. Never wrap reading of inputs in it."""
    try:
        yield
    except OSError as error:
        raise OutputError.from_os(error, str(where)) from error


@contextmanager
def output_is(what: str, elsewhere: str) -> Iterator[None]:
    """Say of an output that is no dataset what it is, and how another place is chosen for it: not by -o.

    Args:
        what: stands where "the output" stood, as "the plan".
        elsewhere: stands where "choose another place with -o" stood.
    """
    try:
        yield
    except OutputError as error:
        raise OutputError(
            error.what.replace("the output", what),
            where=error.where,
            hint=error.hint.replace(ELSEWHERE, elsewhere),
        ) from error


class DurableFile:
    """A new file that counts and digests what is written to it; `close` returns only when the bytes are on disk.

    It offers the few methods that pyarrow asks of a file object. Small writes are gathered into larger ones.

    Args:
        path: must not exist.

    Raises:
        OutputError: for every failure; the file is removed then. A failed fsync is final, it is never tried again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._whole = xxhash.xxh3_128()
        self._block = xxhash.xxh3_128()
        self._gathered = bytearray()
        self._descriptor: int | None = None
        with output_errors(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    @property
    def closed(self) -> bool:
        return self._descriptor is None

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Hand what was gathered to the kernel."""
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._hand_over(memoryview(gathered))

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        self._whole.update(view)
        self._block.update(view)
        self.size += len(view)
        if len(view) < _SMALL:
            self._gathered += view
            if len(self._gathered) >= _BLOCK:
                self.flush()
        else:
            self.flush()
            self._hand_over(view)
        return len(view)

    def _hand_over(self, view: memoryview) -> None:
        assert self._descriptor is not None, "written after close"
        written = 0
        with output_errors(self.path):
            while written < len(view):
                written += os.write(self._descriptor, view[written:])

    def cut_block(self) -> str:
        """xxh3-128 of what was written since the last cut, or since the start."""
        digest = self._block.hexdigest()
        self._block = xxhash.xxh3_128()
        return digest

    @property
    def xxh3(self) -> str:
        """xxh3-128 of everything written so far."""
        return self._whole.hexdigest()

    def close(self) -> None:
        """Hand over what is left, fsync and close."""
        if self._descriptor is None:
            return
        self.flush()
        descriptor, self._descriptor = self._descriptor, None
        with output_errors(self.path):
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def abandon(self) -> None:
        """Close without promises and remove the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> DurableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def publish(temporary: Path, final: Path) -> None:
    """Give a durable file its final name, which must be free; the caller syncs the folder afterwards.

    Raises:
        OutputError: with `exists` where the name is taken.
    """
    with output_errors(final):
        try:
            os.link(temporary, final)
        except FileExistsError:
            raise OutputError(
                "the file exists already", where=str(final), hint="use --overwrite, or another -o"
            ) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A file system without hard links: the lock of the output keeps other writers of ours away.
            if final.exists():
                raise OutputError(
                    "the file exists already", where=str(final), hint="use --overwrite, or another -o"
                ) from None
            os.rename(temporary, final)
            return
        os.unlink(temporary)


def publish_content(temporary: Path, final: Path) -> None:
    """Publish a file that is named by its content: a file of equal name and size is what a killed run left."""
    if final.exists() and final.stat().st_size == temporary.stat().st_size and _same(temporary, final):
        with output_errors(final):
            os.unlink(temporary)
        return
    with output_errors(final):
        # A leftover with other bytes under this name is damage from before the last sync; nothing refers to it.
        final.unlink(missing_ok=True)
    publish(temporary, final)


def _same(one: Path, two: Path) -> bool:
    return digest_file(one) == digest_file(two)


def write_durably(path: Path, data: bytes, *, scratch: Path) -> str:
    """Write `data` as the new file `path` by way of a temporary name in `scratch`; returns its xxh3-128."""
    temporary = scratch / f"{path.name}.tmp"
    with output_errors(temporary):
        temporary.unlink(missing_ok=True)
    with DurableFile(temporary) as file:
        file.write(data)
        digest = file.xxh3
    publish(temporary, path)
    sync_folder(path.parent)
    return digest


def sync_folder(folder: Path) -> None:
    """fsync a folder, so that the names in it survive a power loss."""
    with output_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def is_text(path: str | Path) -> bool:
    """Whether pyarrow can open it and JSON can name it: file systems take any bytes."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents, durably."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with output_errors(folder):
        folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours and everything in it."""
    with output_errors(folder):
        shutil.rmtree(folder)


def exchange(one: Path, two: Path) -> None:
    """Swap two folders of one file system: in one step where the system offers it, else in two renames."""
    if not _exchange_at_once(one, two):
        spare = one.with_name(f"{one.name}.old")
        with output_errors(one):
            os.rename(one, spare)
            os.rename(two, one)
            os.rename(spare, two)
    sync_folder(one.parent)
    sync_folder(two.parent)


def _exchange_at_once(one: Path, two: Path) -> bool:
    names = (os.fsencode(one), os.fsencode(two))
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        at_cwd, rename_exchange = -100, 2
        return bool(library.renameat2(at_cwd, names[0], at_cwd, names[1], rename_exchange) == 0)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        rename_swap = 2
        return bool(library.renamex_np(names[0], names[1], rename_swap) == 0)
    return False


def digest_file(path: Path) -> tuple[int, str]:
    """Size in bytes and xxh3-128 of a file.

    Raises:
        IntegrityError: where it cannot be read.
    """
    digest = xxhash.xxh3_128()
    size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise IntegrityError(
            f"the file cannot be read ({error.strerror})",
            where=str(path),
            hint="restore it, or build the dataset again",
        ) from error
    return size, digest.hexdigest()


def check_file(path: Path, *, size: int, digest: str) -> None:
    """Compare a whole file with its size in bytes and its xxh3-128.

    Raises:
        IntegrityError: where it is missing or differs.
    """
    hint = "restore the file, or build the dataset again from its inputs"
    if not path.is_file():
        raise IntegrityError("the file is missing", where=str(path), hint=hint)
    compare(digest_file(path), (size, digest), where=str(path), hint=hint)


def compare(found: tuple[int, str], stated: tuple[int, str], *, where: str, hint: str) -> None:
    """Compare size in bytes and xxh3-128 of a file with what a manifest says of it.

    Raises:
        IntegrityError: where they differ.
    """
    if found[0] != stated[0]:
        raise IntegrityError(f"the file has {found[0]} bytes, the manifest says {stated[0]}", where=where, hint=hint)
    if found[1] != stated[1]:
        raise IntegrityError(
            f"digest is xxh3:{found[1]}, the manifest says xxh3:{stated[1]}; the file changed after it was committed",
            where=where,
            hint=hint,
        )
