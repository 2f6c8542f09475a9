"""Tokenized datasets, made by the real stages from generated rows."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from shardkit.cli import run
from tests.warm import Warm

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "tests" / "data" / "tokenizer"
WORDS = ["house", "tree", "river", "stone", "bright", "letter", "page", "under", "seven", "slow", "green", "paper"]


def write_rows(folder: Path, number: int, *, images: int, seed: int) -> Path:
    """A rows file whose rows have up to `images` pictures, all different, and texts of any length."""
    chance = random.Random(seed)
    folder.mkdir(parents=True)
    rows = []
    for row in range(number):
        names = []
        for _ in range(chance.randint(min(images, 1), images)):
            name = f"{row}-{len(names)}.png"
            picture = Image.new("RGB", (chance.randint(20, 90), chance.randint(20, 90)), (row, seed, len(names) * 90))
            picture.putpixel((row % 20, 3), (255, 255 - row, 7))
            picture.save(folder / name)
            names.append(name)
        text = " ".join(chance.choices(WORDS, k=chance.randint(2, 40)))
        rows.append({"text": "<image>" * len(names) + f" {text} {seed}-{row}", "images": names, "page": row})
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def shardkit(*arguments: object) -> None:
    assert run([str(argument) for argument in arguments]) == 0


def tokenize(*inputs: Path, out: Path, max_tokens: int = 128) -> Path:
    options = ["--tokenizer", TOKENIZER, "--recipe", "vlm", "--set", "image_size=56", "--max-tokens", max_tokens]
    shardkit("tokenize", *inputs, "-o", out, *options, "--workers", 1, "--quiet")
    return out


def ingest(file: Path, out: Path, *options: object) -> Path:
    name = file.parent.name
    small = ["--shard-size", 4096, "--unit-size", 4096, "--source", name]
    shardkit("ingest", "rows", file, "-o", out, *small, "--workers", 1, "--quiet", *options)
    return out


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Runs programs in processes of their own that have torch and the loader loaded."""
    with Warm() as host:
        yield host


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of what the fixtures below make."""
    return tmp_path_factory.mktemp("loader")


@pytest.fixture(scope="session")
def examples(work: Path) -> tuple[Path, Path]:
    """Two datasets of examples: `web` with pictures in tar shards, `notes` without in Arrow shards."""
    web = ingest(write_rows(work / "raw" / "web", 40, images=2, seed=1), work / "web", "--shards", "tar")
    notes = ingest(write_rows(work / "raw" / "notes", 40, images=0, seed=2), work / "notes")
    return web, notes


@pytest.fixture(scope="session")
def tokens(work: Path, examples: tuple[Path, Path]) -> Path:
    """Sequences of both, never split; do not change it."""
    return tokenize(*examples, out=work / "tokens")


@pytest.fixture(scope="session")
def split_tokens(work: Path, examples: tuple[Path, Path]) -> Path:
    """Sequences of `web`, split into train and val."""
    shardkit(
        "split", examples[0], "-o", work / "split", "--ratios", "train=0.7,val=0.3", "--group-by", "page",
        "--workers", 1, "--quiet",
    )  # fmt: skip
    return tokenize(work / "split", out=work / "split_tokens")


@pytest.fixture
def copied(work: Path, tokens: Path, tmp_path: Path) -> Path:
    """A copy of `tokens` with all it refers to, to be damaged."""
    for name in ("web", "notes", "tokens"):
        shutil.copytree(work / name, tmp_path / name)
    return tmp_path / "tokens"


@pytest.fixture(scope="session")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """number of rows -> a tokenized dataset of texts, a sequence a row."""
    work = tmp_path_factory.mktemp("rows")
    made: dict[tuple[int, str], Path] = {}

    def dataset(number: int, name: str = "texts") -> Path:
        if (number, name) not in made:
            folder = work / f"{number}" / name
            examples = ingest(write_rows(folder, number, images=0, seed=number), work / f"{name}-{number}")
            made[number, name] = tokenize(examples, out=work / f"{name}-{number}-tokens")
        return made[number, name]

    return dataset
