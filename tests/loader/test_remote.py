"""Datasets behind a URL: the same batches, each shard fetched once a host, named errors, a cache within its limit."""

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
    return StreamingLoader(
        f"{server.url}/{path}", **{"max_tokens": 256, "global_batch": 2, "remote": remote, **more}
    )


def local(path, **more):
    with StreamingLoader(path, **{"max_tokens": 256, "global_batch": 2, **more}) as loader:
        return seen(loader)


def cached_bytes(cache):
    return sum(file.stat().st_size for folder in ("objects", "parts") for file in (cache / folder).rglob("*.*"))


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
