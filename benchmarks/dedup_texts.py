"""Near texts, judged by all pairs with sets of tuples: what `bench_dedup.py quality` says in its section `text`.

A folder `neardup_text` holds NAME.jsonl of {"id", "text"}; NAME_truth.jsonl, where there is one, says of planted rows
{"id", "base", "edit", "level"}: same_text and near are copies of the base, partial and negative are not.

The truth of a pair is its Jaccard similarity by an own reading of the rules, straightforward and slow: every pair of
distinct compared texts of one file that shares a shingle. Ours is the stage's own function over an ingested dataset,
and the real command's view for what goes. Peers get the same shingles, bands and verification.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import tempfile
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardkit.engine import silent
from shardkit.prepare.dedup import near_text
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.inputs import open_inputs
from shardkit.prepare.dedup.near_text import PRESETS, Preset
from shardkit.prepare.dedup.run import run
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.run import run as ingest
from shardkit.store.dataset import Dataset
from shardkit.text.normalize import normalize

COPIES = ("same_text", "near")
DEFAULT = "web"
Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of one file."""

    path: Path
    ids: list[str]
    texts: list[str]
    planted: dict[str, dict[str, str]]
    """Id -> its row of the truth."""

    def distinct(self) -> list[int]:
        """The first row of each compared text."""
        first: dict[str, int] = {}
        for number, text in enumerate(self.texts):
            first.setdefault(normalize(text), number)
        return sorted(first.values())


def read(path: Path) -> Rows:
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    truth = path.with_name(f"{path.stem}_truth.jsonl")
    planted = [json.loads(line) for line in truth.open(encoding="utf-8")] if truth.exists() else []
    return Rows(
        path=path,
        ids=[row["id"] for row in rows],
        texts=[row["text"] for row in rows],
        planted={row["id"]: row for row in planted},
    )


# ---------------------------------------------------------------------- the slow truth
def tokens(text: str) -> list[str]:
    """Characters of scripts without spaces one by one, else runs of letters, digits and marks."""
    found, word = [], ""
    for sign in [*normalize(text), " "]:
        counts = unicodedata.category(sign)[0] in "LMN" and not 0xFE00 <= ord(sign) <= 0xFE0F
        name = unicodedata.name(sign, "")
        single = counts and name.startswith(
            ("CJK", "HIRAGANA", "KATAKANA", "HANGUL SYLLABLE", "BOPOMOFO", "IDEOGRAPHIC")
        )
        if counts and not single:
            word += sign
            continue
        found += [word] * bool(word) + [sign] * single
        word = ""
    return found


def as_sets(texts: list[str], width: int) -> tuple[list[set[str]], list[int]]:
    """The shingles of each text, joined, and its number of tokens."""
    words = [tokens(text) for text in texts]
    return [{" ".join(w[k : k + width]) for k in range(len(w) - width + 1)} for w in words], [len(w) for w in words]


class Truth:
    """Similarity of pairs of places in a list of texts, under one preset."""

    def __init__(self, texts: list[str], preset: Preset) -> None:
        self.preset = preset
        self.sets, self.sizes = as_sets(texts, preset.width)

    def score(self, one: int, two: int) -> float:
        """0 where the preset does not compare the two."""
        short, long = sorted((self.sizes[one], self.sizes[two]))
        if short < self.preset.min_tokens or short < self.preset.min_ratio * long:
            return 0.0
        shared = len(self.sets[one] & self.sets[two])
        return shared / (len(self.sets[one]) + len(self.sets[two]) - shared)

    def near(self) -> set[Pair]:
        """All pairs at the threshold or above."""
        holders = defaultdict(list)
        for place, own in enumerate(self.sets):
            for shingle in own:
                holders[shingle].append(place)
        shared = Counter(pair for places in holders.values() for pair in itertools.combinations(places, 2))
        possible = [p for p, n in shared.items() if n >= self.preset.threshold * len(self.sets[p[0]])]
        return {pair for pair in possible if self.score(*pair) >= self.preset.threshold}

    def verified(self, candidates: set[Pair]) -> set[Pair]:
        return {pair for pair in candidates if self.score(*pair) >= self.preset.threshold}


