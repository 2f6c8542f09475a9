"""The level semantic and the language identifier, measured: what `bench_dedup.py semantic` prints.

paraphrases   data/paraphrases.jsonl through `shardkit ingest`, tools/embed_texts.py and the search of the level: by
              threshold and language the share of planted paraphrases that is found, and how many found pairs are none
blocks        the search in blocks beside all pairs, on planted vectors of 200 topics
languages     the identifier on `chat` and `obelics_pages`, which are English and Chinese: share right, named and texts/s

A pair of `changed` says something else in nearly the same words; it counts as no paraphrase, and is counted by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from shardkit.prepare.dedup import semantic as level
from shardkit.prepare.dedup.embeddings import EXAMPLE, Stored, Vectors, directions, read_vectors
from shardkit.prepare.dedup.keys import leading
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.run import run as ingest
from shardkit.store.dataset import Dataset
from shardkit.text.language import UNDETERMINED, identify

ROOT = Path(__file__).resolve().parent.parent
PARAPHRASES = Path(__file__).resolve().parent / "data" / "paraphrases.jsonl"
TOOL = ROOT / "tools" / "embed_texts.py"
CHATS = ("sft", "sft_tool", "dpo", "rlaif", "pretrain")
THRESHOLDS = (0.5, 0.6, *level.THRESHOLDS)
"""Two below what dedup looks for: what the floor costs."""
NUM_VECTORS, NUM_COPIES, NUM_TOPICS = 20_000, 2_000, 200
_HAN = re.compile("[\u4e00-\u9fff]")

Pair = tuple[int, int]


def semantic(data: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        found = {"paraphrases": paraphrases(Path(folder)), "blocks": blocks(Path(folder))}
    found["languages"] = languages(data)
    return found


# ---------------------------------------------------------------------- paraphrases
def paraphrases(folder: Path) -> dict[str, Any]:
    """Language -> a row a threshold."""
    texts, language, pairs = _planted()
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    ingest(IngestConfig(format="rows", paths=(folder / "rows.jsonl",), output=folder / "texts"))
    started = time.perf_counter()
    command = [sys.executable, str(TOOL), str(folder / "texts"), "-o", str(folder / "vectors.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        return {"not measured": done.stderr.strip()}
    seconds = time.perf_counter() - started
    table = Dataset.open(folder / "texts").table("examples", ["example_id", "position"])
    ids, line = leading(table["example_id"]), [int(position) - 1 for position in table["position"].to_pylist()]
    order = np.argsort(ids)
    vectors = read_vectors([folder / "vectors.parquet"], column=None, units={EXAMPLE: ids[order]}, scratch=folder)
    assert vectors[EXAMPLE].have.all()
    edges = level.find(vectors[EXAMPLE], floor=THRESHOLDS[0])
    place = [line[number] for number in order.tolist()]
    score = {
        _pair(place[one], place[two]): value
        for one, two, value in zip(edges.one.tolist(), edges.two.tolist(), edges.score.tolist(), strict=True)
    }
    found: dict[str, Any] = {"texts": len(texts), "seconds to embed": round(seconds, 1)}
    for name in ("en", "zh"):
        own = {kind: {pair for pair in planted if language[pair[0]] == name} for kind, planted in pairs.items()}
        among = {pair: value for pair, value in score.items() if language[pair[0]] == language[pair[1]] == name}
        found[name] = [_row(threshold, own, among) for threshold in THRESHOLDS]
    return found


def _planted() -> tuple[list[str], list[str], dict[str, set[Pair]]]:
    """Texts, the language of each, and relation -> pairs of their places."""
    texts: list[str] = []
    language: list[str] = []
    pairs: dict[str, set[Pair]] = {"paraphrase": set(), "changed": set()}
    for line in PARAPHRASES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        places = range(len(texts), len(texts) + len(row["texts"]))
        texts += row["texts"]
        language += [row["language"]] * len(places)
        if row["relation"] in pairs:
            pairs[row["relation"]] |= set(combinations(places, 2))
    return texts, language, pairs


def _row(threshold: float, own: dict[str, set[Pair]], score: dict[Pair, float]) -> dict[str, Any]:
    got = {pair for pair, value in score.items() if value >= threshold}
    right, changed = got & own["paraphrase"], got & own["changed"]
    return {
        "threshold": threshold,
        "recall": round(len(right) / len(own["paraphrase"]), 3),
        "precision": round(len(right) / len(got), 3) if got else None,
        "paraphrases": len(right),
        "changed": len(changed),
        "others": len(got - right - changed),
    }


def _pair(one: int, two: int) -> Pair:
    return min(one, two), max(one, two)


# ---------------------------------------------------------------------- blocks
def blocks(folder: Path) -> dict[str, Any]:
    """What blocks lose beside all pairs, and how fast they are."""
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(NUM_TOPICS, 384))[rng.integers(NUM_TOPICS, size=NUM_VECTORS)]
    base = topics * 0.9 + rng.normal(size=(NUM_VECTORS, 384))
    noise = rng.normal(size=(NUM_COPIES, 384)) * rng.uniform(0.1, 1.0, size=(NUM_COPIES, 1))
    steps, have = directions(np.concatenate([base, base[:NUM_COPIES] + noise]))
    steps.tofile(folder / "planted.i16")
    stored = Stored(path=folder / "planted.i16", num_units=len(steps), width=384)
    started = time.perf_counter()
    searched = level.search(Vectors(stored=stored, have=have, counts={}))
    seconds = time.perf_counter() - started
    got = set(zip(searched.edges.one.tolist(), searched.edges.two.tolist(), strict=True))
    expected = set(_all_pairs(steps))
    assert got <= expected
    return {
        "vectors": len(steps),
        "blocks": searched.num_blocks,
        "pairs": len(expected),
        "recall": round(len(got) / len(expected), 4),
        "seconds": round(seconds, 1),
        "vectors a second": round(len(steps) / seconds),
    }


def _all_pairs(steps: np.ndarray) -> Iterator[Pair]:
    points = steps.astype(np.float64)
    points /= np.sqrt((points * points).sum(axis=1, keepdims=True))
    for start in range(0, len(points), 1000):
        left, right = np.nonzero(points[start : start + 1000] @ points.T >= level.FLOOR)
        yield from ((one, two) for one, two in zip((left + start).tolist(), right.tolist(), strict=True) if one < two)


# ---------------------------------------------------------------------- languages
def languages(data: Path) -> dict[str, Any]:
    """Set -> figures, for the sets that the folder has."""
    found = {}
    for name, rows in (("chat", _chat), ("obelics_pages", _obelics)):
        if (data / name).is_dir():
            found[name] = _judged(list(rows(data / name)))
    return found


def _judged(rows: list[tuple[str, str]]) -> dict[str, Any]:
    identify([text for _, text in rows[:1]])  # loads the model
    started = time.perf_counter()
    codes = [code for code, _ in identify(text for _, text in rows)]
    seconds = time.perf_counter() - started
    named = [(code, truth) for code, (truth, _) in zip(codes, rows, strict=True) if code != UNDETERMINED]
    wrong = Counter(f"{truth} as {code}" for code, truth in named if code != truth)
    return {
        "texts": len(rows),
        "named": round(len(named) / len(rows), 4),
        "accuracy": round((len(named) - wrong.total()) / len(rows), 4),
        "wrong": dict(wrong),
        "texts a second": round(len(rows) / seconds),
    }


def _chat(folder: Path) -> Iterator[tuple[str, str]]:
    """The folder has Chinese and English rows: Chinese are those whose first words have a Han character."""
    for name in CHATS:
        for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            turns = row.get("conversations") or row.get("chosen") or [{"content": row.get("text")}]
            contents = [turn["content"] for turn in turns if turn["content"]]
            yield "zh" if _HAN.search(contents[0]) else "en", "\n".join(contents)


def _obelics(folder: Path) -> Iterator[tuple[str, str]]:
    table = pq.read_table(folder / "obelics.parquet", columns=["texts", "general_metadata"])
    for row in table.to_pylist():
        yield json.loads(row["general_metadata"])["language"], "\n".join(text for text in row["texts"] if text)
