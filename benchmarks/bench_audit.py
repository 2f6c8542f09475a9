"""Audit beside verify --deep and a bare loop that only decodes: seconds and memory.

    python benchmarks/bench_audit.py [--examples N] [--pictures N] [--rounds N] [--work DIR] [--json]

    shardkit audit           from a committed split (bench_split.py makes its input) to the proof: every digest, pixel id,
                             text and example id computed again, values and near pairs on two sides
    the same, equal only     --level exact,pixel: without the near kinds
    shardkit verify --deep   the same bytes and decodes, every row against its digests, nothing across rows
    bare loop                pyarrow reads the rows, Pillow decodes their pictures, one xxh3 of each

Rounds are interleaved and medians are given: read the ratios. CPU seconds are those of the process and all its workers.
Checked first: the split leaks nothing, one worker and two answer the same, and of a copy in which the last example of
the test split was replaced by one of training, changed by a word, the audit names exactly the leaks that were put there.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash
from bench_split import make_input, split
from processes import SHARDKIT, Run, adopt_orphans, measured, shardkit
from report import about, publish, row_of, table


def audit(source: Path, workers: int, *more: object) -> Run:
    return shardkit("audit", source, "--workers", workers, *more)


def verify(source: Path, workers: int) -> Run:
    return shardkit("verify", source, "--deep", "--workers", workers)


def bare(source: Path) -> dict[str, Any]:
    """The floor; a process of its own."""
    from PIL import Image

    from shardkit.store import Dataset

    dataset, count = Dataset.open(source), 0
    for shard in dataset.shards:
        reader = dataset.reader(shard, verify="off")
        table = reader.columns(["images", "segments"])
        for row, images in enumerate(table["images"].to_pylist()):
            for number in range(len(images)):
                data = bytes(reader.image_bytes(row, number))
                xxhash.xxh3_128_hexdigest(data)
                Image.open(io.BytesIO(data)).convert("RGB").tobytes()
            count += 1
        reader.close()
    return {"examples": count}


def planted(source: Path, work: Path) -> None:
    """A training text with another word at its end, in the test split: named, and nothing else is."""
    from shardkit.records import Segment, example_id
    from shardkit.records.manifest import Manifest
    from shardkit.store import Dataset
    from shardkit.store.columns import to_rows
    from shardkit.store.units import SHARD_FORMATS

    copy = work / "planted"
    shutil.copytree(source, copy)
    dataset = Dataset.open(copy)
    _, _, victim = next(iter(dataset.examples("train")))
    shard = next(one for one in reversed(dataset.shards) if one.split == "test")
    reader = dataset.reader(shard)
    rows = [reader.example(row) for row in range(shard.num_rows)]
    reader.close()
    text = " ".join([victim.text] * 3)  # long enough to be near to something
    long = replace(victim, segments=(Segment(kind="text", text=text),), images=(), relations=(), group="apart")
    other = replace(long, segments=(Segment(kind="text", text=f"{text} indeed"),), group="elsewhere", metadata="{}")
    long = replace(long, metadata="{}")
    train = next(one for one in dataset.shards if one.split == "train")
    reader = dataset.reader(train)
    before = [reader.example(row) for row in range(train.num_rows)]
    reader.close()
    body = json.loads((copy / "manifest.json").read_bytes())
    for ref, some in ((train, [*before, long]), (shard, [*rows, other])):
        ref.path.unlink()
        writer = SHARD_FORMATS[ref.entry.format](ref.path)
        for one in some:
            writer.add(to_rows([replace(one, example_id=example_id(one))], [{}]))
        written = writer.close()
        body["shards"][ref.index] |= {"rows": written.rows, "size": written.size, "xxh3": written.xxh3}
    (copy / "manifest.json").write_bytes(Manifest.from_json(body).to_json())
    answer = subprocess.run(
        [*SHARDKIT, "audit", str(copy), "--json", "--quiet"], capture_output=True, text=True, check=False
    )
    found = {kind: count for kind, count in json.loads(answer.stdout)["leaks"].items() if count}
    if (answer.returncode, found) != (6, {"near_text": 1}):
        raise SystemExit(f"one near text was planted, and audit found {found} with exit code {answer.returncode}")


def compare(work: Path, *, examples: int, pictures: int, rounds: int) -> dict[str, Any]:
    split(make_input(work, examples, pictures), work / "split", 2)
    source = work / "split"
    first, single = audit(source, 2), audit(source, 1)
    if first.answer != single.answer or not first.answer["ok"]:
        raise SystemExit("one worker and two answered otherwise, or the split leaks")
    planted(source, work)
    runs: dict[str, list[Run]] = {"shardkit audit": [first], "equal only": [], "verify --deep": [], "bare loop": []}
    for number in range(rounds):
        if number:
            runs["shardkit audit"].append(audit(source, 2))
        runs["equal only"].append(audit(source, 2, "--level", "exact,pixel"))
        runs["verify --deep"].append(verify(source, 2))
        runs["bare loop"].append(measured([sys.executable, __file__, "--bare", source]))
    runs["shardkit audit, 1 worker"] = [single]
    total = int(str(first.answer["examples"]))
    return {"examples": total, "pictures": pictures, "rows": [row_of(name, some, total) for name, some in runs.items()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=int, default=200_000)
    parser.add_argument("--pictures", type=int, default=5_000, help="examples that have one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="where the temporary folder is made")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        print(json.dumps(bare(options.bare)))
        return
    adopt_orphans()
    facts = about("shardkit", "numpy", "pyarrow", "py3langid")
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        found = compare(Path(folder), examples=options.examples, pictures=options.pictures, rounds=options.rounds)
    size = f"{found['examples']} examples, {found['pictures']} pictures of 48 x 48"
    lines = [*table(found["rows"]), f"{size}; no leak, and the planted one was named"]
    publish(facts, found, lines, as_json=options.as_json)


if __name__ == "__main__":
    main()
