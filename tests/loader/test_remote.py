"""Datasets behind a URL: the same batches, each shard fetched once a host, named errors, a cache within its limit."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError, IntegrityError, ResumeError, SourceError
from shardkit.loader import Promise, StreamingLoader
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings, as_url, join_url
from tests.loader import servers
from tests.loader.builders import seen

pytest.importorskip("aiohttp")


@pytest.fixture
def server(copied):
    """Serves a copy of `tokens` and what it refers to, at /tokens."""
    with servers.http(copied.parent) as server:
        yield server


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def make_loader(server, cache, *, limit=1 << 30, patience=3.0, path="tokens", **more):
    remote = RemoteSettings(cache=cache, limit=limit, patience=patience)
    return StreamingLoader(f"{server.url}/{path}", **{"max_tokens": 256, "global_batch": 2, "remote": remote, **more})


def local(path, **more):
    with StreamingLoader(path, **{"max_tokens": 256, "global_batch": 2, **more}) as loader:
        return seen(loader)


def cached_bytes(cache):
    total = 0
    for file in (file for folder in ("objects", "parts") for file in (cache / folder).rglob("*.*")):
        with contextlib.suppress(FileNotFoundError):  # taken out since it was listed
            total += file.stat().st_size
    return total


def test_a_url_gives_what_the_folder_gives(server, cache, tokens):
    with make_loader(server, cache, epochs=2) as loader:
        assert seen(loader) == local(tokens, epochs=2)

    assert set(server.shards().values()) == {1}
    assert not list((cache / "parts").iterdir())


def test_what_the_cache_has_is_not_fetched_again(server, cache, tokens):
    for _ in range(2):
        with make_loader(server, cache) as loader:
            assert seen(loader) == local(tokens)

    assert set(server.shards().values()) == {1}


EPOCH = """
import gc, json, os, sys
from pathlib import Path
from shardkit.loader import StreamingLoader
from shardkit.store.remote import RemoteSettings
from tests.loader.builders import seen

url, cache, limit, folder, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5])
pids = []
gc.freeze()
while len(pids) < number and 0 not in pids:
    pids.append(os.fork())
if 0 not in pids:
    print(*pids, flush=True)
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids), flush=True)
    sys.exit()
os.dup2(os.open(folder / f"{len(pids) - 1}.out", os.O_WRONLY | os.O_CREAT), 1)
remote = RemoteSettings(cache=cache, limit=limit, patience=5)
with StreamingLoader(url, max_tokens=256, global_batch=2, remote=remote) as loader:
    print("open", flush=True)
    print(json.dumps(seen(loader)), flush=True)
