"""Tokenized pages of books, to be split."""

from __future__ import annotations

from pathlib import Path

from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run as run_tokenize
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.builders import example, png

TOKENIZER = Path(__file__).resolve().parents[2] / "data" / "tokenizer"
NAMES = ("train", "val", "test")


def tokenize(*inputs: Path, out: Path, max_tokens: int = 64, overlong: str = "window", recipe: str = "vlm") -> Path:
    settings = {"image_size": "56"} if recipe == "vlm" else {}
    run_tokenize(
        TokenizeConfig(
            inputs=inputs,
            output=out,
            tokenizer=TOKENIZER,
            recipe=recipe,
            settings=settings,
            max_tokens=max_tokens,
            overlong=overlong,
        )
    )
    return out


def pages(count: int = 90) -> list[Example]:
    """Three pages a book, every fifth with a picture, every seventh too long for one sequence."""
    return [
        example(
            f"book {k // 3} page {k} " + "word " * (150 if k % 7 == 0 else 5),
            *([png(k)] if k % 5 == 0 else []),
            group=f"book {k // 3}",
            source="even" if k // 3 % 2 else "odd",
            shelf=f"shelf {k // 9}",
        )
        for k in range(count)
    ]


def rows_of(path: Path) -> list[dict[str, object]]:
    """Rows of all shards of sequences, in order, each with its `split` and the text of its example."""
    dataset = Dataset.open(path)
    texts = {(shard, row): found.text for shard, row, found in dataset.examples()}
    rows = []
    for shard in dataset.sequence_shards:
        found = dataset.sequence_reader(shard).table().to_pylist()
        at = dataset.examples_of(shard)
        rows += [{**row, "split": shard.split, "text": texts[at[row["shard"]], row["row"]]} for row in found]
    return rows
