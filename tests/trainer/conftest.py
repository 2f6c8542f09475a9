"""One tiny tokenized dataset for the tests that run the whole loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from shardkit import cli
from tests.tokenizer_builders import byte_level
from tests.trainer.builders import picture


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 pictures with texts of 4 to 15 letters, in 6 groups; sequences of 10 to 21 tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    for number in range(24):
        place = folder / "raw" / f"group{number % 6}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture(number)).save(place / f"{number}.png")
        (place / f"{number}.txt").write_text("abcdefghijklmnopqrstuvwxyz"[number % 11 : number % 11 + 4 + number % 12])
    (folder / "tokenizer.json").write_text(json.dumps(byte_level()))
    quiet = ["--quiet", "--workers", "1"]
    assert (
        cli.run(["ingest", "ocr", str(folder / "raw"), "-o", str(folder / "ingest"), "--licence", "CC0-1.0", *quiet])
        == 0
    )
    assert (
        cli.run(
            [
                *("tokenize", str(folder / "ingest"), "-o", str(folder / "tokens")),
                *("--tokenizer", str(folder / "tokenizer.json"), "--recipe", "vlm"),
                *("--set", "image_size=56", "--max-tokens", "32", *quiet),
            ]
        )
        == 0
    )
    return folder / "tokens"
