"""How today's loaders fail their users, as scenarios: rows of LOADERS.md section 2 that reading could meet, by number.

Rows 21 and 22, on caches, are in test_remote.py; those on batches in test_rows_batch.py, on plans, resuming
and mixtures in test_rows_plan.py.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch.utils.data import DataLoader

from shardkit.errors import IntegrityError, SourceError
from shardkit.loader import pictures, unpack
from shardkit.media.reasons import BadMedia
from shardkit.store.dataset import Dataset
from tests.loader.builders import failure, make_loader, seen
from tests.loader.conftest import TOKENIZER, ingest, shardkit

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker:UserWarning")


def write(folder: Path, rows: list[dict]) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def tokenized(inputs: Path, out: Path, *settings: str, side: int = 56, max_tokens: int = 128, more=()) -> Path:
    sets = [word for one in (f"image_size={side}", *settings) for word in ("--set", one)]
    shardkit(
        "tokenize", inputs, "-o", out, "--tokenizer", TOKENIZER, "--recipe", "vlm", *sets, "--max-tokens", max_tokens,
        "--workers", 1, "--quiet", *more,
    )  # fmt: skip
    return out


@pytest.fixture
def one_bad(tokens, monkeypatch):
    """One stored picture that cannot be decoded any more; workers that are forked find it so, too."""
    counts = {}
    for _, _, example in Dataset.open(tokens).examples():
        for index, image in enumerate(example.images):
            counts.setdefault(len(image.data), []).append((example.example_id, index))
    size, (place,) = next((size, places) for size, places in sorted(counts.items()) if len(places) == 1)
    decode = pictures.decode_rgb

    def failing(data):
        if len(bytes(data)) == size:
            raise BadMedia("corrupt", "it cannot be decoded")
        return decode(data)

    monkeypatch.setattr(pictures, "decode_rgb", failing)
    return place


def test_row_16_a_broken_sample_ends_no_worker_early(tokens, one_bad):
    began = time.monotonic()
    with make_loader(tokens, tail="pad") as loader:
        num_batches = len(loader)

    error = failure(DataLoader(make_loader(tokens), batch_size=None, num_workers=2))
    assert isinstance(error, SourceError)
    hosted = DataLoader(make_loader(tokens, epochs=2, tail="pad", on_bad="quarantine"), batch_size=None, num_workers=2)
    batches = list(hosted)

    assert [batch.position[0] for batch in batches].count(0) == num_batches
    assert {batch.position[0] for batch in batches} == {0, 1}
    assert sum(len(batch.info.quarantined) for batch in batches) == 2, "once an epoch"
    assert time.monotonic() - began < 60


def test_row_17_after_a_bad_picture_the_rest_comes_once(tokens, one_bad):
    with make_loader(tokens, on_bad="quarantine", tail="pad") as loader:
        rows = [row for batch in loader for row in batch.info.rows]
        (entry,) = loader.state_dict()["quarantine"]

    lengths = Dataset.open(tokens).table("lengths")
    assert sorted(rows) == sorted(zip(lengths["shard"].to_pylist(), lengths["row"].to_pylist(), strict=True))
    assert (entry["example_id"], entry["image"]) == one_bad


@pytest.mark.parametrize("damage", ["a header bit", "cut at a member"])
def test_row_18_a_damaged_tar_ends_no_shard_in_silence(copied, damage):
    shard = next(shard for shard in Dataset.open(copied).shards if shard.entry.format == "tar")
    content = bytearray(shard.path.read_bytes())
    headers = [at for at in range(0, len(content), 512) if content[at + 257 : at + 262] == b"ustar"]
    if damage == "a header bit":
        content[headers[len(headers) // 2] + 5] ^= 1
        words = "digest is xxh3:"
    else:
        content = content[: headers[len(headers) // 2]]
        words = f"the file has {len(content)} bytes, the manifest says {shard.entry.size}"
    shard.path.write_bytes(content)

    with pytest.raises(IntegrityError, match=words) as caught:
        list(make_loader(copied))
    assert caught.value.where.endswith(shard.name)


@pytest.mark.parametrize("form", ["tar", "arrow"])
def test_row_19_dots_in_names_divide_nothing(tmp_path, form):
    raw = tmp_path / "raw"
    raw.mkdir()
    names = [f"arXiv.2301.0000{paper}.page{page}.png" for paper in (1, 2) for page in (1, 2, 3)]
    for number, name in enumerate(names):
        Image.new("RGB", (30, 30), (number * 40, 0, 0)).save(raw / name)
    file = write(raw, [{"text": f"<image> {name}", "images": [name]} for name in names])

    tokens = tokenized(ingest(file, tmp_path / "set", "--shards", form), tmp_path / "tokens")

    with make_loader(tokens, tail="pad") as loader:
        batches = list(loader)
    assert len({example for batch in batches for example in batch.example_ids}) == 6
    shades = {int(one.pixels[0][0, 0, 0]) for batch in batches for pack in unpack(batch) for one in pack}
    assert len(shades) == 6
    paths = [image.path for _, _, example in Dataset.open(tokens).examples() for image in example.images]
    assert sorted(paths) == sorted(names)


def test_row_20_members_of_a_row_lie_side_by_side(tokens):
    for shard in Dataset.open(tokens).shards:
        if shard.entry.format == "tar":
            reader = Dataset.open(tokens).reader(shard)
            assert list(reader.unlike_members()) == []
            reader.close()


AN_EPOCH = """
import json, sys
from shardkit.loader import StreamingLoader
from tests.loader.builders import seen

