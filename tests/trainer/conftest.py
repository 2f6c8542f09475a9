"""One tiny tokenized dataset for the tests that run the whole loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from shardkit import cli
from tests.tokenizer_builders import byte_level
from tests.trainer.builders import picture

LETTERS = "abcdefghijklmnopqrstuvwxyz"

STAGES = """
[[stage]]
name = "joint"
steps = 3
data = "pictures"
task = "vlm-align"

[[stage]]
name = "alignment"
steps = 2
data = "pictures"
task = "vlm-align"
freeze = ["lm"]
lr = 3e-3

[[stage]]
name = "replay"
steps = 4
data = "both"
task = "lm"
mixture = {by = "token", weights = {web = 1, chat = 3}}
packer = "oldest-first"
reset_optimizer = true
max_tokens = 48

[[stage]]
name = "instruction"
steps = 3
data = "answers/tokens"
task = "sft"
theta = 40000
schedule = "cosine"
warmup = 1

[[stage]]
name = "preference"
steps = 2
data = "pairs/tokens"
task = "dpo"
global_batch = 2
"""
"""In the fixture `road`; 14 steps, borders after 3, 5, 9 and 12."""


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 pictures with texts of 4 to 15 letters, in 6 groups; sequences of 10 to 21 tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    for number in range(24):
        place = folder / "raw" / f"group{number % 6}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(number)).save(place / f"{number}.png")
        (place / f"{number}.txt").write_text(LETTERS[number % 11 : number % 11 + 4 + number % 12])
    shardkit("ingest", "ocr", folder / "raw", "-o", folder / "ingest", "--licence", "CC0-1.0")
    tokenize(folder, "--recipe", "vlm", "--set", "image_size=56")
    return folder / "tokens"


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 texts of 4 to 15 letters without pictures."""
    folder = tmp_path_factory.mktemp("texts")
    lines = [json.dumps({"text": LETTERS[number % 11 : number % 11 + 4 + number % 12]}) for number in range(24)]
    (folder / "raw.jsonl").write_text("\n".join(lines))
    shardkit("ingest", "text", folder / "raw.jsonl", "-o", folder / "ingest", "--licence", "CC0-1.0")
    tokenize(folder, "--recipe", "pretrain")
    return folder / "tokens"


def tokenize(folder: Path, *arguments: str) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(byte_level()))
    places = ("-o", folder / "tokens", "--tokenizer", folder / "tokenizer.json")
    shardkit("tokenize", folder / "ingest", *places, "--max-tokens", "32", *arguments)


def shardkit(*arguments: object) -> None:
    assert cli.run([str(argument) for argument in (*arguments, "--quiet", "--workers", "1")]) == 0


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 dialogues of one question and its answer."""
    folder = tmp_path_factory.mktemp("answers")
    write_chat(
        folder, [{"conversations": [said("user", f"q{n}"), said("assistant", LETTERS[n : n + 5])]} for n in range(12)]
    )
    tokenize(folder, "--recipe", "sft", "--add-control-tokens", "--max-tokens", "128")
    return folder / "tokens"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 preference pairs: letters in order are better than the same from behind."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for number in range(12):
        question, good = said("user", f"q{number}"), LETTERS[number : number + 5]
        rows.append(
            {"chosen": [question, said("assistant", good)], "rejected": [question, said("assistant", good[::-1])]}
        )
    write_chat(folder, rows)
    tokenize(folder, "--recipe", "dpo", "--add-control-tokens", "--max-tokens", "128")
    return folder / "tokens"


@pytest.fixture(scope="session")
def pairs_with_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 preference pairs about a picture each, which both sides show."""
    folder = tmp_path_factory.mktemp("pairs-with-pictures")
    rows = []
    for number in range(6):
        Image.fromarray(picture(number)).save(folder / f"{number}.png")
        question, good = said("user", f"<image>q{number}"), LETTERS[number : number + 5]
        sides = {"chosen": [question, said("assistant", good)], "rejected": [question, said("assistant", good[::-1])]}
        rows.append({"images": [f"{number}.png"], **sides})
    write_chat(folder, rows)
    tokenize(folder, "--recipe", "vlm-dpo", "--add-control-tokens", "--max-tokens", "128", "--set", "image_size=56")
    return folder / "tokens"


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def write_chat(folder: Path, rows: list[dict[str, object]]) -> None:
    (folder / "raw.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    shardkit("ingest", "chat", folder / "raw.jsonl", "-o", folder / "ingest", "--licence", "CC0-1.0")


@pytest.fixture(scope="session")
def road(tmp_path_factory: pytest.TempPathFactory, tokens: Path) -> Path:
    """A folder with `pictures`, `answers`, `pairs` and `both` (two sources), all of one tokenizer; and stages.toml."""
    folder = tmp_path_factory.mktemp("road")
    rows = [{"conversations": [said("user", f"q{n}"), said("assistant", LETTERS[n : n + 5])]} for n in range(12)]
    make(folder / "answers", rows, "--recipe", "sft", "--add-control-tokens", "--max-tokens", "128")
    tokenizer = ("--tokenizer", folder / "answers/tokens/tokenizer", "--max-tokens", "128")
    pairs = [
        {"chosen": [row["conversations"][0], said("assistant", letters)],
         "rejected": [row["conversations"][0], said("assistant", letters[::-1])]}
        for row, letters in ((row, row["conversations"][1]["content"]) for row in rows)
    ]  # fmt: skip
    make(folder / "pairs", pairs, "--recipe", "dpo", *tokenizer)
    pictures = tokens.parent / "ingest"
    shardkit("tokenize", pictures, "-o", folder / "pictures", "--recipe", "vlm", "--set", "image_size=56", *tokenizer)
    for source in ("web", "chat"):
        lines = [json.dumps({"text": source + LETTERS[n % 11 : n % 11 + 4 + n % 12]}) for n in range(24)]
        (folder / f"{source}.jsonl").write_text("\n".join(lines))
        shardkit("ingest", "text", folder / f"{source}.jsonl", "-o", folder / source, "--source", source)
    assert cli.run(["concat", f"{folder}/web", f"{folder}/chat", "-o", f"{folder}/mixed", "--quiet"]) == 0
    shardkit("tokenize", folder / "mixed", "-o", folder / "both", "--recipe", "pretrain", *tokenizer)
    (folder / "stages.toml").write_text(STAGES)
    return folder


def make(folder: Path, rows: list[dict], *arguments: object) -> None:
    folder.mkdir()
    write_chat(folder, rows)
    if "--tokenizer" in arguments:
        shardkit("tokenize", folder / "ingest", "-o", folder / "tokens", *arguments)
    else:
        tokenize(folder, *arguments)
