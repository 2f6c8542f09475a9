"""What a host keeps of a dataset behind a URL: small files as the dataset has them, shards in the cache of the host.

CACHE/datasets/<xxh3-128 of the URL>/manifest.json      asked for anew each time the dataset is opened
                                     tables/...         fetched when they are read, compared with the manifest
                                     etags.json         what the server said of each shard that was fetched
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from shardkit.errors import IntegrityError, ShardkitError
from shardkit.records.manifest import ShardEntry
from shardkit.store.cache import Cache, cache_errors
from shardkit.store.files import compare, digest_file, make_folder, output_errors
from shardkit.store.remote import Facts, Ranges, Remote, RemoteSettings, folder_name

logger = logging.getLogger("shardkit.store")

_HINT = "restore the remote file, or build the dataset again from its inputs"
_INDEX = ".index.arrow"


class Mirror:
    """A remote dataset as this host sees it."""

    def __init__(self, url: str, settings: RemoteSettings) -> None:
        self.url = url
        self.settings = settings
        self._remote = Remote(url, settings)
        self._cache = Cache(settings.cache, settings.limit)
        self.folder = settings.cache / "datasets" / folder_name(url)
        self.etags: dict[str, str] = {}
        """Shard -> ETag that the server gives it now."""
        self.changed: dict[str, tuple[str, str]] = {}
        """Shard -> ETags with which it was fetched, and that it has now."""

    def beside(self, relative: str) -> Mirror:
        """The dataset at a path that is relative to this one."""
        return Mirror(self._remote.name(relative), self.settings)

    def name(self, relative: str) -> str:
        """The URL of a file."""
        return self._remote.name(relative)

    def manifest(self, name: str) -> bytes:
        """The manifest as it is now.

        Raises:
            IntegrityError: where there is none.
        """
        data = self._remote.read(name)
        self._put(self.folder / name, data)
        return data

    def small(self, relative: str, *, size: int, digest: str) -> Path:
        """A table or another file beside the shards, on this host.

        Raises:
            IntegrityError: where it is missing, or not what the manifest says.
        """
        path = self.folder / relative
        if not _has(path, (size, digest)):
            with self._writing(path) as part:
                # Another process may have fetched it while this one waited.
                if not _has(path, (size, digest)):
                    self._fetch(relative, part, (size, digest))
                    with output_errors(path):
                        os.replace(part, path)
        return path

    def check(self, relative: str, *, size: int, digest: str) -> None:
        """Compare a remote file with the manifest, whatever the cache has of it.

        Raises:
            IntegrityError: where it is missing, or not what the manifest says.
        """
        with self._writing(self.folder / relative) as part:
            self._fetch(relative, part, (size, digest))

    def _fetch(self, relative: str, part: Path, stated: tuple[int, str]) -> None:
        self._remote.fetch(relative, part, size=stated[0])
        compare(digest_file(part), stated, where=self.name(relative), hint=_HINT)

    # ------------------------------------------------------------------ shards
    def path(self, entry: ShardEntry) -> Path:
        """Where a shard lies when it is in the cache; its index beside it."""
        return self._cache.path(entry.xxh3, Path(entry.path).suffix)

    def opener(self, entry: ShardEntry, *, index: bool = False) -> Callable[[Path], BinaryIO]:
        """Opens a shard, or the index of a tar, by its path in the cache; fetches it where it is not there."""
        suffix, relative, size, digest = Path(entry.path).suffix, entry.path, entry.size, entry.xxh3
        if index:
            # Named by the tar's digest, so that it lies beside it.
            suffix, relative = suffix + _INDEX, relative + _INDEX
            size, digest = entry.index

        def fetch(part: Path) -> None:
            self._remote.fetch(relative, part, size=size)

        def open_(_path: Path) -> BinaryIO:
            return self._cache.open(entry.xxh3, suffix, size, fetch, name=self.name(relative), content=digest)

        return open_

    def ranges(self, entry: ShardEntry) -> Ranges:
        """Opens a shard behind its URL, to read parts of it. Raises as `Remote.ranges` does."""
        return self._remote.ranges(entry.path)

    def damaged(self, path: Path) -> None:
        """What lies in the cache is not what was fetched: it goes, and is fetched anew next time."""
        self._cache.drop(path)

    def look(self, entries: Sequence[ShardEntry]) -> None:
        """Ask the server for size and ETag of shards, before anything is read.

        A shard that changed there is told by name; where the cache has it as the manifest says, it is used on.

        Raises:
            IntegrityError: where one that the cache does not have is missing or of another size.
            SourceError: where the server cannot be reached and the cache does not have everything.
        """
        known = self._known_etags()
        for entry, facts in zip(entries, self._remote.facts([entry.path for entry in entries]), strict=True):
            kept = self.path(entry).is_file()
            if isinstance(facts, ShardkitError):
                if not kept:
                    raise facts
                logger.warning("%s; the cache of this host has it", facts)
                continue
            if facts.size is not None and facts.size != entry.size and not kept:
                raise IntegrityError(
                    f"the file has {facts.size} bytes, the manifest says {entry.size}",
                    where=self.name(entry.path),
                    hint=_HINT,
                )
            self._compare_etags(entry, facts, known)
        if self.etags != known:
            text = json.dumps({**known, **self.etags}, sort_keys=True).encode()
            self._put(self.folder / "etags.json", text)

    def _compare_etags(self, entry: ShardEntry, facts: Facts, known: dict[str, str]) -> None:
        if facts.etag is None:
            return
        self.etags[entry.path] = facts.etag
        before = known.get(entry.path, facts.etag)
        if before != facts.etag:
            self.changed[entry.path] = (before, facts.etag)
            logger.warning(
                "%s changed behind its URL: its ETag was %s and is %s", self.name(entry.path), before, facts.etag
            )

    def _known_etags(self) -> dict[str, str]:
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((self.folder / "etags.json").read_bytes())
            if isinstance(found, dict):
                return found
        return {}

    # ------------------------------------------------------------------ files
    def _put(self, path: Path, data: bytes) -> None:
        """Give `path` these bytes, where it has others or none."""
        with contextlib.suppress(OSError):
            if path.read_bytes() == data:
                return
        with self._writing(path) as part, output_errors(path):
            part.write_bytes(data)
            os.replace(part, path)

    @contextmanager
    def _writing(self, path: Path) -> Iterator[Path]:
        """Where what becomes of `path` is written, by one process at a time; what a killed one left is written over."""
        with cache_errors(), self._cache.lock(folder_name(str(path))):
            make_folder(path.parent)
            part = path.with_name(f"{path.name}.part")
            try:
                yield part
            finally:
                part.unlink(missing_ok=True)


def _has(path: Path, stated: tuple[int, str]) -> bool:
    return path.is_file() and digest_file(path) == stated
