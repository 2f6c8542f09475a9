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
import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
from writers import SUFFIXES, Picture

ROOT = Path(__file__).resolve().parent.parent
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


# ---------------------------------------------------------------- measuring
@dataclass(frozen=True, kw_only=True)
class Run:
    seconds: float
    cpu: float
    """Seconds of the process and all that it started."""
    parent_mb: float
    worker_mb: float
    """Peak resident memory of the process, and of the largest of its workers; 0 where there was none."""
    answer: dict[str, object]


def adopt_orphans() -> None:
    """A process server outlives its parent for a moment; its CPU time is counted by whoever waits for it."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def measured(command: list[object]) -> Run:
    """Run a command that prints one JSON object."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peaks: dict[int, float] = {}
    watch = threading.Thread(target=_watch, args=(process, peaks))
    watch.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - begin
    watch.join()
    _reap()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:6]))} ...: {err}")
    own = peaks.pop(process.pid, 0.0)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    answer = json.loads(out.splitlines()[-1])
    return Run(seconds=seconds, cpu=cpu, parent_mb=own, worker_mb=max(peaks.values(), default=0.0), answer=answer)


def _watch(process: subprocess.Popen[str], peaks: dict[int, float]) -> None:
    while process.poll() is None:
        for pid in _family(process.pid):
            try:
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            except OSError:
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    peaks[pid] = int(line.split()[1]) * 1024 / 1e6
        time.sleep(0.1)  # between two looks: the kernel keeps each peak, only processes that end in between are missed


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _reap() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


# ---------------------------------------------------------------- the rounds
def ingest_command(kind: str, corpus: Path, out: Path, workers: int, limit: int | None = None) -> list[object]:
    pages = corpus / "obelics"
    maps = [part for path in sorted(pages.glob("url_map*.jsonl")) for part in ("--url-map", path)]
    inputs: dict[str, list[object]] = {
        "caption": ["caption", *sorted((corpus / "captions").glob("*.tar"))],
        "ocr": ["ocr", corpus / "ocr"],
        "obelics": ["obelics", *sorted(pages.glob("*.parquet")), "--images", pages, *maps],
    }
    more = [] if limit is None else ["--limit", limit]
    options = ["-o", out, "--source", kind, "--workers", workers, "--max-bad", 1, *more, "--json", "--quiet"]
    return [sys.executable, "-m", "shardkit", "ingest", *inputs[kind], *options]


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
    names = ("shardkit", "numpy", "pillow", "pyarrow", "xxhash", "webdataset")
    versions = {name: version_in(sys.executable, name) for name in names}
    if "mds" in pythons:
        versions |= {f"{name} of mds": version_in(pythons["mds"], name) for name in ("numpy", "pillow", "xxhash")}
        versions["mosaicml-streaming"] = version_in(pythons["mds"], "mosaicml-streaming")
    summary = json.loads((corpus / "summary.json").read_bytes())
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "versions": versions,
        "absent": absent,
        "corpus": {key: summary[key] for key in ("items", "bytes") if key in summary},
    }


def make_corpus(options: argparse.Namespace, work: Path) -> Path:
    corpus = options.corpus or work / "corpus"
    if not corpus.exists():
        sizes = ["--images", options.images, "--pages", options.pages, "--docs", options.docs]
        command = [sys.executable, options.shared / "make_corpus.py", "--out", corpus, *sizes]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--shared", type=Path, default=ROOT.parent / "shared", help="where make_corpus.py and data/ lie"
    )
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
        corpus = make_corpus(options, work)
        kinds = options.kinds if options.rounds else []
        figures = [f for kind in kinds for f in bench_kind(kind, corpus, work, options.rounds, pythons)]
        memory = bench_memory(corpus, work, options.images) if options.memory else []
        about = facts(corpus, pythons, absent)
    found = ratios(figures)
    if options.as_json:
        body = {
            "figures": [asdict(figure) for figure in figures],
            "ratios": found,
            "memory": memory,
            "targets": TARGETS,
        }
        print(json.dumps({**about, **body}))
        return
    print(json.dumps(about, indent=2))
    print(
        f"{'what':20} {'workers':>7} {'images/s':>9} {'spread':>7} {'MB/s':>7} {'CPU s':>7} {'parent MB':>9} {'worker MB':>9}"
    )
    for f in figures:
        rates = f"{f.images_per_second:9.1f} {f.spread:7.2f} {f.mb_per_second:7.1f} {f.cpu_seconds:7.1f}"
        print(f"{f.what:20} {f.workers:7} {rates} {f.parent_mb:9.0f} {f.worker_mb:9.0f}")
    for name, value in found.items():
        print(f"{name:60} {value:6.3f}")
    for row in memory:
        print(f"memory at {row['images']} images: parent {row['parent_mb']:.0f} MB, worker {row['worker_mb']:.0f} MB")


if __name__ == "__main__":
    main()
