"""tokenize beside bare `tokenizers.encode_batch` on the same text from the same shards.

    python benchmarks/bench_tokenize.py [--shared DIR] [--megabytes N] [--rounds N] [--tokenizer FILE] [--memory] [--json]

    shardkit tokenize    from a committed dataset to committed sequences: encoding with control tokens off, recipe, windows,
                         ids, digests, lengths, tables
    encode_batch         a process that reads the texts of the same shards with pyarrow, 1,000 at a time, encodes them with
                         the same tokenizer.json and takes the ids; RAYON_NUM_THREADS is the number of workers

Texts are sentences of `chat` and `corpus_text`, Chinese and English, put together anew: documents (recipe pretrain) and
dialogues (recipe sft). Checked first: the ids between our control tokens are those that encode_batch gives. Rounds are
interleaved and medians are given. Wall seconds are what a user waits for; on a machine that does other things, too, read
the ratio of processor seconds, those of all processes of a contender together. At least 0.8 is asked for.

--memory runs tokenize on the text and on four times as much: the peak of its process and of its workers should stay.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from processes import Run, adopt_orphans, measured, shardkit
from report import about, publish, table

TARGET = 0.8
ROOT = Path(__file__).resolve().parent.parent
RECIPES = {"documents": "pretrain", "dialogues": "sft"}
MAX_TOKENS = 1024


# ---------------------------------------------------------------- the input
def sentences(shared: Path) -> list[str]:
    """Sentences and lines of real text in both languages."""
    parts = [(shared / "data" / "corpus_text" / f"{name}.txt").read_text(encoding="utf-8") for name in ("en", "zh")]
    for line in (shared / "data" / "chat" / "sft.jsonl").read_text(encoding="utf-8").splitlines():
        parts += [turn["content"] or "" for turn in json.loads(line)["conversations"]]
    cut = [piece for part in parts for piece in part.replace("\u3002", "\u3002\n").replace(". ", ".\n").splitlines()]
    return [piece for piece in cut if 20 <= len(piece) <= 400]


def make_input(work: Path, kind: str, known: list[str], megabytes: float) -> Path:
    chance = random.Random(1)
    file, size = work / f"{kind}.jsonl", 0
    with file.open("w", encoding="utf-8") as out:
        while size < megabytes * 1e6:
            if kind == "documents":
                row: dict[str, Any] = {"text": _said(chance, known, chance.randint(4, 60))}
            else:
                turns = [("user", 2), ("assistant", 12)] * chance.randint(1, 3)
                row = {
                    "conversations": [
                        {"role": role, "content": _said(chance, known, chance.randint(1, most))} for role, most in turns
                    ]
                }
            line = json.dumps(row, ensure_ascii=False)
            size += len(line.encode())
            out.write(line + "\n")
    made = work / f"{kind}-{megabytes:g}"
    form = "text" if kind == "documents" else "chat"
    shardkit("ingest", form, file, "-o", made)
    file.unlink()
    return made


def _said(chance: random.Random, known: list[str], number: int) -> str:
    start = chance.randrange(len(known))
    own = known[start : start + 2000]  # of one language, mostly, as texts are
    return "\n".join(chance.choices(own, k=number))


# ---------------------------------------------------------------- the contenders
def texts_of(dataset: Path) -> Iterator[list[str]]:
    """Texts of all segments, 1,000 at a time, read with plain pyarrow."""
    batch: list[str] = []
    for shard in json.loads((dataset / "manifest.json").read_bytes())["shards"]:
        with pa.memory_map(str(dataset / shard["path"])) as file:
            table = pa.ipc.open_file(file).read_all()
            for chunk in table["segments"].chunks:
                batch += chunk.flatten().field("text").to_pylist()
                if len(batch) >= 1000:
                    yield batch
                    batch = []
    if batch:
        yield batch


def bare(dataset: Path, tokenizer: Path) -> dict[str, int]:
    """The floor; a process of its own."""
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(tokenizer))
    tokens = texts = 0
    for batch in texts_of(dataset):
        tokens += sum(len(encoding.ids) for encoding in backend.encode_batch(batch, add_special_tokens=False))
        texts += len(batch)
    return {"tokens": tokens, "texts": texts}


def run_bare(dataset: Path, tokenizer: Path, workers: int) -> Run:
    threads = f"RAYON_NUM_THREADS={workers}"
    return measured(
        ["env", threads, "TOKENIZERS_PARALLELISM=true", sys.executable, __file__, "--bare", dataset, tokenizer]
    )


def run_ours(dataset: Path, out: Path, tokenizer: Path, kind: str, workers: int) -> Run:
    options = ["--recipe", RECIPES[kind], "--max-tokens", MAX_TOKENS, "--workers", workers, "--overwrite"]
    return shardkit("tokenize", dataset, "-o", out, "--tokenizer", tokenizer, *options)


def check(dataset: Path, out: Path, tokenizer: Path, kind: str) -> None:
    """Our ids between control tokens are what encode_batch gives of the texts, in their order."""
    from tokenizers import Tokenizer

    from shardkit.store.dataset import Dataset

    backend = Tokenizer.from_file(str(tokenizer))
    made = Dataset.open(out)
    ours: dict[str, list[int]] = {}
    for shard in made.sequence_shards:
        for row in made.sequence_reader(shard).table(["example_id", "window", "input_ids"]).to_pylist():
            # Windows share one token.
            ours.setdefault(row["example_id"], []).extend(row["input_ids"][1 if row["window"] else 0 :])
    compared = 0
    for _, _, example in Dataset.open(dataset).examples():
        rest = ",".join(map(str, ours[example.example_id]))
        texts = [segment.text for segment in example.segments if segment.text]
        for encoding in backend.encode_batch(texts, add_special_tokens=False):
            found, sep, rest = rest.partition(",".join(map(str, encoding.ids)))
            if not sep or (kind == "documents" and found != "1,"):
                raise SystemExit(f"{kind}: example {example.example_id} has other ids than encode_batch gives")
            compared += len(encoding.ids)
    if not compared:
        raise SystemExit("nothing was compared")


# ---------------------------------------------------------------- the rounds
def compare(work: Path, dataset: Path, tokenizer: Path, kind: str, rounds: int) -> list[dict[str, Any]]:
    runs: dict[tuple[int, str], list[Run]] = {}
    out = work / f"out-{kind}"
    for number in range(rounds):
        for workers in (1, 2):
            mine = run_ours(dataset, work / f"{out.name}-{number}-{workers}", tokenizer, kind, workers)
            if not number:
                check(dataset, work / f"{out.name}-{number}-{workers}", tokenizer, kind)
            runs.setdefault((workers, "shardkit"), []).append(mine)
            runs.setdefault((workers, "encode_batch"), []).append(run_bare(dataset, tokenizer, workers))
    rows = []
    for workers in (1, 2):
        mine, theirs = runs[workers, "shardkit"], runs[workers, "encode_batch"]
        tokens = int(str(theirs[0].answer["tokens"]))
        row: dict[str, Any] = {"what": kind, "workers": workers, "tokens": tokens}
        for name, found in (("ours", mine), ("bare", theirs)):
            seconds, cpu = (statistics.median(getattr(run, field) for run in found) for field in ("seconds", "cpu"))
            row |= {
                f"{name}_s": round(seconds, 2),
                f"{name}_cpu_s": round(cpu, 2),
                f"{name}_tokens_s": round(tokens / seconds),
            }
        row["ratio"] = round(statistics.median(b.seconds / a.seconds for a, b in zip(mine, theirs, strict=True)), 2)
        row["cpu_ratio"] = round(statistics.median(b.cpu / a.cpu for a, b in zip(mine, theirs, strict=True)), 2)
        rows.append(row)
    return rows


def memory(work: Path, known: list[str], tokenizer: Path, megabytes: float) -> list[dict[str, Any]]:
    rows = []
    for size in (megabytes, 4 * megabytes):
        dataset = make_input(work, "documents", known, size)
        for workers in (1, 2):
            run = run_ours(dataset, work / f"memory-{size:g}-{workers}", tokenizer, "documents", workers)
            rows.append(
                {
                    "what": f"{size:g} MB",
                    "workers": workers,
                    "parent_mb": round(run.parent_mb),
                    "worker_mb": round(run.worker_mb),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared", help="the folder of shared data")
    parser.add_argument("--tokenizer", type=Path, default=ROOT / "tests" / "data" / "tokenizer" / "tokenizer.json")
    parser.add_argument("--megabytes", type=float, default=40, help="of text, for each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=list(RECIPES), action="append", help="only this one; repeatable")
    parser.add_argument("--memory", action="store_true", help="also the memory at one size and at four times as much")
    parser.add_argument("--work", type=Path, help="where the temporary folder is made")
    parser.add_argument("--json", action="store_true", dest="as_json")
    parser.add_argument("--bare", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        print(json.dumps(bare(*options.bare)))
        return
    adopt_orphans()
    facts = about("shardkit", "tokenizers", "pyarrow", "numpy")
    known = sentences(options.shared)
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        work = Path(folder)
        rows = []
        for kind in options.kind or RECIPES:
            dataset = make_input(work, kind, known, options.megabytes)
            rows += compare(work, dataset, options.tokenizer, kind, options.rounds)
        sizes = memory(work, known, options.tokenizer, options.megabytes) if options.memory else []
    found = {"rows": rows, "memory": sizes, "target": TARGET}
    lines = [*table(rows), *(table(sizes) if sizes else []), f"asked: a ratio of at least {TARGET}"]
    publish(facts, found, lines, as_json=options.as_json)


if __name__ == "__main__":
    main()
