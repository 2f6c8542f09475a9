"""Ingest beside a bare loop over the same bytes, and beside writers of other projects that check each picture.

    python benchmarks/bench_ingest.py [--shared DIR] [--images N] [--pages N] [--docs N] [--rounds N] [--kinds KIND...]
                                       [--only WRITER...] [--peers DIR] [--memory] [--json]

    shardkit        `shardkit ingest` of the three families of the corpus: captions in tars, pages in folders, documents
    bare loop       read, full decode, sha256, xxh3 of the bytes, xxh3 of the pixels, one hash of a reduced grey; no output
    webdataset      ShardWriter: read, full decode as a check, write the same bytes with a label
    mds             MosaicML's MDSWriter, the same; in an environment of its own (--peers), for it wants older libraries
    ...-facts       the same writers, with the digests and the hash of the bare loop in the label

A writer whose package is absent is named and left out; `make bench` installs both.

Every contender is a process of its own, start and imports included, over the very same pictures in the same order. Rounds
are interleaved and medians are given, so that a busy machine slows all alike: read ratios, not absolutes. CPU seconds are
those of the process and all its workers. Equality is asserted first: same dataset id for every worker count and round, and
as many pictures kept as the bare loop could decode.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
from corpora import ROOT, SHARED, inputs, make_corpus
from processes import SHARDKIT, Run, adopt_orphans, measured
from report import about, publish, table
from writers import SUFFIXES, Picture

KINDS = ("caption", "ocr", "obelics")
TARGETS = {"of the bare loop": 0.85, "of its scaling": 0.9, "MB a worker": 600}


# ---------------------------------------------------------------- the pictures, as ingest meets them
def pictures_of(kind: str, corpus: Path) -> list[Picture]:
    if kind == "caption":
        found: list[Picture] = []
        for path in sorted((corpus / "captions").glob("*.tar")):
            with tarfile.open(path) as tar:
                found += [(str(path), m.offset_data, m.size) for m in tar if m.name.endswith(SUFFIXES)]
        return found
    if kind == "ocr":
        files = sorted(path for path in (corpus / "ocr").rglob("*") if path.suffix in SUFFIXES)
        return [(str(path), 0, path.stat().st_size) for path in files]
    folder, places = corpus / "obelics", {}
    for path in sorted(folder.glob("url_map*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            places[entry["url"]] = entry["file"]
    names = [
        places[url]
        for path in sorted(folder.glob("*.parquet"))
        for urls in pq.read_table(path, columns=["images"])["images"].to_pylist()
        for url in urls
        if url and places.get(url)
    ]
    return [(str(folder / name), 0, (folder / name).stat().st_size) for name in names]


# ---------------------------------------------------------------- the rounds
def ingest_command(kind: str, corpus: Path, out: Path, workers: int, limit: int | None = None) -> list[object]:
    more = [] if limit is None else ["--limit", limit]
    options = ["-o", out, "--source", kind, "--workers", workers, "--max-bad", 1, *more, "--json", "--quiet"]
    return [*SHARDKIT, "ingest", *inputs(kind, corpus), *options]


def writer_command(python: str, name: str, listing: Path, out: Path, workers: int) -> list[object]:
    script = Path(__file__).with_name("writers.py")
    return [python, script, name, "--listing", listing, "--work", out, "--workers", workers]


@dataclass(frozen=True, kw_only=True)
class Figure:
    what: str
    workers: int
    images: int
    seconds: float
    spread: float
    """Seconds of the slowest round over those of the fastest: far above 1, something else was running."""
    images_per_second: float
    mb_per_second: float
    cpu_seconds: float
    parent_mb: float
    worker_mb: float


def contenders(peers: Path) -> tuple[dict[str, str], list[str]]:
    """Name -> the interpreter that runs it, of those that can be run here; and those whose package is absent."""
    here, absent = {"shardkit": sys.executable, "bare": sys.executable}, []
    for name, package, python in (
        ("webdataset", "webdataset", sys.executable),
        ("mds", "mosaicml-streaming", str(peers / "bin" / "python")),
    ):
        if version_in(python, package) is None:
            absent.append(f"{name}: no package {package} for {python}; `make bench-peers` installs it")
        else:
            here |= {name: python, f"{name}-facts": python}
    return here, absent


def version_in(python: str, package: str) -> str | None:
    """The version of `package` that an interpreter has, None where there is neither."""
    if not Path(python).exists():
        return None
    code = f"from importlib.metadata import version; print(version({package!r}))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def bench_kind(kind: str, corpus: Path, work: Path, rounds: int, pythons: dict[str, str]) -> list[Figure]:
    pictures = pictures_of(kind, corpus)
    listing = work / f"{kind}.json"
    listing.write_text(json.dumps(pictures), encoding="utf-8")
    size = sum(picture[2] for picture in pictures)
    runs: dict[tuple[str, int], list[Run]] = {}
    for index in range(rounds):
        for name, python in pythons.items():
            for workers in (1, 2):
                out = work / f"{kind}-{name}-{workers}-{index}"
                own = name == "shardkit"
                command = (
                    ingest_command(kind, corpus, out, workers)
                    if own
                    else writer_command(python, name, listing, out, workers)
                )
                runs.setdefault((name, workers), []).append(measured(command))
                if out.exists():
                    subprocess.run(["rm", "-r", str(out)], check=True)
    ids = {run.answer["id"] for workers in (1, 2) for run in runs["shardkit", workers]}
    assert len(ids) == 1, f"{kind}: rounds or worker counts gave different datasets"
    kept = {run.answer["pictures"] for (name, _), found in runs.items() if name != "shardkit" for run in found}
    assert len(kept) == 1, f"{kind}: contenders decoded different pictures"
    if kind != "obelics":  # a document that names a picture twice holds it once
        assert kept == {runs["shardkit", 1][0].answer["images"]}, f"{kind}: shardkit kept other pictures"
    figures = []
    for (name, workers), found in runs.items():
        seconds = statistics.median(run.seconds for run in found)
        figures.append(
            Figure(
                what=f"{kind} {name}",
                workers=workers,
                images=len(pictures),
                seconds=seconds,
                spread=max(run.seconds for run in found) / min(run.seconds for run in found),
                images_per_second=len(pictures) / seconds,
                mb_per_second=size / 1e6 / seconds,
                cpu_seconds=statistics.median(run.cpu for run in found),
                parent_mb=max(run.parent_mb for run in found),
                worker_mb=max(run.worker_mb for run in found),
            )
        )
    return figures


def ratios(figures: list[Figure]) -> dict[str, float]:
    """The promises, each as one number: rates in images/s, all families together and each alone."""
    found = {}
    for kind in ("all", *dict.fromkeys(figure.what.split()[0] for figure in figures)) if figures else ():
        seconds: dict[tuple[str, int], float] = {}
        cpu: dict[tuple[str, int], float] = {}
        for figure in figures:
            family, name = figure.what.split()
            if kind in ("all", family):
                key = (name, figure.workers)
                seconds[key] = seconds.get(key, 0.0) + figure.seconds
                cpu[key] = cpu.get(key, 0.0) + figure.cpu_seconds
        for workers in (1, 2):
            for name in sorted({name for name, _ in seconds} - {"shardkit"}):
                ours = seconds["shardkit", workers]
                found[f"{kind}: shardkit / {name}, {workers} workers"] = seconds[name, workers] / ours
            found[f"{kind}: CPU of bare / CPU of shardkit, {workers} workers"] = (
                cpu["bare", workers] / cpu["shardkit", workers]
            )
            for name in sorted({name for name, _ in seconds} - {"shardkit", "bare"}):
                # Below 1, no ingest that takes the digests in its one decode reaches the writer at that many workers.
                found[f"{kind}: bare / {name}, {workers} workers"] = seconds[name, workers] / seconds["bare", workers]
        scaling = {name: seconds[name, 1] / seconds[name, 2] for name in ("shardkit", "bare")}
        found[f"{kind}: scaling 1 -> 2, shardkit / bare"] = scaling["shardkit"] / scaling["bare"]
    return found


def bench_memory(corpus: Path, work: Path, images: int) -> list[dict[str, float]]:
    """Peak memory at a tenth of the captions and at all of them: it should not grow."""
    rows = []
    for limit in (images // 10, images):
        out = work / f"memory-{limit}"
        run = measured(ingest_command("caption", corpus, out, 2, limit))
        rows.append({"images": limit, "parent_mb": run.parent_mb, "worker_mb": run.worker_mb})
        subprocess.run(["rm", "-r", str(out)], check=True)
    return rows


def facts(corpus: Path, pythons: dict[str, str], absent: list[str]) -> dict[str, object]:
    known = about("shardkit", "numpy", "pillow", "pyarrow", "xxhash", "webdataset")
    if "mds" in pythons:
        python = pythons["mds"]
        known["versions"] |= {f"{name} of mds": version_in(python, name) for name in ("numpy", "pillow", "xxhash")}
        known["versions"]["mosaicml-streaming"] = version_in(python, "mosaicml-streaming")
    summary = json.loads((corpus / "summary.json").read_bytes())
    return {
        **known,
        "absent": absent,
        "corpus": {key: summary[key] for key in ("items", "bytes") if key in summary},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=SHARED, help="where make_corpus.py and data/ lie")
    parser.add_argument("--corpus", type=Path, help="one that is there already")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--docs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3, help="of every contender; 0: with --memory nothing else")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--memory", action="store_true", help="also the memory at a tenth of the captions and at all")
    parser.add_argument("--work", type=Path, help="folder for corpus and datasets (default: a temporary one)")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--peers", type=Path, default=ROOT / ".venv-peers", help="environment with mosaicml-streaming")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contenders beside shardkit and bare (default: all)")
    options = parser.parse_args()

    adopt_orphans()
    pythons, absent = contenders(options.peers)
    if options.only is not None:
        pythons = {name: python for name, python in pythons.items() if name in ("shardkit", "bare", *options.only)}
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        sizes = {"images": options.images, "pages": options.pages, "docs": options.docs}
        corpus = make_corpus(options.shared / "make_corpus.py", options.corpus or work / "corpus", **sizes)
        kinds = options.kinds if options.rounds else []
        figures = [f for kind in kinds for f in bench_kind(kind, corpus, work, options.rounds, pythons)]
        memory = bench_memory(corpus, work, options.images) if options.memory else []
        known = facts(corpus, pythons, absent)
    found = ratios(figures)
    rows = [asdict(figure) for figure in figures]
    lines = [f"absent: {one}" for one in absent]
    lines += table(rows) if rows else []
    lines += [f"{name:60} {value:6.3f}" for name, value in found.items()]
    lines += [
        f"memory at {row['images']} images: parent {row['parent_mb']:.0f} MB, worker {row['worker_mb']:.0f} MB"
        for row in memory
    ]
    body = {"figures": rows, "ratios": found, "memory": memory, "targets": TARGETS}
    publish(known, body, lines, as_json=options.as_json)


if __name__ == "__main__":
    main()
