"""Real dumps by the command line, in both directions: what a batch is made of, held against the raw files themselves."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shardkit.prepare.lineage.trace import Tracer
from shardkit.store.dataset import Dataset
from tests.journey.road import result, shardkit

STAGES = ("pages", "captions", "receipts", "chat", "clean", "split", "tokens", "turns")


@dataclass(frozen=True)
class Walk:
    raw: Path
    root: Path
    plan: str
    steps: int

    def __truediv__(self, stage: str) -> Path:
        return self.root / stage


@pytest.fixture(scope="module")
def walk(shared: Path, once: Callable[..., Path]) -> Walk:
    raw = shared / "data"
    root = once("lineage", lambda folder: make(raw, folder))
    figures = json.loads((root / "plan.json").read_bytes())
    return Walk(raw=raw, root=root, plan=figures["plan"], steps=figures["steps"])


def make(raw: Path, root: Path) -> None:
    common = ["--workers", 1, "--quiet"]
    pages = raw / "obelics_pages"
    shardkit("ingest", "obelics", pages / "obelics.parquet", "--images", pages, "--url-map", pages / "url_map.jsonl",
             "-o", root / "pages", "--source", "pages", "--licence", "MIT", "--limit", 80, *common)  # fmt: skip
    shardkit("ingest", "caption", raw / "captions_alttext", "-o", root / "captions", "--source", "alttext",
             "--licence", "CC-BY-SA", "--revision", "8bd5355", "--limit", 60, *common)  # fmt: skip
    shardkit("ingest", "ocr", raw / "ocr_receipts_sroie", "-o", root / "receipts", "--source", "sroie", *common)
    shardkit("ingest", "chat", raw / "chat" / "sft.jsonl", "-o", root / "chat", "--source", "chat", "--licence",
             "Apache-2.0", "--limit", 40, *common)  # fmt: skip
    shardkit("dedup", *(root / name for name in STAGES[:4]), "-o", root / "clean", *common)
    shardkit("split", root / "clean", "-o", root / "split", "--ratios", "train=0.9,test=0.1", *common)
    tokenizer = ["--tokenizer", raw / "tokenizers" / "minimind", "--add-control-tokens", "--max-tokens", 512, *common]
    shardkit("tokenize", root / "split", "-o", root / "tokens", "--recipe", "vlm", "--set", "image_size=56", *tokenizer)
    shardkit("tokenize", root / "split", "-o", root / "turns", "--recipe", "sft", *tokenizer)
    figures = result("plan", root / "tokens", "--max-tokens", 512, "--global-batch", 4, "--save")
    (root / "plan.json").write_text(json.dumps(figures))


def test_a_batch_leads_to_the_raw_files(walk: Walk) -> None:
    seen: Counter[str] = Counter()
    for step in range(0, walk.steps, max(walk.steps // 4, 1)):
        for rank in range(2):
            found = result("trace", walk / "tokens", f"{walk.plan}/0/{step}/{rank}of2")
            for example in found["examples"]:
                seen[example["source"]] += 1
                held_against_the_raw_row(walk.raw, example)
            for asset in found["assets"]:
                assert all(row["licence"] in ("MIT", "CC-BY-SA", None) for row in asset["provenance"])
                assert all(row["digest"] == f"sha256:{asset['asset_id']}" for row in asset["provenance"])
                assert all(row["tokenizer"] and row["processor"] for row in asset["provenance"])
    assert seen["pages"] > 0
    assert seen["alttext"] > 0


def held_against_the_raw_row(raw: Path, example: dict[str, Any]) -> None:
    """The words and pictures of an example are those of the row that it names."""
    assets = {image["asset_id"] for image in example["images"]}
    name, position = example["input"], example["position"]
    if example["source"] == "pages":
        row = pq.ParquetFile(raw / "obelics_pages" / name).read(["texts"])["texts"][int(position) - 1].as_py()
        words = " ".join(text for text in row if text).split()
        assert example["text"].replace("\\n", " ").split()[:3] == words[:3]
        assert example["file"]["size"] == (raw / "obelics_pages" / name).stat().st_size
    elif example["source"] == "alttext":
        with tarfile.open(raw / "captions_alttext" / name) as tar:
            members = [one for one in tar if one.name.split(".")[0] == position]
            digests = {hashlib.sha256(tar.extractfile(one).read()).hexdigest() for one in members}  # type: ignore[union-attr]
        assert assets <= digests
    elif example["source"] == "sroie":
        file = raw / "ocr_receipts_sroie" / name
        assert assets == {hashlib.sha256(file.read_bytes()).hexdigest()}
    else:
        line = (raw / "chat" / name).read_text(encoding="utf-8").splitlines()[int(position) - 1]
        said = json.loads(line)["conversations"][0]["content"]
        assert example["text"].replace("\\n", "\n").startswith(said[:12])


def test_every_source_is_held_against_its_raw_rows(walk: Walk) -> None:
    tracer = Tracer(walk / "split")
    for stage in STAGES[:4]:
        for row in Dataset.open(walk / stage).table("examples", ["example_id"]).to_pylist()[::5]:
            for example in tracer.trace(row["example_id"]).get("examples", ()):
                held_against_the_raw_row(walk.raw, example)


@pytest.mark.parametrize("last", ["tokens", "turns"])
def test_every_raw_row_is_kept_or_left_out_with_a_reason(walk: Walk, last: str) -> None:
    tracer, ends = Tracer(walk / last), Counter[str]()
    for stage in STAGES[:4]:
        dataset = Dataset.open(walk / stage)
        places = [
            (row["input"], row["position"]) for row in dataset.table("examples", ["input", "position"]).to_pylist()
        ]
        places += [(row["input"], row["position"]) for row in map(json.loads, dataset.exclusions())]
        assert len(places) == dataset.manifest.counts["read"]
        for name, position in places:
            (row,) = tracer.source(f"{name}:{position}")["rows"]
            ends[row["history"][-1]["outcome"]] += 1
            kept = row["history"][-1]["outcome"] == "kept"
            assert bool(row["examples"]) == kept
            assert all(example["sequences"] for example in row["examples"])
    left = Counter[str]()
    for stage in (*STAGES[:6], last):
        left.update(Dataset.open(walk / stage).manifest.counts["excluded_by_reason"])
    assert ends == left + Counter({"kept": Dataset.open(walk / last).manifest.counts["kept"]})


def test_forward_by_the_command(walk: Walk) -> None:
    row = next(json.loads(line) for line in Dataset.open(walk / "clean").exclusions())
    found = result("trace", walk / "tokens", "--source", f"{row['input']}:{row['position']}")
    (history,) = (one["history"] for one in found["rows"])
    assert [step["stage"] for step in history] == ["ingest", "dedup"]
    assert (history[-1]["outcome"], history[-1]["detail"]) == (row["reason"], row["detail"])
    assert history[-1]["links"]


def test_a_forgotten_picture_is_in_no_file(walk: Walk, tmp_path: Path) -> None:
    picture = (walk.raw / "ocr_receipts_sroie" / "img" / "001.jpg").read_bytes()
    asset = hashlib.sha256(picture).hexdigest()
    found = result(
        "forget", walk / "split", "--asset", asset, "-o", tmp_path / "out", "--also", walk.root, "--workers", 1
    )
    assert found["excluded_by_reason"] == {"forgotten_asset": found["excluded"]}
    assert {Path(one["path"]).name for one in found["also"]} == {"receipts", "clean", "split", "tokens"}
    body = picture[len(picture) // 2 :][:4096]
    holds = {file.name for file in (walk / "split").rglob("*") if file.is_file() and body in file.read_bytes()}
    assert holds
    for file in (file for file in (tmp_path / "out").rglob("*") if file.is_file()):
        data = file.read_bytes()
        assert body not in data
        assert asset.encode() not in data or file.name == "manifest.json"
    shardkit("verify", tmp_path / "out", "--deep", "--workers", 1, "--quiet")
    shardkit("audit", tmp_path / "out", "--workers", 1, "--quiet")
