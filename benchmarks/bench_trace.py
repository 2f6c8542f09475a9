"""How long it takes to find where something comes from, in a dataset of a million examples (metadata only).

Makes a dataset as ingest would (tables, provenance, shards whose pictures are a few bytes) and one as tokenize would on
top of it, saves a plan, and looks ids up in random order. First it asserts that what is found is what was put there.

    in process   `Tracer.trace` and `Tracer.source`, tables read before: median and 95th percentile
    first        the first look-up of each kind in a new `Tracer`: opens the dataset and reads the columns of ids
    command      `shardkit trace ... --json` from its start to its end, as a user waits for it; and its CPU seconds, which
                 are the same on a busy machine

    python benchmarks/bench_trace.py                        a million examples, about two minutes to make
    python benchmarks/bench_trace.py --examples 20000       a short run
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from processes import SHARDKIT
from report import about, publish, table

from shardkit.digest import fingerprint, xxh3
from shardkit.prepare.lineage.trace import Tracer
from shardkit.records import Tally
from shardkit.sequence.cost import cost
from shardkit.sequence.sequence import sequence_id
from shardkit.store.columns import Rows
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.schema import EXAMPLES_FACTS, PROVENANCE, TABLES
from shardkit.store.sequences import lengths_schema, sequences_schema

UNIT_ROWS, CHUNK = 125_000, 4096
FILE_ROWS = 10_000
"""Lines of a raw file."""
LICENCES = ("CC0", "CC-BY-4.0", "CC-BY-SA-4.0")
TOKENS = 16
RECIPE = {"tokenizer": "0" * 32, "vocab_size": 6400, "max_tokens": TOKENS, "overlong": "window", "recipe": {}}
MAX_TOKENS = 512
"""Of a pack: batches of 32 sequences."""
LIMITS = {"in process": 0.05, "command": 1.5}
"""Seconds: what is asked of the median look-up, and of the command."""


# ---------------------------------------------------------------------- the dataset
def example_of(number: int) -> str:
    return xxh3(b"example %d" % number)


def asset_of(number: int) -> str:
    return hashlib.sha256(b"asset %d" % number).hexdigest()


def origin_of(number: int) -> tuple[str, str]:
    """Raw file and line."""
    return f"part-{number // FILE_ROWS:05d}.jsonl", str(number % FILE_ROWS + 1)


def make_raw(path: Path, number: int) -> Dataset:
    """A dataset of `number` examples, each with a picture and a text."""
    recipe = {"source": "web", "licence": None, "revision": None, "retrieved_at": None}
    with Output(path, stage="ingest", recipe=recipe, inputs=["."]) as output:
        for unit, start in enumerate(range(0, number, UNIT_ROWS)):
            stop = min(start + UNIT_ROWS, number)
            with output.unit(unit, f"{unit:05d}", shards="arrow", shard_size=1 << 40) as writer:
                for first in range(start, stop, CHUNK):
                    writer.extend(rows_of(range(first, min(first + CHUNK, stop))))
                output.receipts[f"{unit:05d}"] = writer.finish()
        return output.commit(Sealed(tally=Tally(read=number, kept=number)))


def rows_of(numbers: range) -> Rows:
    ids = [example_of(number) for number in numbers]
    assets = [asset_of(number) for number in numbers]
    origins = [origin_of(number) for number in numbers]
    pictures = [b"picture %d" % number for number in numbers]
    stored = [xxh3(picture) for picture in pictures]
    texts = [f"the text of example {number}" for number in numbers]
    inputs, positions = ([origin[side] for origin in origins] for side in (0, 1))
    text = {"kind": "text", "image": None, "role": None, "supervised": None, "name": None}
    slot = {"kind": "image", "text": None, "image": 0, "role": None, "supervised": None, "name": None}
    relation = {
        "kind": "caption",
        "images": [0],
        "segments": [1],
        "scope": "example",
        "annotator": None,
        "confidence": None,
    }
    facts = [
        {
            "example_id": example,
            "source": "web",
            "group": f"site {number % 1000}",
            "segments": [slot, {**text, "text": said}],
            "images": [{"asset_id": asset, "frame": 0, "stored_xxh3": digest, "pixel_id": digest, "width": 8, "height": 8}],
            "relations": [relation],
            "metadata": "{}",
        }
        for number, example, asset, digest, said in zip(numbers, ids, assets, stored, texts, strict=True)
    ]  # fmt: skip
    size = len(numbers)
    provenance = {
        **{name: [None] * size for name in PROVENANCE.names},
        "asset_id": assets,
        "frame": [0] * size,
        "example_id": ids,
        "source": ["web"] * size,
        "input": inputs,
        "position": positions,
        "origin": [f"https://site-{number % 1000}.example/{number}.jpg" for number in numbers],
        "digest": [f"sha256:{asset}" for asset in assets],
        "licence": [LICENCES[number % len(LICENCES)] for number in numbers],
        "decoder": ["pillow-rgb/1"] * size,
        "preprocessing": ["none"] * size,
        "relation": ["caption"] * size,
        "group": [f"site {number % 1000}" for number in numbers],
        "derived_recipe": ["0" * 32] * size,
    }
    known = {"asset_id": assets, "frame": [0] * size, "size": [8] * size, "stored_xxh3": stored, "pixel_id": stored}
    table = {**{name: [None] * size for name in TABLES["assets"].names}, **known}
    places = {"input": inputs, "position": positions}
    schema = pa.schema(
        [TABLES["examples"].field(n) for n in ("input", "position", "parent_id", "has_email", "has_phone")]
    )
    return Rows(
        facts=pa.RecordBatch.from_pylist(facts, schema=EXAMPLES_FACTS),
        pictures=pictures,
        sizes=[100] * size,
        num_images=[1] * size,
        places=pa.RecordBatch.from_pydict({**{n: [None] * size for n in schema.names}, **places}, schema=schema),
        assets=pa.RecordBatch.from_pydict(table, schema=TABLES["assets"]),
        provenance=pa.RecordBatch.from_pydict(provenance, schema=PROVENANCE),
    )


def make_tokens(path: Path, raw: Dataset) -> Dataset:
    """A sequence of a few tokens for each example, as a view of `raw`."""
    recipe = fingerprint(RECIPE)
    table = raw.table("examples")
    schema = sequences_schema(pa.uint16())
    count = table.num_rows
    with Output(path, stage="tokenize", recipe=RECIPE, inputs=[raw.id]) as output:
        for unit, shard in enumerate(raw.shards):
            own = table.slice(unit * UNIT_ROWS, shard.num_rows).to_pylist()
            sequences = [sequence_row(row, recipe) for row in own]
            with output.unit(unit, f"{unit:05d}", shards="sequences", shard_size=0) as writer:
                blocks = (
                    pa.RecordBatch.from_pylist(sequences[start : start + 1024], schema=schema)
                    for start in range(0, len(sequences), 1024)
                )
                writer.add_shard_of_batches(blocks, schema, {"sequences": len(own)})
                writer.append("lengths", list(length_rows(sequences, unit)), schema=lengths_schema(["text"]))
                output.receipts[f"{unit:05d}"] = writer.finish()
        shards = tuple(replace(shard.entry, dataset=raw.id) for shard in raw.shards)
        return output.commit(
            Sealed(
                tally=Tally(read=count, kept=count),
                shards=shards,
                tables={"examples": [table], "assets": [raw.table("assets")]},
                provenance=[raw.table("provenance")],
                locations={raw.id: raw.path},
            )
        )


def sequence_row(row: dict[str, Any], recipe: str) -> dict[str, Any]:
    return {
        "sequence_id": sequence_id(row["example_id"], recipe, 0),
        "example_id": row["example_id"],
        "shard": row["shard_index"],
        "row": row["row"],
        "window": 0,
        "alternative": 0,
        "alternatives": 1,
        "source": row["source"],
        "group": row["group"],
        "input_ids": np.arange(TOKENS, dtype=np.uint16),
        "objectives": [{"objective": 0, "length": 1}, {"objective": 1, "length": TOKENS - 1}],
        "documents": [0],
        "slots": [],
        "num_tokens": TOKENS,
        "num_supervised": TOKENS - 1,
        "num_images": 0,
        "num_pixels": 0,
        "cost": cost(TOKENS, 0),
    }


def length_rows(sequences: list[dict[str, Any]], shard: int) -> Iterator[dict[str, Any]]:
    for row, sequence in enumerate(sequences):
        yield {
            "shard": shard,
            "row": row,
            "num_tokens": TOKENS,
            "num_supervised": TOKENS - 1,
            "supervised_text": TOKENS - 1,
            "num_images": 0,
            "num_patches": 0,
            "alternative": 0,
            "alternatives": 1,
            "source": "web",
            "split": "all",
            "key": int(sequence["sequence_id"][:16], 16),
        }


# ---------------------------------------------------------------------- look-ups
def asked_of(tokens: Dataset, plan: str, num_steps: int) -> dict[str, Callable[[int], str]]:
    """Kind -> what is asked for when example `number` is drawn."""
    recipe = fingerprint(tokens.recipe)
    return {
        "example": example_of,
        "asset": asset_of,
        "sequence": lambda number: sequence_id(example_of(number), recipe, 0),
        "batch": lambda number: f"{plan}/0/{number % num_steps}/0of1",
        "source": lambda number: ":".join(origin_of(number)),
    }


def look_up(tracer: Tracer, kind: str, asked: str) -> dict[str, Any]:
    return tracer.source(asked) if kind == "source" else tracer.trace(asked)


def check(tracer: Tracer, asked: dict[str, Callable[[int], str]], numbers: list[int]) -> None:
    """What is found is what was put there."""
    for number in numbers:
        for kind in ("example", "asset", "sequence"):
            found = tracer.trace(asked[kind](number))
            (example,), (asset,), (sequence,) = found["examples"], found["assets"], found["sequences"]
            assert (example["input"], example["position"]) == origin_of(number), found
            assert asset["asset_id"] == asset_of(number), found
            assert [row["licence"] for row in asset["provenance"]] == [LICENCES[number % len(LICENCES)]], found
            assert sequence["sequence_id"] == asked["sequence"](number), found
        (row,) = tracer.source(asked["source"](number))["rows"]
        assert [step["outcome"] for step in row["history"]] == ["kept", "kept"], row
        assert [s["sequence_id"] for e in row["examples"] for s in e["sequences"]] == [asked["sequence"](number)], row
        batch = tracer.trace(asked["batch"](number))
        assert len(batch["sequences"]) == len(batch["examples"]) > 0, batch


def measure(path: Path, asked: dict[str, Callable[[int], str]], numbers: list[int], commands: int) -> dict[str, Any]:
    """Kind -> seconds: in process (median, p95), the first in a new tracer, the command."""
    warm, found = Tracer(path), {}
    for kind, wanted in asked.items():
        begin = time.perf_counter()
        look_up(Tracer(path), kind, wanted(numbers[0]))
        first = time.perf_counter() - begin
        look_up(warm, kind, wanted(numbers[0]))
        times = []
        for number in numbers:
            begin = time.perf_counter()
            look_up(warm, kind, wanted(number))
            times.append(time.perf_counter() - begin)
        waits, works = zip(*(command(path, kind, wanted(number)) for number in numbers[:commands]), strict=True)
        found[kind] = {
            "in process": statistics.median(times),
            "p95": float(np.percentile(times, 95)),
            "first": first,
            "command": statistics.median(waits),
            "command cpu": statistics.median(works),
        }
    return found


def command(path: Path, kind: str, asked: str) -> tuple[float, float]:
    """Seconds from start to end, and CPU seconds."""
    words = ["--source", asked] if kind == "source" else [asked]
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*SHARDKIT, "trace", str(path), *words, "--json"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu


def memory() -> int | None:
    """Megabytes of this process that no file backs; None where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = (line.split() for line in status.read_text().splitlines())
    return next((int(words[1]) // 1024 for words in lines if words[0] == "RssAnon:"), None)


def save_plan(path: Path) -> tuple[str, int]:
    """Digest of a saved plan, and its steps."""
    words = ["plan", str(path), "--max-tokens", str(MAX_TOKENS), "--save", "--json", "--quiet"]
    done = subprocess.run([*SHARDKIT, *words], check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    return figures["plan"], figures["steps"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--lookups", type=int, default=200, help="of each kind, in process")
    parser.add_argument("--commands", type=int, default=5, help="of each kind")
    parser.add_argument(
        "--work", type=Path, help="a folder to keep the datasets in; made anew where they are not there"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        begin = time.perf_counter()
        if not (work / "tokens" / "manifest.json").exists():
            make_tokens(work / "tokens", make_raw(work / "raw", options.examples))
        made = time.perf_counter() - begin
        tokens = Dataset.open(work / "tokens")
        plan, num_steps = save_plan(tokens.path)
        asked = asked_of(tokens, plan, num_steps)
        count = tokens.manifest.counts["kept"]
        draw = random.Random(0)
        numbers = [draw.randrange(count) for _ in range(options.lookups)]
        check(Tracer(tokens.path), asked, numbers[:5])
        found = measure(tokens.path, asked, numbers, options.commands)
    figures = {
        "examples": count,
        "seconds_to_make": round(made, 1),
        "megabytes": memory(),
        "lookups": found,
        "limits": LIMITS,
    }
    rows = [
        {
            "look-up": kind,
            "in process ms": 1e3 * times["in process"],
            "p95 ms": 1e3 * times["p95"],
            "first s": times["first"],
            "command s": times["command"],
            "its CPU s": times["command cpu"],
        }
        for kind, times in found.items()
    ]
    asked_for = f"{LIMITS['in process'] * 1e3:.0f} ms in process (median), {LIMITS['command']} s for the command"
    lines = [f"{count} examples", *table(rows), f"asked: {asked_for}"]
    if figures["megabytes"] is not None:
        lines.append(
            f"memory after it, without mapped files: {figures['megabytes']} MB, every table read whole by then"
        )
    publish(about("shardkit", "pyarrow"), figures, lines, as_json=options.json)


if __name__ == "__main__":
    main()