with StreamingLoader(sys.argv[1], max_tokens=256, global_batch=2) as loader:
    stream = iter(loader)
    first = next(stream)
    print("begun", flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
    print(json.dumps(seen([first, *stream])), flush=True)
"""


def begin(path, what="go"):
    command = [sys.executable, "-c", AN_EPOCH, str(path), what]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **pipes)


def test_row_23_a_killed_run_is_in_nobodys_way_and_two_run_at_once(tokens):
    with make_loader(tokens) as loader:
        whole = json.loads(json.dumps(seen(loader)))
    killed, other = begin(tokens, "wait"), begin(tokens)
    assert killed.stdout.readline() == "begun\n"
    named = set(os.listdir("/dev/shm"))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    began = time.monotonic()
    with make_loader(tokens) as loader:
        next(iter(loader))
    assert time.monotonic() - began < 1
    out, err = other.communicate(timeout=60)
    assert json.loads(out.split("\n")[1]) == whole, err
    assert not {name for name in named & set(os.listdir("/dev/shm")) if "shardkit" in name}


MEMORY = """
import re, sys
from torch.utils.data import DataLoader
from shardkit.loader import StreamingLoader


def private(pid):
    text = open(f"/proc/{pid}/smaps_rollup").read()
    return sum(int(kib) for kib in re.findall(r"Private_\\w+: *(\\d+) kB", text))


loader = StreamingLoader(sys.argv[1], max_tokens=256, global_batch=2)
hosted = DataLoader(loader, batch_size=None, num_workers=2, persistent_workers=True)
for _ in range(4):
    for batch in hosted:
        pass
    print(sum(private(worker.pid) for worker in hosted._iterator._workers), flush=True)
"""


def test_row_25_memory_is_flat_over_epochs(tokens):
    run = subprocess.run([sys.executable, "-c", MEMORY, str(tokens)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    _, second, *_, last = map(int, run.stdout.split())

    assert last <= 1.05 * second, "the first epoch opens the shards"


@pytest.fixture(scope="module")
def long_rows(tmp_path_factory):
    """A dataset of one example with three pictures that take 256 slots each, and some words."""
    raw = tmp_path_factory.mktemp("long")
    for number in range(3):
        Image.new("RGB", (60, 60), (number * 90, 9, 9)).save(raw / f"{number}.png")
    row = {"text": "<image> one<image> two<image> three", "images": ["0.png", "1.png", "2.png"]}
    return ingest(write(raw, [row]), raw / "set")


@pytest.mark.parametrize("policy", ["window", "truncate", "drop"])
def test_row_32_an_image_is_never_cut(long_rows, tmp_path, policy):
    tokens = tokenized(long_rows, tmp_path / "tokens", side=448, max_tokens=512, more=("--overlong", policy))

    with make_loader(tokens, max_tokens=512, global_batch=1, tail="pad") as loader:
        found = [one for batch in loader for pack in unpack(batch) for one in pack]
    images = sorted(slot.image for one in found for slot in one.sequence.slots)
    assert images == {"window": [0, 1, 2], "truncate": [0], "drop": []}[policy]
    for one in found:
        assert len(one.sequence.input_ids) <= 512
        for slot, pixels in zip(one.sequence.slots, one.pixels, strict=True):
            assert slot.count == 256 == (pixels.shape[0] // 28) * (pixels.shape[1] // 28)
            assert len(set(one.sequence.input_ids[slot.start : slot.start + slot.count].tolist())) == 1


def test_row_33_one_bad_image_masks_its_document_and_is_counted(tmp_path, monkeypatch):
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(6):
        Image.new("RGB", (40 + number, 40), (number * 40, 9, 9)).save(raw / f"{number}.png")
    rows = [
        {"text": "".join(f"<image> part {n} " for n in range(5)), "images": [f"{n}.png" for n in range(5)]},
        {"text": "<image> other", "images": ["5.png"]},
    ]
    tokens = tokenized(ingest(write(raw, rows), tmp_path / "set"), tmp_path / "tokens")
    decode = pictures.decode_rgb

    def failing(data):
        image = decode(data)
        if image.width == 43:
            raise BadMedia("corrupt", "it cannot be decoded")
        return image

    monkeypatch.setattr(pictures, "decode_rgb", failing)

    with make_loader(tokens, global_batch=1, on_bad="quarantine") as loader:
        (batch,) = list(loader)
        (entry,) = loader.state_dict()["quarantine"]
    assert entry["image"] == 3
    targets = {len(one.sequence.slots): one.sequence.num_supervised for pack in unpack(batch) for one in pack}
    assert targets[5] == 0
    assert targets[1] > 0
    with make_loader(tokens, global_batch=1) as loader, pytest.raises(SourceError, match="image 3 cannot be decoded"):
        list(loader)


@pytest.mark.parametrize(
    ("method", "num_workers"),
    [
        ("fork", 4),
        ("forkserver", 1),
        pytest.param("spawn", 4, marks=pytest.mark.full),
        pytest.param("forkserver", 4, marks=pytest.mark.full),
    ],
)
def test_row_36_readers_work_however_workers_are_started(tokens, method, num_workers):
    loader = make_loader(tokens)
    whole = seen(loader)  # shards are open and threads have run
    loader.set_epoch(0)
    began = time.monotonic()

    hosted = DataLoader(loader, batch_size=None, num_workers=num_workers, multiprocessing_context=method)
    first = next(iter(hosted))
    assert time.monotonic() - began < 30
    loader.load_state_dict(loader.state_after(first))
    assert seen([first, *hosted]) == whole
    loader.close()


@pytest.fixture(scope="module")
def cropped(tmp_path_factory):
    """Sequences of 24 pictures, every pixel of which tells its place, shown in random views."""
    raw = tmp_path_factory.mktemp("views")
    chance = random.Random(5)
    for number in range(24):
        height, width = chance.randint(60, 200), chance.randint(60, 200)
        rows, columns = np.mgrid[:height, :width]
        picture = np.stack([rows, columns, np.full_like(rows, number)], axis=-1).astype(np.uint8)
        Image.fromarray(picture).save(raw / f"{number}.png")
    file = write(raw, [{"text": f"<image> picture {n}", "images": [f"{n}.png"]} for n in range(24)])
    return tokenized(ingest(file, raw / "set"), raw / "tokens", "crop_percent=40", "mirror=true")


def views(batches):
    """Epoch and example -> the corners of what was shown."""
    return {
        (batch.position[0], name): one.pixels[0][[0, 0, -1, -1], [0, -1, 0, -1]].tolist()
        for batch in batches
        for name, one in zip(
            batch.info.example_ids, [one for pack in unpack(batch.to_device("cpu")) for one in pack], strict=True
        )
    }


def test_row_37_views_depend_on_seed_epoch_and_example_alone(cropped):
    settings = {"max_tokens": 64, "global_batch": 1, "tail": "pad", "epochs": 2}
    with make_loader(cropped, **settings) as loader:
        batches = list(loader)
        state = loader.state_after(batches[7])
    whole = views(batches)
    assert len(whole) == 48

    for num_workers in (1, 4):
        hosted = DataLoader(make_loader(cropped, **settings), batch_size=None, num_workers=num_workers)
        assert views(hosted) == whole
    for num_workers in (0, 2):
        loader = make_loader(cropped, **settings)
        loader.load_state_dict(state)
        rest = views(DataLoader(loader, batch_size=None, num_workers=num_workers))
        assert rest == views(batches[8:])
    with make_loader(cropped, **{**settings, "global_batch": 4}) as loader:
        assert views(loader) == whole, "whatever lies beside them"
    with make_loader(cropped, seed=1, **settings) as loader:
        assert views(loader) != whole
    names = {name for _, name in whole}
    assert sum(whole[0, name] != whole[1, name] for name in names) > 20, "other views in the next epoch"
    mirrored = [corners[0][1] > corners[1][1] for corners in whole.values()]
    assert 12 < sum(mirrored) < 36


def test_row_38_ranks_and_workers_read_disjoint_parts(tokens):
    rows = []
    for rank in range(2):
        loader = make_loader(tokens, rank=rank, world_size=2, tail="pad")
        hosted = DataLoader(loader, batch_size=None, num_workers=2)
        rows += [row for batch in hosted for row in batch.info.rows]

    assert len(rows) == len(set(rows)) == Dataset.open(tokens).table("lengths").num_rows
