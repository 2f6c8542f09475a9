"""Ours and the floors of `bench_loader.py`: the samples made, measured and resumed in our own environment.

    python benchmarks/loader_ours.py prepare --work DIR --shared DIR [--images N] [--docs N]
    python benchmarks/loader_ours.py measure ours|floor --work DIR --seconds S [--resume N]

`prepare` makes the corpus, ingests and tokenizes it for both sides, and writes what ingest kept as the samples that the
floors and the peers read: the same keys, texts and bytes.

    raw      id, token ids and stored bytes by RawSequenceLoader, in the order of plans, shards checked when opened or block
             by block; and slices of one mapped file, in a shuffled order: in turns (`measure floor`)
    rgb      the loader's decoder at full scale and bare loops, into memory that is used again, in turns (`measure floor`)
    packed   ours: StreamingLoader, its defaults (pillow) and turbo. floor: decode and resize alone, in two threads
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import loader_samples as common
import numpy as np
import simplejpeg
import torch
from loader_samples import BATCH, PACK, Sample, Samples

from shardkit.digest import xxh3
from shardkit.loader import RawSequenceLoader, StreamingLoader, pictures
from shardkit.media import turbo
from shardkit.media.decode import decode_rgb
from shardkit.sequence.plan.source import read_lengths
from shardkit.store.dataset import Dataset

SIDES = (224, 448)
THREADS = 2
DECODERS = ("pillow", "turbo")
CLOCKS = ("wall", "cpu")


# ---------------------------------------------------------------------- making the samples
def shardkit(*arguments: object) -> None:
    command = [sys.executable, "-m", "shardkit", *map(str, arguments), "--json", "--quiet", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"shardkit {' '.join(map(str, arguments))}: {done.stderr}")


def prepare(work: Path, shared: Path, images: int, docs: int) -> None:
    corpus = work / "corpus"
    sizes = ["--images", images, "--pages", 0, "--docs", docs]
    command = [sys.executable, shared / "make_corpus.py", "--out", corpus, *sizes]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    pages, inputs = corpus / "obelics", []
    if images:
        shardkit("ingest", "caption", *sorted((corpus / "captions").glob("*.tar")), "-o", work / "captions")
        inputs.append(work / "captions")
    if docs:
        maps = [part for path in sorted(pages.glob("url_map*.jsonl")) for part in ("--url-map", path)]
        tables = sorted(pages.glob("*.parquet"))
        shardkit("ingest", "obelics", *tables, "--images", pages, *maps, "-o", work / "web", "--max-bad", "1")
        inputs.append(work / "web")
    common.write_samples(work / "samples", (sample for folder in inputs for sample in kept(folder)))
    tokenizer = Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer"
    plans = {}
    for side in SIDES:
        out = work / f"tokens{side}"
        shardkit(
            "tokenize", *inputs, "-o", out, "--tokenizer", tokenizer, "--recipe", "vlm", "--set", f"image_size={side}",
            "--max-tokens", PACK,
        )  # fmt: skip
        recipe = Dataset.open(out).recipe["recipe"]
        parts = ("bos", "eos", "image_start", "image_patch", "image_end")
        plans[side] = {
            "tokenizer": str(next((out / "tokenizer").rglob("tokenizer.json"))),
            "controls": {part: recipe[part] for part in parts},
            "slots": (side // 28) ** 2,
        }
    (work / "tokens.json").write_text(json.dumps(plans))


def kept(folder: Path) -> Iterator[Sample]:
    """What ingest kept, in the form of every contender. Keys are unique where example ids need not be."""
    for shard, row, example in Dataset.open(folder).examples():
        segments = [one.text if one.kind == "text" else one.image for one in example.segments]
        text = json.dumps(segments, ensure_ascii=False)
        yield f"{folder.name}-{shard:03}-{row:06}", text, [bytes(image.data) for image in example.images]


def check_tokens(work: Path) -> int:
    """Stop unless the ids that the peers make of the texts are those that are stored; returns how many were compared."""
    compared = 0
    samples = Samples(work / "samples")
    number = {key: at for at, key in enumerate(samples.keys)}
    for side, plan in json.loads((work / "tokens.json").read_bytes()).items():
        ids = common.Tokens(**plan).encoder()
        dataset = Dataset.open(work / f"tokens{side}")
        for reference in dataset.sequence_shards:
            table = dataset.sequence_reader(reference).table(["shard", "row", "window", "input_ids"])
            columns = (table.column(name).to_pylist() for name in table.column_names)
            rows = list(zip(*columns, strict=True))
            cut = {(shard, row) for shard, row, window, _ in rows if window}
            for shard, row, _, stored in rows:
                if (shard, row) in cut:
                    continue
                holder = dataset.shards[dataset.examples_of(reference)[shard]]
                key = f"{holder.holder.path.name}-{place_of(holder):03}-{row:06}"
                text = samples[number[key]][1]
                if ids(text) != stored:
                    sys.exit(f"{key}: the ids made of the text are not those stored for side {side}")
                compared += 1
    return compared


def check_raw(work: Path) -> int:
    """Stop unless raw sequences are the stored ids and the pictures of the samples; returns how many were compared."""
    samples = Samples(work / "samples")
    number = {key: at for at, key in enumerate(samples.keys)}
    dataset = Dataset.open(work / f"tokens{SIDES[0]}")
    expected: Counter[Any] = Counter()
    for reference in dataset.sequence_shards:
        places = dataset.examples_of(reference)
        columns = ["example_id", "shard", "row", "input_ids", "slots"]
        for row in dataset.sequence_reader(reference).table(columns).to_pylist():
            holder = dataset.shards[places[row["shard"]]]
            images = samples[number[f"{holder.holder.path.name}-{place_of(holder):03}-{row['row']:06}"]][2]
            own = tuple(xxh3(images[slot["image"]]) for slot in row["slots"])
            expected[row["example_id"], tuple(row["input_ids"]), own] += 1
    for verify in ("open", "read"):
        with raw_loader(work, verify) as loader:
            rows = (row for batch in loader for row in batch)
            found = Counter((example_id, tuple(ids.tolist()), tuple(map(xxh3, own))) for example_id, ids, own in rows)
        if found != expected:
            sys.exit(f"raw sequences ({verify}): {(found - expected).total()} are not those that are stored")
    return expected.total()


def place_of(reference: Any) -> int:
    """The index of a shard in the dataset that holds it."""
    return next(one.index for one in reference.holder.shards if one.name == reference.name)


def check_pixels(work: Path, number: int) -> float:
    """The least PSNR in dB of pictures as turbo shows them beside Pillow's, over the first batches."""
    least = float("inf")
    for side in SIDES:
        loaders = [loader_of(work, side, decoder) for decoder in DECODERS]
        seen = 0
        for one, other in zip(*loaders, strict=True):
            for image in one.sizes.images:
                a, b = (x.pixels[image.offset : image.offset + image.size].double() for x in (one, other))
                error = float(((a - b) ** 2).mean())
                least = min(least, 10 * np.log10(255**2 / error)) if error else least
                seen += 1
            if seen >= number:
                break
        for loader in loaders:
            loader.close()
    return float(least)