# ---------------------------------------------------------------------- contenders
def ours(rows: Rows, preset: Preset, folder: Path) -> set[Pair]:
    """Near pairs of places among the distinct texts, by the stage's own function."""
    inputs = open_inputs([folder / rows.path.stem])
    with tempfile.TemporaryDirectory() as scratch:
        edges = near_text.find(
            inputs,
            np.array(rows.distinct(), np.int64),
            preset=preset,
            workers=1,
            scratch=Path(scratch),
            on_progress=silent,
        ).above(preset.threshold)
    return set(zip(edges.one.tolist(), edges.two.tolist(), strict=True))


def datasketch(truth: Truth) -> set[Pair]:
    peer = importlib.import_module("datasketch")
    preset = truth.preset
    size = preset.bands * preset.rows
    index = peer.MinHashLSH(num_perm=size, params=(preset.bands, preset.rows))
    found: set[Pair] = set()
    for place, own in enumerate(truth.sets):
        if truth.sizes[place] >= preset.min_tokens:
            sketch = peer.MinHash(num_perm=size)
            sketch.update_batch([shingle.encode() for shingle in own])
            found |= {(other, place) for other in index.query(sketch)}
            index.insert(place, sketch)
    return found


def rensa(truth: Truth) -> set[Pair]:
    peer = importlib.import_module("rensa")
    preset = truth.preset
    size = preset.bands * preset.rows
    index = peer.RMinHashLSH(preset.threshold, size, preset.bands)
    found: set[Pair] = set()
    for place, own in enumerate(truth.sets):
        if truth.sizes[place] >= preset.min_tokens:
            sketch = peer.RMinHash(num_perm=size, seed=42)
            sketch.update(list(own))
            found |= {(other, place) for other in index.query(sketch)}
            index.insert(place, sketch)
    return found


PEERS: dict[str, Callable[[Truth], set[Pair]]] = {"datasketch": datasketch, "rensa": rensa}


# ---------------------------------------------------------------------- figures
def rates(found: set[Pair], true: set[Pair]) -> dict[str, Any]:
    both = len(found & true)
    return {
        "precision": round(both / len(found), 4) if found else None,
        "recall": round(both / len(true), 4) if true else None,
        "pairs": len(true),
        "found": len(found),
    }


def ingested(rows: Rows, folder: Path) -> None:
    config = IngestConfig(format="rows", paths=(rows.path,), output=folder / rows.path.stem, workers=1)
    kept = ingest(config).tally.kept
    if kept != len(rows.ids):
        raise SystemExit(f"{rows.path}: {len(rows.ids) - kept} rows are no rows of text")


def keepers(rows: Rows, preset: str, folder: Path) -> dict[str, str]:
    """Removed id -> kept id by a run of the level `text`."""
    output = folder / f"{rows.path.stem}-{preset}"
    run(
        DedupConfig(
            inputs=(folder / rows.path.stem,),
            output=output,
            levels=("text",),
            preset=preset,
            max_removed_per_source=1.0,
        )
    )
    view, whole = Dataset.open(output), Dataset.open(folder / rows.path.stem)
    table = whole.table("examples", ["example_id", "position"])
    name = {e: rows.ids[int(p) - 1] for e, p in zip(*(table[c].to_pylist() for c in table.column_names), strict=True)}
    groups: dict[int, list[tuple[bool, str]]] = defaultdict(list)
    clusters = view.table("clusters", ["cluster", "example_id", "kept"])
    for cluster, example, kept in zip(*(clusters[c].to_pylist() for c in clusters.column_names), strict=True):
        groups[cluster].append((kept, name[example]))
    gone = {}
    for members in groups.values():
        [keeper] = [member for kept, member in members if kept]
        gone |= {member: keeper for kept, member in members if not kept}
    return gone


