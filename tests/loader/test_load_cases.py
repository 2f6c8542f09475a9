"""The procedures of the case corpus for loading: s-ld-*. The clean set is that of the corpus, tokenized."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

from shardkit.errors import IntegrityError, ResumeError
from shardkit.loader import Promise, StreamingLoader
from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.store.dataset import Dataset
from tests.contract.caserunner import copy_tree, load_faults
from tests.loader.builders import seen
from tests.loader.conftest import TOKENIZER, shardkit

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create . worker:UserWarning")


@pytest.fixture(scope="session")
def faults(cases):
    return load_faults(cases)


def build(base: Path, folder: Path, *, shard_size: int = 4096, name: str = "set") -> Path:
    """The set of the corpus and its sequences, side by side in a folder."""
    common = ["--workers", 1, "--quiet"]
    shardkit(
        "ingest",
        "rows",
        base / "rows.jsonl",
        "--shard-size",
        shard_size,
        "--source",
        "case",
        "-o",
        folder / name,
        *common,
    )
    shardkit(
        "tokenize", folder / name, "-o", folder / f"{name}-tokens", "--tokenizer", TOKENIZER, "--recipe", "vlm",
        "--set", "image_size=28", "--max-tokens", 128, *common,
    )  # fmt: skip
    return folder / f"{name}-tokens"


@pytest.fixture(scope="session")
def clean(cases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("load-cases")
    copy_tree(cases / "files" / "base", folder / "base")
    tokens = build(folder / "base", folder)
    assert len(Dataset.open(tokens).shards) >= 8
    return tokens


@pytest.fixture
def damaged(clean, tmp_path):
    """A copy, to be damaged."""
    for name in ("set", "set-tokens"):
        shutil.copytree(clean.parent / name, tmp_path / name)
    return tmp_path / "set-tokens"


def make_loader(path, **more):
    return StreamingLoader(path, **{"max_tokens": 128, "global_batch": 2, "tail": "pad", **more})


@pytest.fixture(scope="session")
def whole(clean):
    with make_loader(clean) as loader:
        return seen(loader)


def shards_of(path):
    """Shards that the loader reads: those of sequences, and those of examples with pictures."""
    dataset = Dataset.open(path)
    return [shard.path for shard in (*dataset.sequence_shards, *dataset.shards)]


def epoch(path):
    """What an epoch gives before it ends, and the error it ends with."""
    batches = []
    try:
        with make_loader(path) as loader:
            batches.extend(loader)
    except IntegrityError as error:
        return seen(batches), error
    return seen(batches), None


def found_by_verify(path):
    """Names of files that verify finds damaged, in the set and in its sequences."""
    return [
        problem for folder in (path, path.parent / "set") for problem in verify(VerifyConfig(dataset=folder)).problems
    ]


def test_deleted_shard(damaged, whole):
    file = shards_of(damaged)[0]
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(IntegrityError, match="the shard is missing") as caught:
        make_loader(damaged)
    assert file.name in caught.value.where
    file.write_bytes(content)

    with make_loader(damaged) as loader:
        stream = iter(loader)
        batches = [next(stream)]
        file.unlink()
        error = None
        try:
            batches += stream
        except IntegrityError as found:
            error = found
    assert seen(batches) == whole[: len(batches)]
    assert file.name in error.where if error else len(batches) == len(whole)


@pytest.mark.parametrize("number", [20, pytest.param(200, marks=pytest.mark.full)])
def test_bit_flip(damaged, whole, faults, number):
    files = shards_of(damaged)
    flips = [(file, at) for seed, file in enumerate(files) for at in faults.offsets(file, 30, seed)]
    for file, at in flips[:: max(1, len(flips) // number)][:number]:
        faults.flip_byte(file, at)
        problems = found_by_verify(damaged)
        batches, error = epoch(damaged)
        faults.flip_byte(file, at)

        assert problems
        assert all(file.name in problem for problem in problems)
        assert batches == whole[: len(batches)]
        if error is None:
            assert len(batches) == len(whole), "not a byte of it is read: a shard of texts alone"
        else:
            assert file.name in error.where


def test_cut_shard(damaged, faults):
    for file in (shards_of(damaged)[0], shards_of(damaged)[-1]):
        content = file.read_bytes()
        size = len(content)
        others = [content[:keep] for keep in (0, 1, 511, 512, size // 2, size - 1)]
        others += [content + b"\1", content + bytes(512), content * 2]
        for other in others:
            file.write_bytes(other)
            words = f"the file has {len(other)} bytes, the manifest says {size}"
            assert any(file.name in problem and words in problem for problem in found_by_verify(damaged))
            with pytest.raises(IntegrityError, match=words) as caught:
                make_loader(damaged)
            assert file.name in caught.value.where
        file.write_bytes(content)


def test_swapped_shards(damaged, clean, whole, faults, tmp_path):
    other = build(clean.parent / "base", tmp_path / "other", shard_size=9000)
    one, two = shards_of(damaged)[0], shards_of(damaged)[-1]
    contents = {file: file.read_bytes() for file in (one, two)}

    def swap():
        faults.swap(one, two)

    for change in (swap, lambda: shutil.copy(two, one), lambda: shutil.copy(shards_of(other)[0], one)):
        change()
        assert found_by_verify(damaged)
        batches, error = epoch(damaged)
        assert batches == whole[: len(batches)]
        assert error is not None
        assert one.name in error.where or two.name in error.where
        for file, content in contents.items():
            file.write_bytes(content)
    assert epoch(damaged) == (whole, None)


def test_foreign_state(clean, damaged, whole, tmp_path):
    with make_loader(clean) as loader:
        stream = iter(loader)
        for _ in range(7):
            next(stream)
        state = json.loads(json.dumps(loader.state_dict()))

    other = build(clean.parent / "base", tmp_path / "other", shard_size=9000)
    base = tmp_path / "base"
    copy_tree(clean.parent / "base", base)
    row = json.loads((base / "rows.jsonl").read_text().split("\n")[0])
    row["text"] = row["text"] + " and one more"
    with (base / "rows.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    grown = build(base, tmp_path / "grown")
    for path, settings, words in (
        (other, {}, "dataset is"),
        (clean, {"seed": 1}, "seed is 0 there, 1 here"),
        (clean, {"global_batch": 4}, "global_batch is 2 there, 4 here"),
        (grown, {}, "dataset is"),
    ):
        with make_loader(path, **settings) as loader, pytest.raises(ResumeError, match=words):
            loader.load_state_dict(state)
    parts = []
    for rank in range(2):
        with make_loader(clean, rank=rank, world_size=2) as loader:
            assert loader.load_state_dict(state) is Promise.REPLAYABLE
            parts.append(seen(loader))
    for batch, one, two in zip(whole[7:], *parts, strict=True):
        assert sorted(batch[1]) == sorted([*one[1], *two[1]])
    with make_loader(clean) as loader:
        stream = iter(loader)
        next(stream)
        loader.load_state_dict(state)
        assert seen(stream) == whole[7:]


@pytest.mark.parametrize("num_shards", [1, 2])
def test_few_shards(clean, tmp_path, num_shards):
    size = sum(file.stat().st_size for file in shards_of(clean))
    tokens = build(clean.parent / "base", tmp_path, shard_size=size if num_shards == 1 else size // 4)
    dataset = Dataset.open(tokens)
    assert len(dataset.shards) <= 3
    num_sequences = dataset.table("lengths").num_rows
    for world_size in (1, 2, 3, 8):
        rows, counts = [], set()
        for rank in range(world_size):
            loader = make_loader(tokens, global_batch=24, rank=rank, world_size=world_size)
            hosted = DataLoader(loader, batch_size=None, num_workers=[0, 1, 4][world_size % 3] if rank == 0 else 0)
            batches = list(hosted)
            counts.add(len(batches))
            rows += [row for batch in batches for row in batch.info.rows]
            loader.close()
        assert len(counts) == 1
        assert len(rows) == len(set(rows)) == num_sequences


def test_worker_counts(clean, whole):
    for num_workers in (0, 1, 2, 5):
        assert seen(DataLoader(make_loader(clean), batch_size=None, num_workers=num_workers)) == whole
    loader = make_loader(clean)
    batches = [batch for _, batch in zip(range(5), DataLoader(loader, batch_size=None, num_workers=2), strict=False)]
    state = loader.state_after(batches[-1])
    for num_workers in (0, 5):
        loader = make_loader(clean)
        loader.load_state_dict(state)
        assert seen(DataLoader(loader, batch_size=None, num_workers=num_workers)) == whole[5:]


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full), "forkserver"])
def test_fork_spawn(clean, whole, method):
    with make_loader(clean) as loader:
        next(iter(loader))
        loader.set_epoch(0)
        hosted = DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context=method)
        assert seen(hosted) == whole


EPOCHS = """
import os, sys
from torch.utils.data import DataLoader
from shardkit.loader import StreamingLoader