# ---------------------------------------------------------------------- ours
def loader_of(work: Path, side: int, decoder: str, **more: Any) -> StreamingLoader:
    return StreamingLoader(
        work / f"tokens{side}", max_tokens=PACK, seed=1, epochs=1, tail="pad", decoder=decoder, **more
    )


def raw_loader(work: Path, verify: Any) -> RawSequenceLoader:
    return RawSequenceLoader(work / f"tokens{SIDES[0]}", global_batch=BATCH, seed=1, copy=True, verify=verify)


def measure_ours(work: Path, seconds: float, repeats: int) -> dict[str, Any]:
    began = time.perf_counter()
    loader = loader_of(work, SIDES[0], "pillow")
    next(iter(loader))
    found: dict[str, Any] = {"first_batch_seconds": time.perf_counter() - began}
    loader.close()
    for side in SIDES:
        for decoder in DECODERS:
            for verify in ("open", "read"):
                open_: list[StreamingLoader] = []

                def opened(s: int = side, d: str = decoder, v: Any = verify, o: list[StreamingLoader] = open_) -> Any:
                    o.append(loader_of(work, s, d, verify=v))
                    return o[-1]

                name = f"packed_{side}_{decoder}" + ("" if verify == "open" else "_read")
                found[name] = common.rate(opened, lambda batch: len(batch.sizes.images), seconds)
                for one in open_:
                    one.close()
    found["private_mb"] = found["packed_224_pillow_read"]["mb"]
    if repeats:
        found["resume"] = resume_ours(work, repeats)
    return found


def resume_ours(work: Path, repeats: int) -> dict[str, Any]:
    def opened(state: Any) -> Any:
        loader = loader_of(work, SIDES[0], "turbo")
        if state is not None:
            loader.load_state_dict(state)

        def keys() -> Iterator[list[str]]:
            try:
                for batch in loader:
                    yield [f"{shard}:{row}" for shard, row in batch.info.rows]
            finally:
                loader.close()

        return keys(), loader.state_dict

    dataset = Dataset.open(work / f"tokens{SIDES[0]}")
    total = len(read_lengths(dataset, dataset.splits[0]))
    return common.resumption(opened, total, repeats)


_LOCAL = threading.local()


def our_decode(data: bytes) -> None:
    """As the loader does it with decoder="pillow": simplejpeg where its pixels are Pillow's, else Pillow."""
    size = turbo.plain_size(data)
    if size is None or turbo.decode_plain(data, size, scratch()) is None:
        np.asarray(decode_rgb(data))


def scratch() -> turbo.Scratch:
    if not hasattr(_LOCAL, "scratch"):
        _LOCAL.scratch = turbo.Scratch()
    found: turbo.Scratch = _LOCAL.scratch
    return found


