"""Pictures and pages that look alike: what `bench_dedup.py quality` says in its sections `perceptual` and `pages`.

A folder `neardup_photos` or `neardup_pdq` holds images and truth.jsonl of {"file", "base", "transform", "level"}: rows of
one base show one photograph; same_bytes, same_pixels and near are copies, geometric and partial are printed apart,
negative is another photograph. `photos` and `photos/hard_negatives` add photographs that are alike in kind only.
Pages and captions with planted copies are made by make_corpus.py, where it lies beside the folder.

Every row is ingested with the same text, so that nothing but the images can tell two apart. A pair is found where the
stage's matcher says so (or the pixels are equal); what goes is read off the view of the real command. imagehash (its
pHash of 64 bits, up to 10 of them apart) judges the same files beside it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpora import make_corpus
from PIL import Image, ImageOps

from shardkit.prepare.dedup import perceptual as matcher
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.run import run as ingest
from shardkit.store.dataset import Dataset

COPIES = ("same_bytes", "same_pixels", "near")
LEVELS = ("exact", "pixel", "perceptual")
TRANSFORMS = frozenset(matcher.TRANSFORMS)
PEER_BITS = 10
Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One image file and what is known of it."""

    name: str
    group: str
    """Images of one group show the same."""
    level: str
    transform: str


def judge(items: Iterable[Item], pairs: set[Pair]) -> dict[str, Any]:
    """Recall over the copies of each original, precision over all pairs of images whose groups are known."""
    by_name = {item.name: item for item in items}
    originals: dict[str, list[str]] = defaultdict(list)
    for item in by_name.values():
        if item.level in ("base", "original", "negative"):
            originals[item.group].append(item.name)
    total: Counter[str] = Counter()
    found: Counter[str] = Counter()
    levels: dict[str, str] = {}
    for item in by_name.values():
        for original in originals[item.group] if item.level not in ("base", "original", "negative") else ():
            total[item.transform] += 1
            found[item.transform] += pair(item.name, original) in pairs
            levels[item.transform] = item.level
    copies = [name for name in total if levels[name] in COPIES]
    false = sorted((one, two) for one, two in pairs if by_name[one].group != by_name[two].group)
    true = len(pairs) - len(false)
    return {
        "precision": round(true / len(pairs), 4) if pairs else None,
        "recall": round(sum(found[name] for name in copies) / max(1, sum(total[name] for name in copies)), 4),
        "pairs": len(pairs),
        "false_pairs": len(false),
        "recall_by_transform": {name: round(found[name] / total[name], 4) for name in sorted(total)},
    }


def pair(one: str, two: str) -> Pair:
    return (one, two) if one < two else (two, one)


# ---------------------------------------------------------------------- ours
Places = dict[tuple[str, str], str]
"""(input, position) as in tables/examples -> name of the item."""


def found_pairs(dataset: Dataset, names: Places, transforms: frozenset[str]) -> set[Pair]:
    """Pairs of names that the matcher finds from what ingest stored, or whose pixels are equal."""
    table = dataset.table("assets")
    numbers = {key: number for number, key in enumerate(zip(*columns(table, "asset_id", "frame"), strict=True))}
    members: dict[int, set[str]] = defaultdict(set)
    origins = dataset.table("provenance", ["asset_id", "frame", "input", "position"])
    for asset, frame, source, position in zip(*columns(origins, *origins.column_names), strict=True):
        members[numbers[asset, frame]].add(names[source, position])
    hashes = matcher.read_hashes(table)
    one_text = np.ones(len(hashes), np.uint64)
    edges = matcher.find(hashes.take(np.arange(len(hashes)), salt=one_text), transforms=transforms)
    edges = edges.above(matcher.THRESHOLD)
    alike = [members[one] | members[two] for one, two in zip(edges.one.tolist(), edges.two.tolist(), strict=True)]
    pixels: dict[str, set[str]] = defaultdict(set)
    for number, pixel in enumerate(table["pixel_id"].to_pylist()):
        pixels[pixel] |= members[number]
    return {(a, b) for same in (*alike, *pixels.values()) for a in same for b in same if a < b}


