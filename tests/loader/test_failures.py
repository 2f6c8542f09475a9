"""Damage and bad pictures: data that is right, or an error that names the place; never a shorter epoch."""

import json
import re
import time

import numpy as np
import pytest
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.loader import pictures, quarantine, shards, unpack
from shardkit.media.processors import Geometry
from shardkit.media.reasons import BadMedia
from shardkit.store.dataset import Dataset
from tests.loader.builders import failure, make_loader, seen


def shards_of(path):
    """Every file that a loader of `path` reads from: sequences, examples, indices of tars."""
    dataset = Dataset.open(path)
    files = [shard.path for shard in (*dataset.sequence_shards, *dataset.shards)]
    return files + [file.with_name(file.name + ".index.arrow") for file in files if file.suffix == ".tar"]


def epoch_of(path, **more):
    """What an epoch gives, or the error it ends with."""
    batches = []
    try:
        with make_loader(path, **more) as loader:
            batches.extend(loader)
    except IntegrityError as error:
        return seen(batches), error
    return seen(batches), None


def test_a_shard_that_is_gone_stops_the_start(copied):
    for file in shards_of(copied)[:: len(shards_of(copied)) // 3]:
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(IntegrityError) as caught:
            make_loader(copied)
        assert str(caught.value) == f"{caught.value.where}: the shard is missing"
        assert caught.value.where.endswith(str(file.relative_to(file.parents[3])))
        file.write_bytes(content)
    with make_loader(copied) as loader:
        next(iter(loader))


def test_shards_that_go_in_mid_epoch_are_served_by_open_handles(copied, tokens):
    with make_loader(copied, epochs=2) as loader:
        # After a whole epoch every shard is open, however far ahead the threads had read.
        stream = iter(loader)
        batches = [next(stream) for _ in range(len(loader) // 2 + 1)]
        for file in shards_of(copied):
            file.unlink()
        batches += stream

    assert seen(batches) == epoch_of(tokens, epochs=2)[0]


def test_a_shard_that_goes_before_it_is_opened_is_named(copied, tokens, monkeypatch):
    monkeypatch.setattr(shards, "OPEN_SHARDS", 1)
    batches = []
    with make_loader(copied) as loader:
        stream = iter(loader)
        batches.append(next(stream))
        for file in shards_of(copied):
            file.unlink()
        with pytest.raises(IntegrityError, match="the shard is missing"):
            batches.extend(stream)

    assert seen(batches) == epoch_of(tokens)[0][: len(batches)]


@pytest.mark.parametrize("change", ["empty", "shorter", "one byte less", "one byte more", "twice"])
def test_a_shard_of_another_size_stops_the_start_with_both_sizes(copied, change):
    file = shards_of(copied)[0]
    content = file.read_bytes()
    size = len(content)
    new = {
        "empty": b"",
        "shorter": content[: size // 2],
        "one byte less": content[:-1],
        "one byte more": content + b"\0",
        "twice": content * 2,
    }[change]
    file.write_bytes(new)

    for verify in ("read", "open", "off"):
        with pytest.raises(IntegrityError, match=f"the file has {len(new)} bytes, the manifest says {size}"):
            make_loader(copied, verify=verify)


@pytest.mark.parametrize("verify", ["read", "open"])
def test_a_changed_byte_is_never_delivered(copied, tokens, verify):
    whole, _ = epoch_of(tokens)
    random = np.random.default_rng(0)
    refused = 0
    for file in shards_of(copied):
        content = bytearray(file.read_bytes())
        place = int(random.integers(0, len(content)))
        content[place] ^= 0xFF
        file.write_bytes(content)

        batches, error = epoch_of(copied, verify=verify)

        assert batches == whole[: len(batches)]
        if error is None:
            assert len(batches) == len(whole)
        else:
            refused += 1
            assert file.name.split(".index")[0] in str(error)
            assert "digest is xxh3:" in str(error)
        content[place] ^= 0xFF
        file.write_bytes(content)
    read = [file for file in shards_of(copied) if file.resolve().is_relative_to(copied) or ".tar" in file.name]
    assert refused == len(read), "examples without pictures are not read again"


def test_swapped_shards_are_found(copied):
    dataset = Dataset.open(copied)
    sizes = {}
    for shard in dataset.sequence_shards:
        sizes.setdefault(shard.entry.size, []).append(shard.path)
    one, other = next(
        (pair for pair in sizes.values() if len(pair) > 1), [s.path for s in dataset.sequence_shards[:2]]
    )[:2]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)

    with pytest.raises(IntegrityError):
        list(make_loader(copied))


def test_an_error_comes_in_the_place_of_its_batch(copied, tokens):
    whole, _ = epoch_of(tokens)
    last = whole[-1]
    with make_loader(copied) as loader:
        *_, batch = iter(loader)
        shard = Dataset.open(copied).sequence_shards[batch.info.rows[-1][0]]
    content = bytearray(shard.path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.path.write_bytes(content)

    batches, error = epoch_of(copied)

    assert error is not None
    assert seen([batch])[0] == last
    assert batches == whole[: len(batches)]


def test_workers_hand_errors_back_by_name(copied):
    for file in shards_of(copied):
        content = bytearray(file.read_bytes())
        content[-1] ^= 0xFF
        file.write_bytes(content)

    error = failure(DataLoader(make_loader(copied), batch_size=None, num_workers=2))

    assert isinstance(error, IntegrityError)
    assert "the file changed after it was committed" in str(error)


@pytest.fixture
def bad_picture(monkeypatch):
    """Makes the pictures of some asset sizes unreadable at read time."""
    decode = pictures.decode_rgb
    bad = []

    def failing(data):
        if len(bytes(data)) in bad:
            raise BadMedia("corrupt", "it cannot be decoded here " + "x" * 500)
        return decode(data)

    monkeypatch.setattr(pictures, "decode_rgb", failing)
    return bad


def some_picture(path):
    """(example id, image, size) of a stored picture whose size in bytes is its own."""
    sizes = {}
    for _, _, example in Dataset.open(path).examples():
        for index, image in enumerate(example.images):
            sizes.setdefault(len(image.data), []).append((example.example_id, index))
    return next((*places[0], size) for size, places in sorted(sizes.items()) if len(places) == 1)


def test_a_bad_picture_stops_the_run_by_name(tokens, bad_picture):
    example_id, image, size = some_picture(tokens)
    bad_picture.append(size)

    with make_loader(tokens) as loader, pytest.raises(SourceError) as caught:
        list(loader)

    assert f"image {image} cannot be decoded (corrupt: it cannot be decoded here" in str(caught.value)
    assert caught.value.where.rsplit(":")[-1].isdigit()
    dataset = Dataset.open(tokens)
    name, row = caught.value.where.rsplit(":", 1)
    (shard,) = [shard for shard in dataset.shards if shard.name == name]
    assert dataset.reader(shard).example(int(row)).example_id == example_id


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_quarantined_picture_masks_its_sequence_and_moves_nothing(tokens, bad_picture, num_workers):
    with make_loader(tokens) as loader:
        whole = list(loader)
    example_id, image, size = some_picture(tokens)
    bad_picture.append(size)

    loader = make_loader(tokens, on_bad="quarantine")
    batches = list(DataLoader(loader, batch_size=None, num_workers=num_workers))
    state = loader.state_after(batches[-1])
    for batch in batches:
        state = loader.state_after(batch)

    masked = 0
    for batch, expected in zip(batches, whole, strict=True):
        assert batch.info.rows == expected.info.rows
        assert batch.batch_id == expected.batch_id
        built = batch.to_device()
        assert built.denominators.equal(expected.denominators), "those of the plan"
        pairs = zip(
            [one for pack in unpack(built) for one in pack],
            [one for pack in unpack(expected) for one in pack],
            strict=True,
        )
        for name, (found, clean) in zip(batch.info.example_ids, pairs, strict=True):
            assert found.sequence.input_ids.tolist() == clean.sequence.input_ids.tolist()
            assert found.sequence.slots == clean.sequence.slots
            if name == example_id:
                assert set(found.sequence.objectives) == {0}
                assert not found.pixels[image].any()
                masked += 1
            else:
                assert found.sequence.objectives == clean.sequence.objectives
    assert masked == 1
    (entry,) = state["quarantine"]
    assert (entry["example_id"], entry["image"], entry["reason"]) == (example_id, image, "corrupt")
    assert len(entry["detail"]) <= 100


def test_a_restored_loader_knows_what_was_masked(tokens, bad_picture):
    bad_picture.append(some_picture(tokens)[2])
    with make_loader(tokens, on_bad="quarantine") as loader:
        list(loader)
        state = loader.state_dict()
    with make_loader(tokens, on_bad="quarantine") as loader:
        loader.load_state_dict(state)
        assert loader.state_dict() == state


def test_too_many_bad_pictures_stop_the_run(tokens, bad_picture, monkeypatch):
    bad_picture.extend(range(10_000))
    monkeypatch.setattr("shardkit.loader.packed.MAX_QUARANTINED", 5)

    with make_loader(tokens, on_bad="quarantine") as loader, pytest.raises(SourceError) as caught:
        list(loader)

    assert "pictures cannot be decoded; a rank masks 5 at most" in str(caught.value)
    assert quarantine.MAX_QUARANTINED == 100


def test_pictures_of_another_size_than_their_slots_are_refused(tokens, monkeypatch):
    monkeypatch.setattr(
        "shardkit.media.processors.square.Square.geometry",
        lambda _self, _height, _width: Geometry(height=28, width=56, slots=2),
    )
    with make_loader(tokens) as loader, pytest.raises(IntegrityError, match="is 28 x 56 in 28 x 56 after processing"):
        list(loader)


def test_another_processor_version_is_refused(tokens, monkeypatch):
    monkeypatch.setattr("shardkit.media.processors.square.Square.VERSION", 2)

    with make_loader(tokens) as loader, pytest.raises(ConfigError, match="were made for the image processor"):
        next(iter(loader))


KILLED = """
import json, os, signal, sys, time
from torch.utils.data import DataLoader
from shardkit.errors import ShardkitError
from shardkit.loader import StreamingLoader

loader = StreamingLoader(sys.argv[1], max_tokens=256, global_batch=2)
stream = iter(DataLoader(loader, batch_size=None, num_workers=2, prefetch_factor=1))
print(json.dumps(loader.state_after(next(stream))), flush=True)
pids = [worker.pid for worker in stream._workers]
try:
    try:
        os.kill(pids[1], signal.SIGKILL)
        for batch in stream:
            pass
    except ShardkitError as error:
        found = str(error)
        time.sleep(1)  # torch's error comes with the signal of the dead child: at any moment, also now
except RuntimeError as error:
    found = str(error)
print(found, flush=True)
del stream
time.sleep(0.1)


def open_files(pid):
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except (FileNotFoundError, ProcessLookupError):  # it may leave between any two looks
        return []


print([pid for pid in pids if open_files(pid)], flush=True)
"""


def test_a_killed_worker_ends_the_run_within_seconds_and_the_state_goes_on(tokens, warm, tmp_path):
    with make_loader(tokens) as loader:
        whole = seen(loader)
    began = time.monotonic()

    # In a process of its own: torch raises the error wherever the main thread happens to be.
    run = warm.run(KILLED, tokens, cwd=tmp_path, timeout=60)

    assert run.returncode == 0, run.stderr
    assert time.monotonic() - began < 30
    state, error, left = run.stdout.strip().split("\n", 2)
    assert re.search(r"DataLoader worker \(pid.*\d+\) (is killed by signal|exited unexpectedly|ended before)", error)
    assert left.endswith("[]")
    with make_loader(tokens) as loader:
        loader.load_state_dict(json.loads(state))
        assert seen(loader) == whole[1:]
