"""Forget beside a bare loop that filters: seconds and memory for a million examples.

    python benchmarks/bench_forget.py [--examples N] [--rounds N] [--pictures N] [--work DIR] [--json]

    shardkit forget   from a committed dataset (five sources, ingested and deduplicated) to the committed one without a
                      raw row: decision, shards written anew, tables, and the proof, which reads all of it again
    bare loop         pyarrow reads the rows, leaves those out whose id goes, and writes one file; no digests, no check of
                      a byte, nothing that derives from them, no proof

The input is that of bench_split. Rounds are interleaved and medians are given, so that a busy machine slows both alike:
read the ratio, not absolutes. CPU seconds are those of the process and all its workers. Checked first: what is left is
what the bare loop leaves, and one worker and two give one dataset.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from bench_split import TARGETS, _sorted, make_input
from processes import Run, adopt_orphans, measured, shardkit
from report import about, publish, row_of, table

FORGOTTEN = "b.jsonl:17"


def bare(source: Path, out: Path) -> dict[str, Any]:
    """The floor; a process of its own."""
    from shardkit.store import Dataset

    dataset = Dataset.open(source)
    name, position = FORGOTTEN.split(":")
    table = dataset.table("examples", ["example_id", "input", "position"])
    gone = table.filter(pc.and_(pc.equal(table["input"], name), pc.equal(table["position"], position)))["example_id"]
    left = 0
    writer = None
    with pa.OSFile(str(out), "wb") as file:
        for ref in dataset.shards:
            with pa.memory_map(str(ref.path)) as mapped:
                rows = pa.ipc.open_file(mapped).read_all()
                rows = rows.filter(pc.invert(pc.is_in(rows["example_id"], gone.combine_chunks())))
                writer = writer or pa.ipc.new_file(file, rows.schema)
                for batch in rows.combine_chunks().to_batches(max_chunksize=4096):
                    writer.write_batch(batch)
                left += rows.num_rows
        if writer is not None:
            writer.close()
    return {"examples": left}


def forget(source: Path, out: Path, workers: int) -> Run:
    return shardkit("forget", source, "--source", FORGOTTEN, "-o", out, "--overwrite", "--workers", workers)


def check(source: Path, out: Path, left: int) -> None:
    """What is left is the input without the row."""
    from shardkit.store import Dataset

    before, after = (Dataset.open(path).table("examples", ["example_id"])["example_id"] for path in (source, out))
    known = pc.is_in(before, after.combine_chunks())
    if len(after) != left or not pc.all(pc.equal(_sorted(before.filter(known)), _sorted(after))).as_py():
        raise SystemExit("forget left other rows than the bare loop")


def compare(work: Path, *, examples: int, pictures: int, rounds: int) -> dict[str, Any]:
    source = make_input(work, examples, pictures)
    made = {workers: forget(source, work / f"out-{workers}", workers) for workers in (2, 1)}
    if made[1].answer["id"] != made[2].answer["id"]:
        raise SystemExit("one worker and two made different datasets")
    runs: dict[str, list[Run]] = {"shardkit forget": [made[2]], "bare loop": []}
    loop = [sys.executable, __file__, "--bare", source, work / "bare.arrow"]
    for number in range(rounds):
        if number:
            runs["shardkit forget"].append(forget(source, work / f"again-{number}", 2))
        runs["bare loop"].append(measured(loop))
    answer = made[2].answer
    check(source, work / "out-2", runs["bare loop"][0].answer["examples"])
    rows = [row_of(name, found, answer["read"]) for name, found in runs.items()]
    rows.append(row_of("shardkit forget, 1 worker", [made[1]], answer["read"]))
    return {
        "examples": answer["read"],
        "left_out": answer["excluded"],
        "proof": answer["proof"],
        "rows": rows,
        "ratio_to_bare": round(rows[0]["seconds"] / rows[1]["seconds"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--pictures", type=int, default=0, help="examples that have one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="where the temporary folder is made")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--bare", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        print(json.dumps(bare(*options.bare)))
        return
    adopt_orphans()
    facts = about("shardkit", "numpy", "pyarrow", "py3langid")
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        found = compare(Path(folder), examples=options.examples, pictures=options.pictures, rounds=options.rounds)
    searched = f"{found['left_out']} left out, {found['proof']['rows']} rows of tables searched"
    lines = [
        *table(found["rows"]),
        f"{searched}; {found['ratio_to_bare']} times the bare loop",
        f"as split is asked: under {TARGETS['MB']} MB a process at 1,000,000 examples",
    ]
    publish(facts, found, lines, as_json=options.as_json)


if __name__ == "__main__":
    main()