"""


def start(server, cache, folder, number, limit=1 << 30):
    """Start `number` processes of this host that read an epoch, and one that waits for them; returns it and their ids."""
    words = [f"{server.url}/tokens", cache, limit, folder, number]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    parent = subprocess.Popen([sys.executable, "-c", EPOCH, *map(str, words)], **pipes)
    return parent, [int(pid) for pid in parent.stdout.readline().split()]


def test_four_processes_of_a_host_fetch_each_shard_once(server, cache, tokens, tmp_path):
    whole = json.loads(json.dumps(local(tokens)))

    parent, _ = start(server, cache, tmp_path, 4)
    codes, err = parent.communicate(timeout=120)

    assert codes.split() == ["0"] * 4, err
    for number in range(4):
        assert json.loads((tmp_path / f"{number}.out").read_text().split("\n")[1]) == whole
    assert set(server.shards().values()) == {1}


def test_row_22_a_killed_download_and_a_small_cache_leave_the_rest_right(server, cache, tokens, tmp_path):
    # A cache of two shards, several processes, one of them killed while it fetches.
    whole = json.loads(json.dumps(local(tokens)))
    sizes = [shard.entry.size for shard in (*Dataset.open(tokens).sequence_shards, *Dataset.open(tokens).shards)]
    limit = 2 * max(sizes)
    slow = next((tokens / "shards").rglob("*.arrow")).relative_to(tokens.parent)
    server.faults[f"/{slow}"] = lambda _handler: time.sleep(0.5)

    parent, pids = start(server, cache, tmp_path, 4, limit)
    most, killed = 0, False
    while parent.poll() is None:
        parts = list((cache / "parts").glob("*.part"))
        if parts and not killed:
            os.kill(pids[0], signal.SIGKILL)
            killed = True
        most = max(most, cached_bytes(cache))
        time.sleep(0.02)

    codes, err = parent.communicate(timeout=120)
    assert killed
    assert most <= limit
    assert codes.split()[1:] == ["0"] * 3, err
    for number in range(1, 4):
        assert json.loads((tmp_path / f"{number}.out").read_text().split("\n")[1]) == whole
    with make_loader(server, cache, limit=limit) as loader:
        assert json.loads(json.dumps(seen(loader))) == whole
    assert not list((cache / "parts").iterdir())


@pytest.mark.parametrize("fault", [servers.busy(2), servers.cut(1)], ids=["busy", "cut"])
def test_what_fails_on_the_way_is_tried_again(server, cache, tokens, fault):
    shard = Dataset.open(tokens).sequence_shards[0]
    server.faults[f"/tokens/{shard.name}"] = fault

    with make_loader(server, cache) as loader:
        assert seen(loader) == local(tokens)

    assert server.asked[f"/tokens/{shard.name}"] > 1


@pytest.mark.parametrize("fault", [servers.busy(10**9), servers.silent], ids=["busy", "silent"])
def test_a_server_that_stays_bad_is_an_error_within_seconds(server, cache, tokens, fault):
    shard = Dataset.open(tokens).sequence_shards[0]
    server.faults[f"/tokens/{shard.name}"] = fault
    began = time.monotonic()

    with make_loader(server, cache, patience=2) as loader, pytest.raises(SourceError) as caught:
        list(loader)

    assert time.monotonic() - began < 10
    assert caught.value.where == f"{server.url}/tokens/{shard.name}"


def test_a_server_that_is_gone_is_an_error_within_seconds(server, cache):
    server.shutdown()
    server.server_close()
    began = time.monotonic()

    with pytest.raises(SourceError, match="cannot be read"):
        make_loader(server, cache, patience=1)

    assert time.monotonic() - began < 10


def test_no_dataset_behind_a_url(server, cache):
    with pytest.raises(SourceError, match=r"there is no manifest\.json") as caught:
        make_loader(server, cache, path="nothing")
    assert caught.value.where == f"{server.url}/nothing"


@pytest.mark.parametrize("change", ["corrupt", "missing", "empty"])
def test_row_22_a_damaged_shard_is_named_in_every_run_and_nothing_of_it_stays(server, cache, copied, change):
    # What failed its check is not trusted on the next run.
    shard = Dataset.open(copied).sequence_shards[0]
    content = bytearray(shard.path.read_bytes())
    if change == "missing":
        shard.path.unlink()
    elif change == "empty":
        shard.path.write_bytes(b"")
    else:
        content[len(content) // 2] ^= 0xFF
        shard.path.write_bytes(content)

    for _ in range(2):
        with pytest.raises(IntegrityError) as caught:
            list(make_loader(server, cache))
        assert caught.value.where == f"{server.url}/tokens/{shard.name}"
        kept = [file.name for folder in ("objects", "parts") for file in (cache / folder).rglob("*.*")]
        assert not any(name.startswith(shard.entry.xxh3) for name in kept)


def test_damage_in_the_cache_is_found_and_fetched_anew(server, cache, tokens):
    with make_loader(server, cache) as loader:
        list(loader)
    damaged = next(file for file in (cache / "objects").rglob("*.arrow") if ".tar" not in file.name)
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)

    with make_loader(server, cache) as loader, pytest.raises(IntegrityError, match="the file changed"):
        list(loader)
    with make_loader(server, cache) as loader:
        assert seen(loader) == local(tokens)


def test_an_object_that_changed_is_named_and_lowers_the_promise(server, cache, copied, tokens, caplog):
    with make_loader(server, cache) as loader:
        list(loader)
        stream = iter(loader)
        next(stream)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = seen(stream)
    with make_loader(server, cache) as loader:
        assert loader.load_state_dict(state) is Promise.REPLAYABLE
    shard = Dataset.open(copied).sequence_shards[1]
    content = bytearray(shard.path.read_bytes())
    content[-1] ^= 0xFF
    shard.path.write_bytes(content)
    url = f"{server.url}/tokens/{shard.name}"

    with make_loader(server, cache) as loader:
        assert f"{url} changed behind its URL" in caplog.text
        with pytest.raises(ResumeError, match=f"object {url} is .ETag .* there, .ETag .* here"):
            loader.load_state_dict(state)
        assert loader.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
        assert seen(loader) == rest, "the cache has every shard as it was"
    shutil.rmtree(cache)
    with make_loader(server, cache) as loader:
        loader.load_state_dict(state, require="equivalent")
        with pytest.raises(IntegrityError, match="digest is") as caught:
            list(loader)
    assert caught.value.where == url


def test_a_cache_too_small_for_a_shard_is_refused(server, cache):
    with (
        make_loader(server, cache, limit=100) as loader,
        pytest.raises(ConfigError, match="the cache holds 100 at most"),
    ):
        list(loader)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_behind_a_url(server, cache, tokens, method):
    loader = make_loader(server, cache)
    with make_loader(server, cache) as other:
        next(iter(other))  # connections and threads are there when the workers are made

    hosted = DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context=method)

    assert seen(hosted) == local(tokens)
    assert set(server.shards().values()) == {1}


def test_row_21_two_datasets_with_shards_of_equal_names_do_not_mix(server, cache, copied, tokens):
    # A cache that goes by names reads the first one twice.
    shutil.copytree(copied, copied.parent / "x" / "tokens")
    shutil.copytree(copied.parent / "web", copied.parent / "x" / "web")
    shutil.copytree(copied.parent / "notes", copied.parent / "x" / "notes")
    with make_loader(server, cache) as loader, make_loader(server, cache, path="x/tokens") as other:
        assert seen(loader) == seen(other) == local(tokens)


def test_a_process_that_is_killed_leaves_no_lock(server, cache, tokens, tmp_path):
    parent, (pid,) = start(server, cache, tmp_path, 1)
    said = tmp_path / "0.out"
    while not (said.exists() and said.read_text().startswith("open\n")):
        assert parent.poll() is None
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    parent.communicate()

    began = time.monotonic()
    with make_loader(server, cache) as loader:
        assert seen(loader) == local(tokens)
    assert time.monotonic() - began < 20


def test_s3_gives_what_the_folder_gives(copied, cache, tokens, caplog):
    with servers.s3("bucket", copied.parent, ("tokens", "web", "notes")) as (options, put):
        remote = RemoteSettings(cache=cache, patience=5, options=options)
        settings = {"max_tokens": 256, "global_batch": 2, "remote": remote}
        with StreamingLoader("s3://bucket/data/tokens", **settings) as loader:
            assert seen(loader) == local(tokens)
            state = loader.state_dict()
        shard = Dataset.open(copied).sequence_shards[0]
        put(f"data/tokens/{shard.name}", bytes(shard.entry.size))
        with StreamingLoader("s3://bucket/data/tokens", **settings) as loader:
            assert f"s3://bucket/data/tokens/{shard.name} changed behind its URL" in caplog.text
            with pytest.raises(ResumeError, match=f"object s3://bucket/data/tokens/{shard.name}"):
                loader.load_state_dict(state)
        put("data/tokens/manifest.json", b"")
        with pytest.raises(IntegrityError, match="the manifest is no JSON"):
            StreamingLoader("s3://bucket/data/tokens", **settings)


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("http://host/a/b", "http://host/a/b"),
        ("http:/host/a/b", "http://host/a/b"),
        ("s3:/bucket/a/", "s3://bucket/a"),
        ("file:/tmp/a", "file:///tmp/a"),
        ("work/tokens", None),
        ("/work/tokens", None),
        ("c:/tokens", None),
    ],
)
def test_what_is_a_url(path, url):
    assert as_url(path) == url


def test_inputs_of_a_view_lie_beside_it():
    assert join_url("http://host/a/tokens", "../web") == "http://host/a/web"
    assert join_url("s3://bucket/tokens", "../web") == "s3://bucket/web"
    assert join_url("file:///a/tokens", "shards/x.arrow") == "file:///a/tokens/shards/x.arrow"


def test_shards_are_fetched_side_by_side(server, cache, tokens):
    pictures = [shard for shard in Dataset.open(tokens).shards if shard.entry.format == "tar"]
    there, most = set(), [0]

    def slow(path):
        def fault(_handler):
            with server.lock:
                there.add(path)
                most[0] = max(most[0], len(there))
            time.sleep(0.3)
            with server.lock:
                there.discard(path)
            return False

        return fault

    for shard in pictures:
        path = f"/web/{shard.name}"
        server.faults[path] = slow(path)

    with make_loader(server, cache) as loader:
        assert seen(loader) == local(tokens)
    assert most[0] >= min(2, len(os.sched_getaffinity(0)))
