"""How fast near texts are found: what `bench_dedup.py speed` runs, each contender in a process of its own.

    python benchmarks/dedup_speed.py rensa FILE... --procs 2        one contender alone, one JSON object
    python benchmarks/dedup_speed.py bands --signatures 5000000 --bands 14

Ours is `shardkit dedup` from an ingested dataset to the committed view. rensa gets the same shingles from the same
compared form (a regex finds the tokens), as many bands, its signatures in as many processes, its own LSH, and the same
exact verification of what that proposes; it ends with a list of removed rows. datatrove runs its four stages with its
defaults but the same shingles and bands; it does not verify.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import re
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from processes import Run, measured, shardkit

from shardkit.prepare.components import components
from shardkit.prepare.dedup.buckets import BandFile, PairSet, bucket_pairs
from shardkit.prepare.dedup.near_text import PRESETS
from shardkit.prepare.dedup.shingles import mixed
from shardkit.text.normalize import normalize

PRESET = PRESETS["web"]
TOKEN = re.compile(
    "[\u3005-\u3007\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
    "|[^\\W_\u3005-\u3007\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]+"
)
_PART = 2000


# ---------------------------------------------------------------------- peers
def texts_of(paths: Sequence[Path]) -> list[str]:
    return [json.loads(line)["text"] for path in paths for line in path.open(encoding="utf-8")]


def shingles(text: str) -> list[str]:
    """The shingles of a text as strings; none of one that is too short to compare."""
    words = TOKEN.findall(normalize(text))
    if len(words) < PRESET.min_tokens:
        return []
    return [" ".join(words[k : k + PRESET.width]) for k in range(len(words) - PRESET.width + 1)]


def rensa_sketches(texts: list[str]) -> list[Any]:
    peer = importlib.import_module("rensa")
    return list(peer.RMinHash.from_token_sets([shingles(text) for text in texts], PRESET.bands * PRESET.rows, 42))


def rensa(paths: Sequence[Path], procs: int) -> dict[str, Any]:
    """Removed rows by rensa's signatures and LSH, with exact verification and a star around each first row."""
    peer = importlib.import_module("rensa")
    begin = time.perf_counter()
    texts = texts_of(paths)
    parts = [texts[start : start + _PART] for start in range(0, len(texts), _PART)]
    with ProcessPoolExecutor(procs) as pool:
        sketches = [sketch for part in pool.map(rensa_sketches, parts) for sketch in part]
    signed = time.perf_counter()
    index = peer.RMinHashLSH(PRESET.threshold, PRESET.bands * PRESET.rows, PRESET.bands)
    index.insert_many(sketches)
    candidates = index.query_all(sketches)
    searched = time.perf_counter()
    keeper: dict[int, int] = {}
    sets: dict[int, set[str]] = {}
    for two, others in enumerate(candidates):
        for one in sorted(others):
            if one >= two:
                break
            if one not in keeper and near(one, two, texts, sets):
                keeper[two] = one
                break
    end = time.perf_counter()
    return {
        "texts": len(texts),
        "removed": len(keeper),
        "seconds": end - begin,
        "signatures": signed - begin,
        "lsh": searched - signed,
        "verification": end - searched,
    }


def near(one: int, two: int, texts: list[str], sets: dict[int, set[str]]) -> bool:
    for row in (one, two):
        if row not in sets:
            sets[row] = set(shingles(texts[row]))
    shared = len(sets[one] & sets[two])
    return shared > 0 and shared >= PRESET.threshold * (len(sets[one]) + len(sets[two]) - shared)


def datatrove(paths: Sequence[Path], procs: int) -> dict[str, Any]:
    """Removed rows by datatrove's four stages, as many tasks as files."""
    logging.disable(logging.INFO)
    importlib.import_module("loguru").logger.remove()
    minhash = importlib.import_module("datatrove.pipeline.dedup.minhash")
    executor = importlib.import_module("datatrove.executor.local").LocalPipelineExecutor
    reader = importlib.import_module("datatrove.pipeline.readers").JsonlReader
    writer = importlib.import_module("datatrove.pipeline.writers.jsonl").JsonlWriter
    config = minhash.MinhashConfig(n_grams=PRESET.width, num_buckets=PRESET.bands, hashes_per_bucket=PRESET.rows)
    with tempfile.TemporaryDirectory() as folder:
        data, work = Path(folder, "in"), Path(folder, "work")
        data.mkdir()
        for path in paths:
            (data / path.name).symlink_to(path.resolve())
        tasks = len(paths)

        def source() -> Any:
            return reader(str(data), text_key="text", id_key="id")

        def places(*names: str) -> list[str]:
            return [str(work / name) for name in names]

        signatures, buckets, removed, kept = places("signatures", "buckets", "removed", "kept")
        stages = [
            ([source(), minhash.MinhashDedupSignature(output_folder=signatures, config=config, language="en")], tasks),
            (
                [minhash.MinhashDedupBuckets(input_folder=signatures, output_folder=buckets, config=config)],
                config.num_buckets,
            ),
            ([minhash.MinhashDedupCluster(input_folder=buckets, output_folder=removed, config=config)], 1),
            ([source(), minhash.MinhashDedupFilter(input_folder=removed), writer(kept, compression=None)], tasks),
        ]
        begin, seconds = time.perf_counter(), []
        for number, (pipeline, stage_tasks) in enumerate(stages):
            executor(
                pipeline=pipeline,
                tasks=stage_tasks,
                workers=procs,
                logging_dir=str(work / f"logs-{number}"),
            ).run()
            seconds.append(time.perf_counter() - begin - sum(seconds))
        num_texts = sum(1 for path in paths for _ in path.open("rb"))
        num_kept = sum(1 for path in Path(kept).glob("*") for _ in path.open("rb"))
        names = ("signatures", "buckets", "clusters", "filter")
        return {
            "texts": num_texts,
            "removed": num_texts - num_kept,
            "seconds": sum(seconds),
            **dict(zip(names, seconds, strict=True)),
        }


