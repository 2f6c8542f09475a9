"""What goes wrong between a server and a cache, told apart: the server, the connection, the disk."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from pathlib import Path

import pytest

from shardkit.digest import xxh3
from shardkit.errors import IntegrityError, OutputError, SourceError
from shardkit.records.manifest import ShardEntry, Totals
from shardkit.store.cache import Cache
from shardkit.store.dataset import Dataset
from shardkit.store.mirror import Mirror
from shardkit.store.remote import Remote, RemoteSettings
from tests.loader import servers

pytest.importorskip("aiohttp")

DATA = b"0123456789" * 100


@pytest.fixture
def served(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file").write_bytes(DATA)
    with servers.http(folder) as server:
        yield server


def remote(server, patience=1.0):
    return Remote(server.url, RemoteSettings(patience=patience))


def without_length(cut, times):
    """Sends a part of the file, and nobody can tell from the answer that it is one."""
    left = [times]

    def fault(handler):
        if left[0] == 0:
            return False
        left[0] -= 1
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(handler._file().read_bytes()[:cut])
        handler.close_connection = True
        return True

    return fault


def test_a_cut_that_no_length_tells_is_tried_again(served, tmp_path):
    served.faults["/file"] = without_length(500, times=2)
    remote(served).fetch("file", tmp_path / "part", size=len(DATA))
    assert (tmp_path / "part").read_bytes() == DATA

    served.faults["/file"] = without_length(500, times=10**9)
    mirror = Mirror(served.url, RemoteSettings(cache=tmp_path / "cache", patience=0.3))
    with pytest.raises(IntegrityError, match="the file has 500 bytes, the manifest says 1000"):
        mirror.small("file", size=len(DATA), digest="0" * 32)


@pytest.mark.parametrize("status", [429, 503])
def test_a_question_for_the_size_that_fails_is_asked_again_and_is_no_missing_file(served, status):
    served.head_fault = servers.busy(1, status)
    served.faults["/file"] = servers.busy(1, status)  # where HEAD fails, fsspec asks with GET
    (facts,) = remote(served, patience=5).facts(["file"])
    assert facts.size == len(DATA)

    served.head_fault = served.faults["/file"] = servers.busy(10**9, status)
    (error,) = remote(served, patience=0.3).facts(["file"])
    assert isinstance(error, SourceError)
    assert str(status) in str(error)


@pytest.mark.parametrize("status", [404, 410])
def test_a_file_that_is_not_there_is_missing_at_once(served, tmp_path, status):
    served.head_fault = served.faults["/file"] = servers.busy(10**9, status)
    (error,) = remote(served, patience=60).facts(["file"])
    assert isinstance(error, IntegrityError)
    with pytest.raises(IntegrityError, match="the file is missing"):
        remote(served, patience=60).fetch("file", tmp_path / "part", size=1)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_or_broken_disk_is_no_failure_of_the_server(served, tmp_path, monkeypatch, code):
    mirror = Mirror(served.url, RemoteSettings(cache=tmp_path / "cache", patience=60))
    system = mirror._remote._system()

    def full(_path, _target, **_more):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(system, "get_file", full)
    with pytest.raises(OutputError, match=errno.errorcode[code]) as caught:
        mirror.small("file", size=len(DATA), digest="0" * 32)
    assert caught.value.where == f"{mirror.folder / 'file'}.part"
    assert "RemoteSettings(cache=...)" in caught.value.hint


def test_a_cache_that_cannot_be_made_says_so(served, tmp_path):
    (tmp_path / "cache").write_bytes(b"")
    mirror = Mirror(served.url, RemoteSettings(cache=tmp_path / "cache"))
    with pytest.raises(OutputError, match="EEXIST") as caught:
        mirror.manifest("file")
    assert "RemoteSettings(cache=...)" in caught.value.hint


def test_a_full_cache_that_cannot_be_written_is_read(work, tokens, tmp_path, monkeypatch):
    settings = RemoteSettings(cache=tmp_path / "cache")
    with servers.http(work) as server:
        for _ in range(2):
            dataset = Dataset.open(f"{server.url}/tokens", remote=settings)
            rows = [dataset.sequence_reader(shard).table().num_rows for shard in dataset.sequence_shards]
            assert rows == [shard.num_rows for shard in dataset.sequence_shards]
            monkeypatch.setattr("shardkit.store.mirror.make_folder", refuse)
            monkeypatch.setattr("shardkit.store.cache.make_folder", refuse)


def refuse(folder):
    raise OutputError("read-only", where=str(folder))


def test_what_a_killed_process_left_of_a_small_file_is_written_over(served, tmp_path):
    mirror = Mirror(served.url, RemoteSettings(cache=tmp_path / "cache"))
    part = Path(f"{mirror.folder / 'file'}.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"left" * 1000)
    assert mirror.manifest("file") == DATA
    assert [file.name for file in mirror.folder.iterdir()] == ["file"]


def test_who_waited_for_a_fetch_that_failed_is_told_the_same(served, tmp_path):
    served.faults["/file"] = servers.silent
    mirror = Mirror(served.url, RemoteSettings(cache=tmp_path / "cache", patience=0.4))
    entry = ShardEntry(
        path="file", split="all", rows=1, size=len(DATA), xxh3=xxh3(DATA), format="arrow", counts=Totals()
    )

    def fetch(_number):
        with pytest.raises(SourceError, match="cannot be read"):
            mirror.opener(entry)(tmp_path)
        return served.asked["/file"]

    with ThreadPoolExecutor(4) as threads:
        asked = max(threads.map(fetch, range(4)))
    served.faults.clear()
    assert asked <= 2, "not by each of the four"
    with mirror.opener(entry)(tmp_path) as file:
        assert file.read() == DATA, "who asks later asks anew"


def test_a_process_that_ends_waits_for_no_server_and_no_other_process(served, tmp_path, monkeypatch):
    cache = Cache(tmp_path, 10)
    with cache.lock("file"):
        monkeypatch.setattr(pools, "_shutdown", True)
        with pytest.raises(SourceError, match="the process ends"), cache.lock("file"):
            pass
    with pytest.raises(SourceError, match="the process ends"):
        remote(served).fetch("file", tmp_path / "part", size=len(DATA))
    served.faults["/file"] = servers.busy(10**9)
    with pytest.raises(SourceError, match="the process ends"):
        remote(served, patience=60).read("file")