loader = StreamingLoader(sys.argv[1], max_tokens=128, global_batch=2, tail="pad", epochs=10**6)
hosted = DataLoader(loader, batch_size=None, num_workers=2)
stream = iter(hosted)
next(stream)
print(*(worker.pid for worker in stream._workers), flush=True)
try:
    for batch in stream:
        pass
except KeyboardInterrupt:
    sys.stderr.write("interrupted\\n")
    sys.exit(130)
"""


def gone(pids):
    """Whether these processes have ended; one that only waits to be counted has."""
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if status != "Z":
            return False
    return True


@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=pytest.mark.full)])
def test_interrupt(clean, rounds):
    for number in range(rounds):
        one = subprocess.Popen(
            [sys.executable, "-c", EPOCHS, str(clean)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        pids = [int(pid) for pid in one.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.1)
        if number % 2 == 0:
            os.killpg(one.pid, signal.SIGINT)  # as a terminal does
        else:
            os.kill(one.pid, signal.SIGKILL)
        _, err = one.communicate(timeout=30)
        assert one.returncode == (130 if number % 2 == 0 else -signal.SIGKILL)
        if number % 2 == 0:
            # Beside it at most what a thread of Python's says in a worker that was handing over when its parent left.
            assert "interrupted\n" in err
            assert err.count("Traceback") == err.count("in _serve") == err.count("ConnectionResetError:"), err
        deadline = time.monotonic() + 30
        while not gone(pids):
            assert time.monotonic() < deadline, "a worker outlived its parent"
            time.sleep(0.1)


TOO_MUCH = """
import resource, sys
from torch.utils.data import DataLoader
from shardkit.loader import StreamingLoader


def limit(_worker):
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))  # the kernel ends it, as it does one that takes too much memory
    while True:
        pass


loader = StreamingLoader(sys.argv[1], max_tokens=128, global_batch=2)
try:
    for batch in DataLoader(loader, batch_size=None, num_workers=2, worker_init_fn=limit):
        pass
except RuntimeError as error:
    print(str(error).split(chr(10))[0], flush=True)
"""


def test_killed_worker(clean, warm, tmp_path):
    # One that is killed after the third batch, and what follows: test_failures.py.
    began = time.monotonic()
    one = warm.run(TOO_MUCH, clean, cwd=tmp_path, timeout=60)
    assert "worker" in one.stdout.lower(), one.stderr
    assert time.monotonic() - began < 30
