"""The cache of a host: what one process fetches, no other one disturbs."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from shardkit.digest import xxh3
from shardkit.store.cache import Cache


def test_a_tar_and_its_index_are_fetched_side_by_side(tmp_path: Path) -> None:
    cache, tar, index = Cache(tmp_path, 1000), b"tar", b"index"
    key = xxh3(tar)

    def fetch_index(part: Path) -> None:
        part.write_bytes(index)
        # Meanwhile the tar is fetched, by another process: the lock of the tar's name is not that of the index.
        with cache.open(key, ".tar", 3, lambda other: other.write_bytes(tar) and None, name="tar") as file:
            assert file.read() == tar

    with cache.open(key, ".tar.index.arrow", 5, fetch_index, name="index", content=xxh3(index)) as file:
        assert file.read() == index
    assert not list((tmp_path / "parts").iterdir())


def test_what_a_killed_process_left_is_fetched_anew(tmp_path: Path) -> None:
    cache, data = Cache(tmp_path, 1000), b"data"
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / f"{xxh3(data)}.tar.9.part").write_bytes(b"d")
    with cache.open(xxh3(data), ".tar", 4, lambda part: part.write_bytes(data) and None, name="tar") as file:
        assert file.read() == data
    assert not list((tmp_path / "parts").iterdir())


def test_a_lock_ends_with_its_block_whoever_was_forked_inside(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1000)
    with cache.lock("file"):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
    try:
        with cache.lock("file", wait=False):
            pass
    finally:
        child.kill()
        child.join()
