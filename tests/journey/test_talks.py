"""Dialogues with pictures, from a file as LLaVA is published to trained weights, by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from shardkit.loader import StreamingLoader
from shardkit.loader.unpack import Unpacked, unpack
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import Square
from shardkit.text.tokenizer import Tokenizer
from shardkit.trainer.metrics import read_log
from tests.journey.road import result, shardkit

SQUARE = Square(image_size=56)
SLOTS = 4
"""Of a picture."""


def pictures(sample: Path) -> list[Path]:
    """Pictures of a page: each of other pixels."""
    files = sorted((sample / "obelics" / "images").iterdir())
    return [file for file in files if file.suffix in (".jpg", ".png")][:12]


def talks(files: list[Path]) -> list[dict]:
    """One question a picture, whose answer names it; one about two of them; one without; one that comes twice."""
    rows = [
        {
            "id": str(number),
            "image": file.name,
            "conversations": [
                {"from": "human", "value": "<image>\nWhich picture is this?"},
                {"from": "gpt", "value": f"It is {file.name}."},
            ],
        }
        for number, file in enumerate(files)
    ]
    two = [
        {"from": "human", "value": "First <image>, then <image>: which are they?"},
        {"from": "gpt", "value": f"They are {files[0].name} and {files[1].name}."},
    ]
    plain = [{"from": "human", "value": "What is <image>?"}, {"from": "gpt", "value": "A mark for a picture."}]
    more = [
        {"id": "two", "image": [file.name for file in files[:2]], "conversations": two},
        {"id": "plain", "conversations": plain},
    ]
    return [*rows, *more, {**rows[3], "id": "again"}]


@pytest.fixture(scope="module")
def talked(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> Path:
    """A folder with raw, clean, split and tokens."""
    folder = tmp_path_factory.mktemp("talks")
    (folder / "talks.json").write_text(json.dumps(talks(pictures(sample))))
    images = sample / "obelics" / "images"
    said = result("ingest", "chat", folder / "talks.json", "--images", images, "-o", folder / "raw", "--licence", "MIT")
    assert (said["read"], said["kept"]) == (15, 15)
    assert result("dedup", folder / "raw", "-o", folder / "clean", "--level", "exact")["kept"] == 14
    shardkit("split", folder / "clean", "-o", folder / "split", "--ratios", "train=0.8,val=0.2")
    recipe = [
        "--tokenizer",
        sample / "tokenizer",
        "--recipe",
        "vlm-sft",
        "--set",
        "image_size=56",
        "--max-tokens",
        "128",
    ]
    said = result("tokenize", folder / "split", "-o", folder / "tokens", *recipe)
    assert (said["read"], said["kept"]) == (14, 14)
    return folder


def unpacked(tokens: Path, split: str) -> Iterator[Unpacked]:
    """Every sequence that the loader gives in an epoch, checked as it stands in its batch."""
    with StreamingLoader(tokens, split=split, seed=1, max_tokens=256, tail="pad", epochs=1) as loader:
        for batch in loader:
            patch = Tokenizer.load(tokens / "tokenizer").token_id("<|image_pad|>")
            rows, places = batch.slot_rows[0], batch.input_ids[0] == patch
            assert torch.equal(rows >= 0, places)
            assert rows[places].tolist() == list(range(SLOTS * len(batch.image_slots)))
            assert batch.square_patches.values.shape == (16 * len(batch.image_slots), 3 * 14 * 14)
            yield from (one for pack in unpack(batch) for one in pack)


def test_the_loader_gives_each_answer_the_pictures_it_speaks_of(talked: Path, sample: Path):
    tokenizer = Tokenizer.load(talked / "tokens" / "tokenizer")
    expected = {file.name: SQUARE.pixels(decode_rgb(file.read_bytes())) for file in pictures(sample)}
    counts = []
    for one in (*unpacked(talked / "tokens", "train"), *unpacked(talked / "tokens", "val")):
        ids = one.sequence.input_ids.tolist()
        learned = [token for token, objective in zip(ids, one.sequence.objectives, strict=True) if objective]
        answer = tokenizer.decode(learned)
        named = [name for name in sorted(expected, key=answer.find) if name in answer]
        assert answer.endswith("<|im_end|>\n")
        assert len(one.pixels) == len(named)
        for pixels, name in zip(one.pixels, named, strict=True):
            assert np.array_equal(pixels, expected[name])
        counts.append(len(named))
    assert sorted(counts) == [0, *[1] * 12, 2]


def test_looks_at_such_a_dataset(talked: Path, sample: Path):
    tokens = talked / "tokens"
    examples = pq.read_table(tokens / "tables/examples.parquet").to_pylist()
    example = next(row for row in examples if row["position"] == "1")
    shown = shardkit("inspect", tokens, example["example_id"]).stdout
    assert "Which picture is this?" in shown
    assert "image 0, 56 x 56" in shown
    (spelled,) = result(
        "tokenize", talked / "split", "--tokenizer", sample / "tokenizer", "--recipe", "vlm-sft", "--show", "1"
    )["examples"]
    assert [piece["kind"] for piece in spelled["sequences"][0]["pieces"]].count("slots") == 1
    assert example["example_id"] in shardkit("trace", tokens, example["example_id"]).stdout
    shardkit("audit", tokens)
    plan = result("plan", tokens, "--max-tokens", "256")
    padding = result("padding", tokens)
    assert plan["sequences"] == padding["num_samples"]
    (source,) = plan["sources"].values()
    assert source["patches"] == 16 * source["images"]


def test_it_is_trained_on_and_a_resumed_run_ends_with_the_same_bits(talked: Path, tmp_path: Path):
    common = ["train", "--task", "vlm-align", "--data", talked / "tokens", "--max-tokens", 256, "--lr", 3e-3, "--warmup", 2,
              "--threads", 1, "--checkpoint-every", 2]  # fmt: skip
    whole = json.loads(shardkit(*common, "--steps", 4, "--out", tmp_path / "whole").stdout.splitlines()[-1])
    shardkit(*common, "--steps", 2, "--out", tmp_path / "parts")
    parts = json.loads(shardkit(*common, "--steps", 4, "--out", tmp_path / "parts", "--resume").stdout.splitlines()[-1])
    assert parts == whole
    log = read_log(tmp_path / "whole/log.jsonl")
    assert log[-1]["loss"] < 0.95 * log[0]["loss"]
    assert set(log[0]["loss_by_objective"]) == {"answer"}
    assert log[0]["grad_norm_by_part"]["vision"] > 0
    refused = shardkit(
        "train", "--task", "sft", "--data", talked / "tokens", "--steps", 1, "--out", tmp_path / "no", code=3
    )
    assert "use --task vlm-align" in refused.stderr
