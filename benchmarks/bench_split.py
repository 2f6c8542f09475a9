"""Split beside a bare loop that only shuffles: seconds and memory for a million examples.

    python benchmarks/bench_split.py [--examples N] [--rounds N] [--pictures N] [--work DIR] [--json]

    shardkit split   from a committed dataset (five sources, ingested and deduplicated) to the committed split: groups by
                     key, equal and near values, ledger, report by source and language, shards in streaming order
    bare loop        pyarrow reads the rows, draws a split for each group key, takes the rows in a random order and
                     writes one file a split; no ties, no digests, no check of a byte

Examples are metadata and short texts, a tenth as many group keys; with --pictures as many of them have a small picture.
Rounds are interleaved and medians are given, so that a busy machine slows both alike: read the ratio, not absolutes. CPU
seconds are those of the process and all its workers. Checked first: every example is in one split, no group key is in
two, the split is the same with one worker and with two, and both divide the keys nearly as asked.

Printed too: the worst difference between a source's share among the first shards of a split and its share in all of it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from processes import Run, adopt_orphans, measured, shardkit
from report import about, publish, row_of, table

RATIOS = {"train": 0.9, "val": 0.05, "test": 0.05}
SOURCES = {"a": 0.5, "b": 0.25, "c": 0.15, "d": 0.09, "e": 0.01}
KEYS_PER_EXAMPLE = 0.1
SHARD_BYTES = 4_000_000
TARGETS = {"seconds": 60, "MB": 1000}


# ---------------------------------------------------------------- the input
def make_input(work: Path, examples: int, pictures: int) -> Path:
    """Five sources of made-up sentences, ingested and deduplicated."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(20_000)]
    datasets = []
    for source, share in SOURCES.items():
        file, count = work / f"{source}.jsonl", int(examples * share)
        with file.open("w", encoding="utf-8") as out:
            for number in range(count):
                row: dict[str, Any] = {
                    "text": " ".join(chance.choices(words, k=12)),
                    "book": f"{source}{chance.randrange(max(int(count * KEYS_PER_EXAMPLE), 1))}",
                }
                if number < pictures * share:
                    picture = work / "pictures" / f"{source}{number}.png"
                    _draw(picture, chance)
                    row |= {"text": f"<image>{row['text']}", "images": [str(picture)]}
                out.write(json.dumps(row) + "\n")
        datasets.append(work / f"in-{source}")
        options = ["-o", datasets[-1], "--source", source, "--group-by", "book", "--images", work]
        shardkit("ingest", "rows", file, *options)
    clean = work / "clean"
    shardkit("dedup", *datasets, "-o", clean, "--max-removed-per-source", 1)
    return clean


def _draw(path: Path, chance: random.Random) -> None:
    from PIL import Image

    path.parent.mkdir(exist_ok=True)
    small = Image.frombytes("RGB", (6, 6), chance.randbytes(108))
    small.resize((48, 48), Image.Resampling.BICUBIC).save(path)


# ---------------------------------------------------------------- the contenders
def bare(source: Path, out: Path) -> dict[str, Any]:
    """The floor; a process of its own."""
    from shardkit.store import Dataset

    dataset = Dataset.open(source)
    tables = []
    for ref in dataset.shards:
        with pa.memory_map(str(ref.path)) as file:
            tables.append(pa.ipc.open_file(file).read_all())
    table = pa.concat_tables(tables).combine_chunks()
    chance = random.Random(0)
    keys = table["group"].dictionary_encode().combine_chunks()
    drawn = pa.array(chance.choices(range(len(RATIOS)), weights=list(RATIOS.values()), k=len(keys.dictionary)))
    of_row = drawn.take(keys.indices)
    order = list(range(table.num_rows))
    chance.shuffle(order)
    shuffled = pa.array(order)
    found = {}
    for number, name in enumerate(RATIOS):
        own = shuffled.filter(pc.equal(of_row.take(shuffled), number))
        path = out / f"{name}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            for batch in table.take(own).to_batches(max_chunksize=4096):
                writer.write_batch(batch)
        found[name] = len(own)
    return {"examples": table.num_rows, "splits": found}


def split(source: Path, out: Path, workers: int) -> Run:
    ratios = ",".join(f"{name}={share}" for name, share in RATIOS.items())
    options = ["--overwrite", "--shard-size", SHARD_BYTES, "--workers", workers]
    return shardkit("split", source, "-o", out, "--ratios", ratios, *options)


def check(source: Path, out: Path, answer: dict[str, Any], examples: int) -> None:
    """Every example once, no key on two sides."""
    from shardkit.store import Dataset

    dataset = Dataset.open(out)
    table = dataset.table("examples", ["example_id", "group", "shard_index"])
    ids = Dataset.open(source).table("examples", ["example_id"])["example_id"]
    same = len(ids) == table.num_rows and pc.all(pc.equal(_sorted(ids), _sorted(table["example_id"]))).as_py()
    of_shard = pa.array([shard.split for shard in dataset.shards])
    pairs = pa.table({"group": table["group"], "split": of_shard.take(table["shard_index"])})
    sides = pairs.group_by("group").aggregate([("split", "count_distinct")])["split_count_distinct"]
    if not same or pc.max(sides).as_py() != 1:
        raise SystemExit("an example is missing, or a group key is on two sides")
    for name, share in RATIOS.items():
        # Four standard deviations of as many draws as there are components of one size.
        allowed = 4 * (share * (1 - share) / answer["groups"]["components"]) ** 0.5
        if abs(answer["splits"][name]["examples"] / examples - share) > allowed:
            raise SystemExit(f"{name} has {answer['splits'][name]}")


def _sorted(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return ids.take(pc.sort_indices(ids))


# ---------------------------------------------------------------- the rounds
def compare(work: Path, *, examples: int, pictures: int, rounds: int) -> dict[str, Any]:
    source = make_input(work, examples, pictures)
    made = {workers: split(source, work / f"out-{workers}", workers) for workers in (2, 1)}
    if made[1].answer["id"] != made[2].answer["id"]:
        raise SystemExit("one worker and two made different splits")
    answer: dict[str, Any] = made[2].answer
    check(source, work / "out-2", answer, answer["read"])
    runs: dict[str, list[Run]] = {"shardkit split": [made[2]], "bare loop": []}
    (work / "bare").mkdir()
    loop = [sys.executable, __file__, "--bare", source, work / "bare"]
    for number in range(rounds):
        if number:
            runs["shardkit split"].append(split(source, work / f"again-{number}", 2))
        runs["bare loop"].append(measured(loop))
    rows = [row_of(name, found, answer["read"]) for name, found in runs.items()]
    rows.append(row_of("shardkit split, 1 worker", [made[1]], answer["read"]))
    return {
        "examples": answer["read"],
        "components": answer["groups"]["components"],
        "rows": rows,
        "ratio_to_bare": round(rows[0]["seconds"] / rows[1]["seconds"], 2),
        "prefixes": answer["prefixes"],
        "targets": TARGETS,
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
    lines = [*table(found["rows"])]
    lines.append(f"{found['components']} components; {found['ratio_to_bare']} times the bare loop")
    for name, prefix in found["prefixes"].items():
        lines.append(
            f"  {name}: of {prefix['shards']} shards the worst prefix strays {prefix['worst_deviation']:.3%} from the share of "
            f"source {prefix['source']}, after {prefix['after_shards']}"
        )
    lines.append(
        f"asked: under {TARGETS['seconds']} s and {TARGETS['MB']} MB a process at 1,000,000 examples on 2 cores"
    )
    publish(facts, found, lines, as_json=options.as_json)


if __name__ == "__main__":
    main()
