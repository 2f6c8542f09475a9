"""A small road whose every row is known: two ingests, dedup, split, tokenize."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run as tokenize
from tests.prepare.builders import example, png, write
from tests.tokenizer_builders import byte_level

WEB = [
    example("the first page", png(1), source="web", group="https://a.example/1"),
    example("the second page", png(2), source="web", group="https://a.example/2"),
    example("the first page", png(1), source="web", group="https://a.example/1"),  # row 3 equals row 1
    example("words alone", source="web", url="https://a.example/words"),
    example("another tongue", png(3), source="web", turns=[("user", "who?")]),  # row 5 has a role: tokenize leaves it
    *(example(f"page {k}", png(10 + k), source="web", group=f"https://b.example/{k}") for k in range(10)),
]
TABLE = [
    example("the same picture elsewhere", png(2), source="table"),
    example("a picture of its own", png(4), source="table"),
    example("the picture saved again", png(4, level=1), source="table"),
]
LICENCES = {0: "CC0", 1: "CC-BY", 2: "CC0", 4: "CC0"}


@dataclass(frozen=True)
class Road:
    root: Path

    def __getattr__(self, name: str) -> Path:
        return self.root / name


@pytest.fixture(scope="session")
def lineage(tmp_path_factory: pytest.TempPathFactory) -> Road:
    road = Road(tmp_path_factory.mktemp("lineage"))
    write(road.web, WEB, licences=LICENCES, recipe={"source": "web", "licence": "MIT"}, unit_rows=6)
    write(road.table, TABLE, licences={0: "CC-BY-NC"}, inputs=["table.csv"] * 3, recipe={"source": "table"})
    dedup(DedupConfig(inputs=(road.web, road.table), output=road.clean, levels=("exact",)))
    split(SplitConfig(input=road.clean, output=road.split, ratios=parse_ratios("train=0.8,test=0.2")))
    tokenizer = road.root / "tokenizer.json"
    tokenizer.write_bytes(orjson.dumps(byte_level()))
    settings = {"image_size": "28"}
    tokenize(
        TokenizeConfig(
            inputs=(road.split,),
            output=road.tokens,
            tokenizer=tokenizer,
            recipe="vlm",
            settings=settings,
            max_tokens=12,
        )
    )
    return road
