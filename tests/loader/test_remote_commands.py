"""Commands that look at a dataset behind a URL: the same answers as of the folder, out of the cache that is named."""

import json
import pickle

import numpy as np
import pytest

from shardkit.cli import run
from shardkit.prepare.dedup.inputs import open_slice, slices
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from tests.loader import servers

pytest.importorskip("aiohttp")


@pytest.fixture(scope="module")
def server(work, tokens):
    """Serves `tokens` and what it refers to, at /tokens; nothing is changed there."""
    with servers.http(work) as server:
        yield server


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where commands keep their cache when no other place is named."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def answer(capsys, *arguments):
    """Exit code and JSON of a command."""
    capsys.readouterr()
    code = run([str(argument) for argument in (*arguments, "--json", "--quiet")])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "command",
    [
        ["plan", "--max-tokens", 256],
        ["padding", "--batch-size", 4],
        ["inspect"],
        ["stats", "--workers", 1],
        ["head", "-n", 3],
        ["verify", "--workers", 1],
    ],
    ids=lambda command: command[0],
)
def test_a_url_is_looked_at_like_a_folder(server, home, tokens, tmp_path, capsys, command):
    name, *options = command
    url, cache = f"{server.url}/tokens", tmp_path / "cache"

    code, found = answer(capsys, name, url, *options, "--cache", cache)
    _, local = answer(capsys, name, tokens, *options)

    assert code == 0
    folder = str(tokens.parent)
    assert json.dumps(found).replace(server.url, folder) == json.dumps(local)
    assert str(tmp_path) not in json.dumps(found), "what the cache is called is nothing to say"
    assert (cache / "datasets").is_dir()
    assert not home.exists()


def test_ids_are_found_behind_a_url(server, home, tokens, tmp_path, capsys):
    example = answer(capsys, "head", tokens, "-n", 1)[1]["examples"][0]["example_id"]
    for name in ("trace", "explain", "inspect"):
        code, found = answer(capsys, name, f"{server.url}/tokens", example, "--cache", tmp_path / "cache")
        assert code == 0
        assert found["dataset"] == f"{server.url}/tokens"
    assert not home.exists()


def test_a_relative_cache_is_below_the_folder_that_one_is_in(server, home, tmp_path, capsys, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    assert answer(capsys, "head", f"{server.url}/tokens", "--cache", "kept")[0] == 0

    assert (tmp_path / "here" / "kept" / "datasets").is_dir()
    assert not home.exists()


def test_a_worker_reads_out_of_the_same_cache(server, home, tmp_path):
    remote = RemoteSettings(cache=tmp_path / "cache", options={"block_size": 2**20})
    dataset = Dataset.open(f"{server.url}/tokens", remote=remote)
    zero = np.zeros(1, np.int32)

    (piece,) = slices(dataset, (), zero, zero, np.zeros(1, np.int64))
    reader = open_slice(pickle.loads(pickle.dumps(piece)))

    assert reader.num_rows == dataset.shards[0].num_rows
    reader.close()
    assert (tmp_path / "cache" / "objects").is_dir()
    assert not home.exists()


def test_a_cache_keeps_its_limit(server, tokens, tmp_path, capsys):
    shards = [*Dataset.open(tokens).shards, *Dataset.open(tokens).sequence_shards]
    largest, whole = max(one.entry.size for one in shards), sum(one.entry.size for one in shards)
    limit = 2 * largest
    assert limit < whole, "vacuous: everything fits"
    options = ["--cache", tmp_path / "cache", "--cache-limit", limit, "--workers", 1]

    assert answer(capsys, "stats", f"{server.url}/tokens", *options)[0] == 0

    assert 0 < sum(file.stat().st_size for file in (tmp_path / "cache" / "objects").rglob("*.*")) <= limit
    assert run(["stats", f"{server.url}/tokens", "--cache", str(tmp_path / "small"), "--cache-limit", "10"]) == 3
    assert "the cache holds 10 at most" in capsys.readouterr().err


def test_a_run_trains_out_of_the_cache_that_is_named(server, home, tmp_path):
    data = [f"{server.url}/tokens", "--cache", tmp_path / "cache"]
    options = ["--task", "vlm-align", "--steps", 1, "--max-tokens", 256, "--threads", 1]

    assert run([*map(str, ["train", "--data", *data, "--out", tmp_path / "run", *options])]) == 0

    assert (tmp_path / "cache" / "objects").is_dir()
    assert not home.exists()


def test_a_run_goes_on_with_the_decoder_that_it_began_with(tokens, tmp_path, capsys):
    options = ["--task", "vlm-align", "--data", tokens, "--max-tokens", 256, "--threads", 1, "--out", tmp_path / "run"]
    train = lambda *more: run([*map(str, ["train", *options, *more])])  # noqa: E731

    assert train("--steps", 1, "--decoder", "turbo") == 0
    assert train("--steps", 2, "--resume") == 7
    assert "(decoder: turbo -> pillow)" in capsys.readouterr().err


def test_commands_take_a_url(home, copied, tokens, capsys):
    with servers.http(copied.parent) as server:
        url = f"{server.url}/tokens"

        code, planned = answer(capsys, "plan", url, "--max-tokens", 256)
        assert code == 0
        assert planned["plan"] == answer(capsys, "plan", tokens, "--max-tokens", 256)[1]["plan"]
        assert not server.shards(), "a plan is made from lengths alone"

        code, verified = answer(capsys, "verify", url)
        assert (code, verified["ok"], verified["problems"]) == (0, True, [])
        assert verified["files"] == answer(capsys, "verify", copied)[1]["files"]
        shard = Dataset.open(copied).sequence_shards[0]
        content = bytearray(shard.path.read_bytes())
        content[5] ^= 0xFF
        shard.path.write_bytes(content)
        code, verified = answer(capsys, "verify", url)
        assert (code, len(verified["problems"])) == (5, 1)
        assert shard.name in verified["problems"][0]
        assert (home / ".cache" / "shardkit" / "datasets").is_dir()


def test_a_run_trains_behind_a_url(server, home, tokens, tmp_path, capsys):
    options = ["--task", "vlm-align", "--steps", 2, "--max-tokens", 256, "--threads", 1]
    losses = []
    for number, data in enumerate((f"{server.url}/tokens", tokens)):
        capsys.readouterr()
        assert run([*map(str, ["train", "--data", data, "--out", tmp_path / f"run{number}", *options])]) == 0
        losses.append(json.loads(capsys.readouterr().out.strip().split("\n")[-1])["weights_digest"])
    assert losses[0] == losses[1]
