"""The whole road on a generated corpus, each figure beside its floor measured in the same run.

    python benchmarks/bench_slice.py [--shared DIR] [--images N] [--pages N] [--docs N] [--rounds N] [--json]

Rounds are interleaved (floor, then ours, then the floor again, ...) and medians are given, so that a busy machine slows
both sides alike: read ratios, not absolutes. Equality is asserted before anything is printed.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from corpora import SHARED, inputs, make_corpus
from PIL import Image
from processes import SHARDKIT
from report import about, publish, table

from shardkit.loader import StreamingLoader
from shardkit.store.dataset import Dataset

SIDE = 56
"""Pixels to which the recipe scales a picture."""
PACK = 4096
WORKERS = 2
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".tif")

Picture = tuple[Path, int, int]
"""File, offset and size in bytes of one encoded picture."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    what: str
    unit: str
    ours: float
    floor: float
    floor_is: str

    @property
    def ratio(self) -> float:
        return self.ours / self.floor if self.floor else float("nan")


def timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def shardkit(*arguments: object) -> dict[str, object]:
    command = [*SHARDKIT, *map(str, arguments), "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"shardkit {' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def read_all(paths: list[Path]) -> int:
    """The floor of reading: every file once, nothing done with it."""
    return sum(len(path.read_bytes()) for path in paths)


def decode_rgb(data: bytes) -> np.ndarray:
    """The floor of decoding: Pillow to RGB pixels, no checks."""
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def pictures_of(paths: list[Path]) -> list[Picture]:
    """Where the pictures lie: loose files, and members of tars."""
    found: list[Picture] = []
    for path in paths:
        if path.suffix == ".tar":
            with tarfile.open(path) as tar:
                found += [(path, m.offset_data, m.size) for m in tar if m.name.endswith(PICTURES)]
        elif path.suffix in PICTURES:
            found.append((path, 0, path.stat().st_size))
    return found


def decode_pictures(pictures: list[Picture]) -> int:
    """Read and decode each; returns how many could be."""
    number = 0
    for path, offset, size in pictures:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
        try:
            decode_rgb(data)
        except OSError:
            continue  # the corpus has planted broken pictures
        number += 1
    return number


def decode_with(pictures: list[Picture], workers: int) -> int:
    parts = [pictures[index::workers] for index in range(workers)]
    with ProcessPoolExecutor(workers) as pool:
        return sum(pool.map(decode_pictures, parts))


def raw_files(corpus: Path) -> dict[str, list[Path]]:
    return {"caption": files(corpus / "captions"), "ocr": files(corpus / "ocr"), "obelics": files(corpus / "obelics")}


def bench_ingest(corpus: Path, work: Path, rounds: int) -> Iterator[Figure]:
    """Ingest of the three families, beside reading the same files and decoding the same pictures."""
    ids: dict[str, set[object]] = {}
    for kind, paths in raw_files(corpus).items():
        size = sum(path.stat().st_size for path in paths)
        pictures = pictures_of(paths)
        ours, reading, decoding = [], [], []
        for index in range(rounds):
            reading.append(timed(lambda paths=paths: read_all(paths)))
            decoding.append(timed(lambda pictures=pictures: decode_with(pictures, WORKERS)))
            begin = time.perf_counter()
            out = ["-o", work / f"round-{index}" / kind, "--workers", WORKERS, "--max-bad", 1]
            summary = shardkit("ingest", *inputs(kind, corpus), *out)
            ours.append(time.perf_counter() - begin)
            ids.setdefault(kind, set()).add(summary["id"])
        assert len(ids[kind]) == 1, f"{kind}: rounds gave different datasets"
        seconds = statistics.median(ours)
        yield Figure(
            what=f"ingest {kind}", unit="MB/s", ours=size / 1e6 / seconds,
            floor=size / 1e6 / statistics.median(reading), floor_is="plain read of the same files, 1 process",
        )  # fmt: skip
        yield Figure(
            what=f"ingest {kind}", unit="images/s", ours=len(pictures) / seconds,
            floor=len(pictures) / statistics.median(decoding), floor_is=f"plain read and decode, {WORKERS} processes",
        )  # fmt: skip


def prepare(work: Path, shared: Path) -> Path:
    """dedup, split and tokenize the first round; returns the tokenized dataset."""
    base = work / "round-0"
    shardkit(
        "dedup", base / "caption", base / "ocr", base / "obelics", "-o", work / "clean", "--max-removed-per-source", 1
    )
    shardkit("split", work / "clean", "-o", work / "split", "--ratios", "train=0.9,val=0.05,test=0.05")
    tokenizer = shared / "data" / "tokenizers" / "minimind"
    options = ["--tokenizer", tokenizer, "--recipe", "vlm", "--set", f"image_size={SIDE}", "--max-tokens", PACK]
    shardkit("tokenize", work / "split", "-o", work / "tokens", *options)
    return work / "tokens"


def loader_of(tokens: Path, **options: object) -> StreamingLoader:
    return StreamingLoader(tokens, split="train", seed=1, max_tokens=PACK, epochs=1, **options)


def bench_reading(tokens: Path, rounds: int) -> Iterator[Figure]:
    """Raw reads of checked shards, and batches with decoded pictures, in samples a second."""
    dataset = Dataset.open(tokens)
    shards = [shard for shard in dataset.shards if shard.split == "train"]
    ours, floor, rows = [], [], 0
    for _ in range(rounds):
        floor.append(timed(lambda: [shard.path.read_bytes() for shard in shards]))
        begin = time.perf_counter()
        rows = sum(1 for _ in dataset.examples("train", verify="read"))
        ours.append(time.perf_counter() - begin)
    yield Figure(
        what="loader, raw", unit="samples/s", ours=rows / statistics.median(ours),
        floor=rows / statistics.median(floor), floor_is="plain read of the shards",
    )  # fmt: skip

    pictures = [bytes(image.data) for _, _, example in dataset.examples("train") for image in example.images]
    decoded, plain, samples, images = [], [], 0, 0
    for _ in range(rounds):
        plain.append(
            timed(lambda: [np.asarray(Image.fromarray(decode_rgb(data)).resize((SIDE, SIDE))) for data in pictures])
        )
        with_batches = loader_of(tokens)
        begin = time.perf_counter()
        samples = images = 0
        for batch in with_batches:
            samples += len(batch.example_ids)
            images += len(batch.image_slots)
        decoded.append(time.perf_counter() - begin)
        with_batches.close()
    assert images > 0
    seconds = statistics.median(plain) / len(pictures) * images
    yield Figure(
        what="loader, decoded", unit="samples/s", ours=samples / statistics.median(decoded),
        floor=samples / seconds, floor_is="plain decode and resize of as many pictures, 1 process",
    )  # fmt: skip


def bench_plan(tokens: Path, rounds: int) -> Iterator[Figure]:
    """Planning an epoch, beside reading the table it is made from and sorting it once; and how full the packs are."""
    path = tokens / "tables" / "lengths.parquet"
    ours, floor, summary = [], [], {}
    for _ in range(rounds):
        floor.append(timed(lambda: np.argsort(pq.read_table(path)["key"].to_numpy(), kind="stable")))
        begin = time.perf_counter()
        with_plan = loader_of(tokens)
        len(with_plan)
        ours.append(time.perf_counter() - begin)
        with_plan.close()
    summary = shardkit("plan", tokens, "--max-tokens", PACK, "--split", "train")
    number = float(str(summary["sequences"]))
    yield Figure(
        what="plan", unit="sequences/s", ours=number / statistics.median(ours),
        floor=number / statistics.median(floor), floor_is="reading the lengths and one sort",
    )  # fmt: skip
    yield Figure(what="pack fill", unit="of capacity", ours=float(str(summary["fill"])), floor=1.0, floor_is="no gap")


def bench_resume(tokens: Path, rounds: int) -> Iterator[Figure]:
    """Seconds from a new loader to its first batch: in the middle of the epoch, beside the start of it."""
    whole = loader_of(tokens)
    half = len(whole) // 2
    states, ids = [], []
    for batch in whole:
        states.append(whole.state_after(batch))
        ids.append(batch.batch_id)
    whole.close()
    resumed, fresh = [], []
    for _ in range(rounds):
        begin = time.perf_counter()
        loader = loader_of(tokens)
        assert next(iter(loader)).batch_id == ids[0]
        fresh.append(time.perf_counter() - begin)
        loader.close()
        begin = time.perf_counter()
        loader = loader_of(tokens)
        loader.load_state_dict(states[half - 1])
        assert next(iter(loader)).batch_id == ids[half]
        resumed.append(time.perf_counter() - begin)
        loader.close()
    yield Figure(
        what="resume at half", unit="s", ours=statistics.median(resumed), floor=statistics.median(fresh),
        floor_is="first batch of a fresh start",
    )  # fmt: skip


def facts(corpus: Path) -> dict[str, object]:
    summary = json.loads((corpus / "summary.json").read_bytes())
    return {
        **about("shardkit", "numpy", "pillow", "pyarrow", "torch"),
        "corpus": {key: summary[key] for key in ("items", "bytes") if key in summary},
        "settings": {"side": SIDE, "max_tokens": PACK, "workers": WORKERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=SHARED, help="where make_corpus.py and data/ lie")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--docs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder for corpus and datasets (default: a temporary one)")
    parser.add_argument("--json", action="store_true", dest="as_json")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        sizes = {"images": options.images, "pages": options.pages, "docs": options.docs}
        corpus = make_corpus(options.shared / "make_corpus.py", work / "corpus", **sizes)
        figures = list(bench_ingest(corpus, work, options.rounds))
        tokens = prepare(work, options.shared)
        for bench in (bench_reading, bench_plan, bench_resume):
            figures += bench(tokens, options.rounds)
        known = facts(corpus)

    rows = [{**asdict(figure), "ratio": figure.ratio} for figure in figures]
    publish(known, {"figures": rows}, table(rows), as_json=options.as_json)


if __name__ == "__main__":
    main()
