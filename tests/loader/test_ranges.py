"""Looks at a dataset behind a URL: a few rows cost a few blocks, each compared with its digest."""

import json

import pytest

from shardkit.cli import run
from shardkit.errors import IntegrityError
from shardkit.loader import StreamingLoader
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from tests.loader import servers

pytest.importorskip("aiohttp")


@pytest.fixture
def server(work, tokens):
    """Serves what is only looked at."""
    with servers.http(work) as server:
        yield server


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """That of commands."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".cache" / "shardkit"


def answer(capsys, *arguments):
    capsys.readouterr()
    assert run([str(argument) for argument in (*arguments, "--json", "--quiet")]) == 0
    return json.loads(capsys.readouterr().out)


def pictures_of(path):
    """Its shard of pictures with the most blocks, and where the last of these begins."""
    dataset = Dataset.open(path)
    rows = dataset.table("rows").to_pylist()
    blocks = {shard.name: [row for row in rows if row["shard"] == shard.name] for shard in dataset.shards}
    shard = max(dataset.shards, key=lambda shard: len(blocks[shard.name]))
    return shard, [block for block in blocks[shard.name] if block["num_rows"]][-1]


@pytest.mark.parametrize("name", ["web", "notes"])
def test_head_of_a_url_fetches_blocks_of_one_shard(server, cache, work, capsys, name):
    shown = answer(capsys, "head", f"{server.url}/{name}", "-n", 1)

    assert shown["examples"] == answer(capsys, "head", work / name, "-n", 1)["examples"]
    shard = Dataset.open(work / name).shards[0]
    assert {path.rpartition(".index")[0] or path for path in server.parts} == {f"/{name}/{shard.name}"}
    assert sum(server.parts.values()) <= shard.entry.size
    assert not [path for path in server.shards() if not path.endswith(".index.arrow")], "no shard whole"


def test_inspect_and_trace_of_a_url_say_what_they_say_of_the_folder(server, cache, work, capsys):
    inside = Dataset.open(work / "tokens").table("examples")["example_id"][3].as_py()
    for command in ("inspect", "trace"):
        server.parts.clear()
        there = answer(capsys, command, f"{server.url}/tokens", inside)
        here = answer(capsys, command, work / "tokens", inside)
        assert there["sequences"] == here["sequences"]
        for one, other in zip(there["examples"], here["examples"], strict=True):
            assert one == {**other, "path": f"{server.url}/{one['path'].split('/', 3)[3]}"}
            assert one["path"].endswith(one["shard"])
        fetched = {path: server.parts[path] for path in server.parts if path.endswith(".arrow")}
        assert fetched
        for path, num_bytes in fetched.items():
            assert num_bytes <= (work / path[1:]).stat().st_size, "each block once"
    assert not [path for path in server.shards() if not path.endswith(".index.arrow")]


def test_a_server_without_ranges_gives_whole_shards(server, cache, work, capsys):
    server.ranges = False
    shown = answer(capsys, "head", f"{server.url}/web", "-n", 1)

    assert shown["examples"] == answer(capsys, "head", work / "web", "-n", 1)["examples"]
    assert not server.parts
    assert max(server.bodies.values()) <= 2, "one answer shows it, and need not be read"
    server.bodies.clear()
    answer(capsys, "head", f"{server.url}/web", "-n", 1)
    assert not server.shards(), "the cache has them"


def test_what_fails_on_the_way_is_tried_again_and_a_wrong_answer_is_no_data(server, cache, work):
    shard, block = pictures_of(work / "notes")
    path = f"/notes/{shard.name}"
    dataset = Dataset.open(f"{server.url}/notes", remote=RemoteSettings(cache=cache, patience=2))
    ref = dataset.shards[shard.index]
    server.faults[path] = servers.busy(2)
    reader = dataset.reader(ref, whole=False)
    assert reader.example(0) == Dataset.open(work / "notes").reader(shard).example(0)
    assert server.asked[path] > 2

    def another_part(handler):
        part = (work / "notes" / shard.name).read_bytes()[: block["size"]]
        handler._answer(206, part)
        return True

    server.faults[path] = another_part
    with pytest.raises(IntegrityError, match="digest is xxh3:") as caught:
        dataset.reader(ref, whole=False)
    assert caught.value.where == f"{server.url}{path}"


def test_damage_behind_a_url_is_named(cache, copied):
    shard, block = pictures_of(copied.parent / "notes")
    content = bytearray(shard.path.read_bytes())
    content[block["offset"] + block["size"] // 2] ^= 0xFF
    shard.path.write_bytes(content)
    with servers.http(copied.parent) as server:
        dataset = Dataset.open(f"{server.url}/notes", remote=RemoteSettings(cache=cache))
        reader = dataset.reader(dataset.shards[shard.index], whole=False)
        with pytest.raises(IntegrityError, match="digest is xxh3:") as caught:
            reader.example(block["first_row"])
        assert caught.value.where == f"{server.url}/notes/{shard.name}"


def test_a_batch_is_traced_where_its_loader_found_the_dataset(server, tokens, tmp_path):
    settings = {"max_tokens": 256, "global_batch": 2}
    remote = RemoteSettings(cache=tmp_path / "one")
    with StreamingLoader(f"{server.url}/tokens", remote=remote, **settings) as loader:
        batch, *_ = loader  # to the end: nothing is fetched ahead any more
        before = server.asked.copy()
        places = batch.trace()
        assert server.asked == before, "the cache of the loader has it all"
    with StreamingLoader(tokens, **settings) as loader:
        assert places == next(iter(loader)).trace()


def test_inspect_finds_the_first_example_without_its_pictures(server, cache, work, capsys):
    there = answer(capsys, "inspect", f"{server.url}/notes")
    (first,) = there["examples"]
    assert first["example_id"] == Dataset.open(work / "notes").table("examples")["example_id"][0].as_py()
    assert first["segments"] == answer(capsys, "inspect", work / "notes")["examples"][0]["segments"]
    assert max(server.parts.values()) <= Dataset.open(work / "notes").shards[0].entry.size