def fate(rows: Rows, truth: Truth, near: set[Pair], gone: dict[str, str]) -> tuple[Counter[str], ...]:
    """Copies by edit, those of them that were found, and other counts.

    A copy is found where it equals its base or the pair of the two is `near`. In the view one of them stays all the same
    where its only near rows go for a third: `planted_kept`. Removed rows are distinct where the two are neither equal
    nor near by the slow truth.
    """
    place = {name: number for number, name in enumerate(rows.ids)}
    base_row = {row["base"]: name for name, row in rows.planted.items() if row["level"] == "base"}
    first: dict[str, int] = {}
    unit = [first.setdefault(normalize(text), number) for number, text in enumerate(rows.texts)]
    total: Counter[str] = Counter()
    found: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for name, row in rows.planted.items():
        base = base_row.get(row["base"])
        if row["level"] not in COPIES or base is None:
            continue
        one, two = sorted((unit[place[name]], unit[place[base]]))
        is_found = one == two or (one, two) in near
        total[row["edit"]] += 1
        found[row["edit"]] += is_found
        if one == two or truth.score(one, two) >= truth.preset.threshold:
            counts["planted"] += 1
            counts["planted_found"] += is_found
            counts["planted_kept"] += name not in gone and gone.get(base) != name
    for one_name, two_name in gone.items():
        one, two = place[one_name], place[two_name]
        counts["distinct_removed"] += unit[one] != unit[two] and truth.score(one, two) < truth.preset.threshold
    return total, found, counts


def is_chinese(text: str) -> bool:
    return sum("\u4e00" <= sign <= "\u9fff" for sign in text) > len(text) / 4


def judge(files: list[Rows], name: str, folder: Path) -> dict[str, Any]:
    """All figures of one preset."""
    preset = PRESETS[name]
    total: Counter[str] = Counter()
    found: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    true: set[tuple[str, Pair]] = set()
    answers: dict[str, set[tuple[str, Pair]]] = {"shardkit": set()}
    false_chinese = 0
    for rows in files:
        truth, own = Truth(rows.texts, preset), rows.distinct()
        distinct = Truth([rows.texts[number] for number in own], preset)
        stem = rows.path.stem
        true |= {(stem, pair) for pair in distinct.near()}
        mine = ours(rows, preset, folder)
        answers["shardkit"] |= {(stem, pair) for pair in mine}
        for one, two in mine - distinct.near():
            false_chinese += is_chinese(rows.texts[own[one]]) or is_chinese(rows.texts[own[two]])
        for peer, search in PEERS.items():
            if importlib.util.find_spec(peer):
                pairs = distinct.verified(search(distinct))
                answers.setdefault(peer, set()).update((stem, pair) for pair in pairs)
        near = {(own[one], own[two]) for one, two in mine}
        parts = fate(rows, truth, near, keepers(rows, name, folder))
        for sums, part in zip((total, found, counts), parts, strict=True):
            sums.update(part)
    return {
        **rates(answers.pop("shardkit"), true),
        "recall_by_transform": {edit: round(found[edit] / total[edit], 4) for edit in sorted(total)},
        "distinct_removed": counts["distinct_removed"],
        "false_chinese": false_chinese,
        "planted": counts["planted"],
        "planted_found": counts["planted_found"],
        "planted_kept": counts["planted_kept"],
        "peers": {peer: rates(answers[peer], true) if peer in answers else "not installed" for peer in PEERS},
    }


def text(data: Path) -> dict[str, Any] | None:
    """Section `text`: figures of the preset `web`, and those of the others by name; None where there is no data."""
    folder = data / "neardup_text"
    names = [p for p in sorted(folder.glob("*.jsonl")) if not p.stem.endswith(("_truth", "_pairs"))]
    if not names:
        return None
    files = [read(path) for path in names]
    with tempfile.TemporaryDirectory() as scratch:
        for rows in files:
            ingested(rows, Path(scratch))
        by_preset = {name: judge(files, name, Path(scratch)) for name in PRESETS}
    return {**by_preset.pop(DEFAULT), "other_presets": by_preset}