PEERS = {"rensa": rensa, "datatrove": datatrove}


# ---------------------------------------------------------------------- bands alone
def bands(num_signatures: int, num_bands: int) -> dict[str, Any]:
    """Seconds and memory from the keys of many texts to clusters; what is planted must come out.

    Every tenth row copies one of the nine before it in most bands, and in one at least; a thousandth of the rows
    shares one key in the first band.
    """
    rows = np.arange(num_signatures)
    source = np.where(rows % 10 == 9, rows - 1 - (rows // 10) % 9, rows)
    large = max(num_signatures // 1000, 2)
    with tempfile.TemporaryDirectory() as folder:
        file = BandFile(Path(folder, "bands.u64"), bands=num_bands, size=num_signatures)
        step = 1 << 18
        for start in range(0, num_signatures, step):
            own, base = rows[start : start + step], source[start : start + step]
            keys = np.empty((num_bands, len(own)), np.uint64)
            for band in range(num_bands):
                chance = mixed((own * num_bands + band).astype(np.uint64)) % np.uint64(4)
                shared = (chance > 0) | (own % num_bands == band)
                keys[band] = mixed((np.where(shared, base, own) * num_bands + band + 1).astype(np.uint64)) | np.uint64(
                    1
                )
            keys[0, own < large] = 1
            file.put(start, keys)
        begin = time.perf_counter()
        pairs, num_large = PairSet(Path(folder)), 0
        for one_band in file:
            one, two, larger = bucket_pairs(one_band)
            pairs.add(one, two)
            num_large += larger
        edges = list(pairs.blocks())
        cluster = components(num_signatures, edges)
        seconds = time.perf_counter() - begin
    tied = int((source[large:] != rows[large:]).sum())
    expected = num_signatures - (large - 1) - tied
    found = int(cluster.max()) + 1
    if found != expected:
        raise SystemExit(f"{found} clusters, {expected} were planted")
    return {
        "signatures": num_signatures,
        "bands": num_bands,
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "clusters": found,
        "pairs": sum(len(one) for one, _ in edges),
        "large_buckets": num_large,
    }


# ---------------------------------------------------------------------- the rounds
def speed(corpus: Path, work: Path, *, sizes: Sequence[int], peer_texts: int, signatures: int) -> dict[str, Any]:
    """Rows of figures: ours at each size, then rensa at the largest and datatrove on a sample, then bands alone.

    Args:
        corpus: of make_corpus.py, with texts; its captions are deduplicated together with the texts where it has any.
        peer_texts: texts that datatrove gets; its rate is stated for them.
    """
    files = sorted((corpus / "texts").glob("*.jsonl"))
    rows, datasets = [], []
    for size in sizes:
        datasets.append(work / f"texts-{size}")
        shardkit("ingest", "rows", *files, "-o", datasets[-1], "--limit", size)
        rows.append(dedup(f"shardkit, {size} texts", [datasets[-1]], work, "text"))
    if tars := sorted((corpus / "captions").glob("*.tar")):
        pictures = work / "captions"
        shardkit("ingest", "caption", *tars, "-o", pictures, "--max-bad", 1)
        rows.append(dedup("shardkit, texts and images, all levels", [datasets[-1], pictures], work, None))
    whole, sample = used(files, sizes[-1]), used(files, peer_texts)
    for name, paths in {"rensa": whole, "datatrove": sample}.items():
        if importlib.util.find_spec(name):
            rows.append(figure(name, measured([sys.executable, __file__, name, *paths, "--procs", 2])))
        else:
            rows.append({"what": name, "absent": "not installed"})
    alone = measured([sys.executable, __file__, "bands", "--signatures", signatures, "--bands", 14])
    return {"rows": rows, "bands": alone.answer}


def used(files: Sequence[Path], texts: int) -> list[Path]:
    """The first files that have so many texts, whole files."""
    found, num = [], 0
    for path in files:
        if num >= texts:
            break
        found.append(path)
        num += sum(1 for _ in path.open("rb"))
    return found


def dedup(what: str, datasets: Sequence[Path], work: Path, levels: str | None) -> dict[str, Any]:
    more: list[object] = [] if levels is None else ["--level", levels]
    options = ["-o", work / "view", "--overwrite", "--max-removed-per-source", 1, "--workers", 2, *more]
    return figure(what, shardkit("dedup", *datasets, *options))


def figure(what: str, found: Run) -> dict[str, Any]:
    answer = found.answer
    num = answer.get("texts", answer.get("read"))
    seconds = answer.get("seconds", found.seconds)
    return {
        "what": what,
        "rows": num,
        "removed": answer.get("removed", answer.get("excluded")),
        "seconds": round(seconds, 2),
        "rows_per_second": round(num / seconds),
        "cpu_seconds": round(found.cpu, 2),
        "parent_mb": round(found.parent_mb),
        "worker_mb": round(found.worker_mb),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in PEERS:
        peer = commands.add_parser(name)
        peer.add_argument("paths", nargs="+", type=Path)
        peer.add_argument("--procs", type=int, default=2)
    planted = commands.add_parser("bands")
    planted.add_argument("--signatures", type=int, default=5_000_000)
    planted.add_argument("--bands", type=int, default=14)
    options = parser.parse_args()
    if options.command == "bands":
        answer = bands(options.signatures, options.bands)
    else:
        answer = PEERS[options.command](options.paths, options.procs)
    json.dump(answer, sys.stdout)
    print()


if __name__ == "__main__":
    main()