# ---------------------------------------------------------------------- floors
def decoding(
    pictures: list[bytes], decoders: dict[str, Callable[[bytes], None]], seconds: float, threads: int
) -> dict[str, dict[str, float]]:
    """Pictures a second of each decoder, by the wall clock and by seconds of the processor.

    They take turns at 64 pictures, each of them as often first, when nothing is in the caches, so that the machine is the same
    for all; every eighth picture, so that all kinds are there.
    """
    part = pictures[::8]
    spent = {name: [0.0, 0.0] for name in decoders}
    for decode in decoders.values():
        decode(part[0])
    names = list(decoders)
    number, began = 0, time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        while time.perf_counter() - began < seconds * len(decoders):
            for start in range(0, len(part), 64):
                turn = part[start : start + 64]
                names.append(names.pop(0))
                for name in names:
                    decode = decoders[name]
                    before = (time.perf_counter(), time.process_time())
                    if threads > 1:
                        list(pool.map(decode, turn))
                    else:
                        for one in turn:
                            decode(one)
                    after = (time.perf_counter(), time.process_time())
                    for clock in (0, 1):
                        spent[name][clock] += after[clock] - before[clock]
                number += len(turn)
    return {name: {"wall": number / wall, "cpu": number / cpu} for name, (wall, cpu) in spent.items()}


def bare_exact(data: bytes) -> None:
    if data[:2] != b"\xff\xd8":
        common.pillow_rgb(data)
        return
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    buffer = scratch().get(height * width * 3)
    simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False, buffer=buffer)


def bare_fast(data: bytes) -> None:
    if data[:2] != b"\xff\xd8":
        common.pillow_rgb(data)
        return
    height, width, _, _ = simplejpeg.decode_jpeg_header(data)
    simplejpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=True, buffer=scratch().get(height * width * 3))


def bare_pillow(data: bytes) -> None:
    common.pillow_rgb(data)


def bare_square(side: int, decoder: str) -> Callable[[bytes], None]:
    """Decode and resize, nothing else: by Pillow, or by simplejpeg at a reduced scale and torch."""
    if decoder == "pillow":

        def plain(data: bytes) -> None:
            common.square_pillow(data, side)

        return plain

    def decode(data: bytes) -> None:
        buffer = None
        if data[:2] == b"\xff\xd8":
            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
            buffer = scratch().get(height * width * 3)
        common.resized(common.turbo_rgb(data, side, buffer), side)

    return decode


def raw_rates(work: Path, bare: Callable[[], Iterator[list[Any]]], seconds: float) -> dict[str, dict[str, float]]:
    """Medians of three turns; each loader does all of its epochs, as trainers do, and checks once what it checks once."""
    with raw_loader(work, "open") as opened, raw_loader(work, "read") as read:
        contenders: dict[str, Callable[[], Any]] = {
            "raw": bare,
            "raw_ours": lambda: opened,
            "raw_ours_read": lambda: read,
        }
        turns = [{name: common.rate(one, len, seconds / 2) for name, one in contenders.items()} for _ in range(3)]
    return {name: {clock: median(turn[name][clock] for turn in turns) for clock in CLOCKS} for name in contenders}


def measure_floor(work: Path, seconds: float, _repeats: int) -> dict[str, Any]:
    began = time.perf_counter()
    samples = Samples(work / "samples")
    order = list(range(len(samples)))
    random.Random(1).shuffle(order)

    def batches() -> Iterator[list[Any]]:
        for start in range(0, len(order), BATCH):
            yield [samples[index] for index in order[start : start + BATCH]]

    next(batches())
    found: dict[str, Any] = {"first_batch_seconds": time.perf_counter() - began}
    found |= raw_rates(work, batches, seconds)
    pictures = [data for _, _, images in samples for data in images]
    decoders = {"ours": our_decode, "exact": bare_exact, "fast": bare_fast, "pillow": bare_pillow}
    for threads in (1, THREADS):
        for name, rates in decoding(pictures, decoders, seconds, threads).items():
            found[f"rgb_{name}_{threads}"] = rates
    for side in SIDES:
        bare = {f"packed_{side}_{decoder}": bare_square(side, decoder) for decoder in DECODERS}
        found |= decoding(pictures, bare, seconds, THREADS)
    found["private_mb"] = common.private_mb()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["prepare", "check", "measure"])
    parser.add_argument("name", nargs="?", choices=["ours", "floor"])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--images", type=int, default=8000)
    parser.add_argument("--docs", type=int, default=1500)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--resume", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)  # the threads that decode are the parallel part
    if pictures._KEPT != common.KEPT:
        sys.exit(f"the loader keeps {pictures._KEPT} pixels for each that is shown, the others here keep {common.KEPT}")
    if options.command == "prepare":
        prepare(options.work, options.shared, options.images, options.docs)
        return
    if options.command == "check":
        found: Any = {
            "sequences_compared": check_tokens(options.work),
            "raw_sequences_compared": check_raw(options.work),
            "least_psnr": check_pixels(options.work, 64),
        }
    else:
        found = {"ours": measure_ours, "floor": measure_floor}[options.name](
            options.work, options.seconds, options.resume
        )
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