def columns(table: Any, *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


def kept_instead(dataset: Path, names: Places, folder: Path, transforms: frozenset[str]) -> dict[str, str]:
    """Removed name -> kept name, by a run of the real stage."""
    output = folder / f"{dataset.name}-{'-'.join(sorted(transforms)) or 'view'}"
    run(
        DedupConfig(
            inputs=(dataset,),
            output=output,
            levels=LEVELS,
            transforms=tuple(sorted(transforms)),
            max_removed_per_source=1.0,
        )
    )
    examples = Dataset.open(dataset).table("examples", ["shard_index", "row", "input", "position"])
    of_row = {(shard, row): names[place] for shard, row, *place in zip(*columns(examples, *examples.column_names), strict=True)
              for place in [tuple(place)]}  # fmt: skip
    keepers: dict[int, str] = {}
    gone: list[tuple[str, int]] = []
    for row in Dataset.open(output).table("clusters").to_pylist():
        name = of_row[row["shard_index"], row["row"]]
        if row["kept"]:
            keepers[row["cluster"]] = name
        else:
            gone.append((name, row["cluster"]))
    return {name: keepers[cluster] for name, cluster in gone}


def fate(items: Iterable[Item], gone: dict[str, str]) -> dict[str, int]:
    """What became of distinct images and of planted copies; of each group one image is to stay."""
    group = {item.name: item.group for item in items}
    there = Counter(item.group for item in items if item.level in (*COPIES, "base", "original", "negative"))
    left = Counter(item.group for item in items
                   if item.level in (*COPIES, "base", "original", "negative") and item.name not in gone)  # fmt: skip
    return {
        "distinct_removed": sum(group[one] != group[two] for one, two in gone.items()),
        "planted": sum(there.values()) - len(there),
        "planted_found": sum(there[name] - left[name] for name in there),
    }


# ---------------------------------------------------------------------- the peer
def peer_pairs(files: dict[str, Path]) -> set[Pair] | None:
    """Pairs of names that imagehash's pHash finds; None where it is not installed."""
    if not importlib.util.find_spec("imagehash"):
        return None
    imagehash = importlib.import_module("imagehash")
    names, bits = sorted(files), []
    for name in names:
        with Image.open(files[name]) as image:
            bits.append(imagehash.phash(ImageOps.exif_transpose(image).convert("RGB")).hash.ravel())
    hashes = np.array(bits)
    found = set()
    for place, own in enumerate(hashes):
        near = np.flatnonzero(np.count_nonzero(hashes[place + 1 :] != own, axis=1) <= PEER_BITS)
        found |= {(names[place], names[place + 1 + other]) for other in near.tolist()}
    return found


# ---------------------------------------------------------------------- sections
def truth_sets(data: Path) -> tuple[list[Item], dict[str, Path]]:
    """The images of the truth sets and, of `photos`, those that they were not made from."""
    items, files = [], {}
    for folder in (data / "neardup_photos", data / "neardup_pdq"):
        lines = (folder / "truth.jsonl").read_text("utf-8").splitlines() if folder.is_dir() else []
        for row in map(json.loads, lines):
            name = f"{folder.name}/{Path(row['file']).name}"
            group = row["base"].removeprefix("neg_")
            items.append(Item(name=name, group=group, level=row["level"], transform=row["transform"]))
            files[name] = folder / row["file"]
    known = {item.group for item in items}
    for path in sorted([*(data / "photos").glob("*.jpg"), *(data / "photos" / "hard_negatives").glob("*.jpg")]):
        if path.stem not in known:
            name = f"photos/{path.name}"
            items.append(Item(name=name, group=path.stem, level="negative", transform="none"))
            files[name] = path
    return items, files


def perceptual(data: Path, num_captions: int = 1500) -> dict[str, Any] | None:
    """Section `perceptual`; None where there is no truth set."""
    items, files = truth_sets(data)
    if not items:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = folder / "rows.jsonl"
        lines = [json.dumps({"text": "<image>One text.", "images": [str(files[item.name].relative_to(data))], "number": n})
                 for n, item in enumerate(items)]  # fmt: skip
        rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
        ingested(IngestConfig(format="rows", paths=(rows,), images=(data,), output=folder / "set"), len(items))
        dataset = Dataset.open(folder / "set")
        names = {("rows.jsonl", str(number)): item.name for number, item in enumerate(items, 1)}
        plain = judge(items, found_pairs(dataset, names, frozenset()))
        turned = judge(items, found_pairs(dataset, names, TRANSFORMS))
        what_stays = fate(items, kept_instead(folder / "set", names, folder, frozenset()))
        peer = peer_pairs(files)
        made = captions(data, folder, num_captions) if num_captions else None
    return {
        **plain,
        **what_stays,
        "with_transforms": turned,
        "peers": {"imagehash": judge(items, peer) if peer is not None else "not installed"},
        "made_captions": made or "not made",
    }


def ingested(config: IngestConfig, at_least: int) -> None:
    kept = ingest(config).tally.kept
    if kept < at_least:
        raise SystemExit(f"{config.paths[0]}: {at_least - kept} rows were not kept")


def corpus(data: Path, out: Path, *, images: int = 0, num_pages: int = 0, invoices: int = 0) -> Path | None:
    """Made by make_corpus.py beside the data; None where it is not there."""
    script = data.parent / "make_corpus.py"
    if not script.exists():
        return None
    return make_corpus(script, out, data=data, images=images, pages=num_pages, invoices=invoices, docs=0)


def read_truth(path: Path, name: str) -> Iterator[Item]:
    for row in map(json.loads, path.read_text("utf-8").splitlines()):
        if row["level"] != "broken":
            yield Item(name=row[name], group=row["group"], level=row["level"], transform=row["edit"] or row["level"])


def captions(data: Path, folder: Path, num_images: int) -> dict[str, Any] | None:
    """Pictures of make_corpus.py, most of which are parts of few photographs and so alike in kind."""
    made = corpus(data, folder / "made", images=num_images)
    if made is None:
        return None
    items = list(read_truth(made / "truth" / "captions.jsonl", "key"))
    config = IngestConfig(format="caption", paths=(made / "captions",), output=folder / "captions")
    ingested(config, len(items))
    dataset = Dataset.open(folder / "captions")
    table = dataset.table("examples", ["input", "position"])
    names = {place: place[1] for place in zip(*columns(table, "input", "position"), strict=True)}
    return {
        **judge(items, found_pairs(dataset, names, frozenset())),
        "with_transforms": judge(items, found_pairs(dataset, names, TRANSFORMS)),
    }


def pages(data: Path, num_pages: int = 2000, num_invoices: int = 300) -> dict[str, Any] | None:
    """Section `pages`: distinct pages and planted scans of make_corpus.py by kind; None where it is not there."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = corpus(data, folder / "made", num_pages=num_pages, invoices=num_invoices)
        if made is None:
            return None
        by_kind: dict[str, dict[str, int]] = {}
        for part in ("ocr", "invoices"):
            kinds: dict[str, list[Item]] = defaultdict(list)
            for row in map(json.loads, (made / "truth" / f"{part}.jsonl").read_text("utf-8").splitlines()):
                if row["level"] != "broken":
                    item = Item(name=row["file"], group=row["group"], level=row["level"], transform=row["edit"])
                    kinds[f"{row['language']} {row['layout']}"].append(item)
            config = IngestConfig(format="ocr", paths=(made / part,), output=folder / part)
            ingested(config, sum(map(len, kinds.values())))
            table = Dataset.open(folder / part).table("examples", ["input", "position"])
            names = {place: place[0] for place in zip(*columns(table, "input", "position"), strict=True)}
            gone = kept_instead(folder / part, names, folder, frozenset())
            for kind, items in sorted(kinds.items()):
                own = {item.name for item in items}
                removed = {one: two for one, two in gone.items() if one in own}
                distinct = len({item.group for item in items})
                by_kind[kind] = {"distinct": distinct, **fate(items, removed)}
    sums = {
        name: sum(row[name] for row in by_kind.values()) for name in ("distinct_removed", "planted", "planted_found")
    }
    removed = sums["planted_found"] + sums["distinct_removed"]
    return {
        "precision": round(sums["planted_found"] / removed, 4) if removed else None,
        "recall": round(sums["planted_found"] / max(1, sums["planted"]), 4),
        "recall_by_transform": {},
        **sums,
        "kinds": [{"kind": kind, **row} for kind, row in by_kind.items()],
    }
