"""A dataset of preference pairs as trainers take it that know no packs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.loader.pairs import Pairs, six_tensors
from shardkit.loader.unpack import unpack
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run
from shardkit.text.tokenizer import Tokenizer

TOKENIZER = Path(__file__).resolve().parents[1] / "data" / "tokenizer"
DRAWN = {"alternatives": "2", "system_prompt_ratio": "0.5"}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenized dataset of twelve rows that are pairs and dialogues, by recipe and settings."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [{"prompt": f"q{n}", "chosen": f"yes {n}", "rejected": "no"} for n in range(12)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest(IngestConfig(format="chat", paths=(folder / "rows.jsonl",), output=folder / "examples"))

    def made(recipe: str = "dpo", **settings: str) -> Path:
        output = folder / f"{recipe}-{len(settings)}"
        run(
            TokenizeConfig(
                inputs=(folder / "examples",), output=output, tokenizer=TOKENIZER, recipe=recipe, settings=settings
            )
        )
        return output

    return made


def answers(batch: dict[str, torch.Tensor], side: str) -> list[str]:
    tokenizer = Tokenizer.load(TOKENIZER)
    rows = zip(batch[f"y_{side}"], batch[f"mask_{side}"], strict=True)
    return [tokenizer.decode(y[mask > 0].tolist()) for y, mask in rows]


def test_pairs_come_in_batches_of_six_tensors(make: Any) -> None:
    (batch,) = DataLoader(Pairs(make(), max_tokens=64), batch_size=12)
    assert {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in batch.items()} == dict.fromkeys(
        ("x_chosen", "y_chosen", "mask_chosen", "x_rejected", "y_rejected", "mask_rejected"), ((12, 63), torch.int64)
    )
    assert sorted(answers(batch, "chosen")) == sorted(f"yes {n}<|im_end|>\n" for n in range(12))
    assert set(answers(batch, "rejected")) == {"no<|im_end|>\n"}
    assert (batch["x_chosen"][:, 1:] == batch["y_chosen"][:, :-1]).logical_or(batch["x_chosen"][:, 1:] == 0).all()


def test_workers_open_the_shards_themselves(make: Any) -> None:
    pairs = Pairs(make(), max_tokens=64)
    alone = [pairs[index]["x_chosen"].tolist() for index in range(len(pairs))]
    hosted = [batch["x_chosen"][0].tolist() for batch in DataLoader(pairs, batch_size=1, num_workers=1)]
    assert hosted == alone


def test_by_default_documents_are_as_wide_as_tokenize_allows(make: Any) -> None:
    assert Pairs(make())[0]["x_chosen"].shape == (4095,)
    with pytest.raises(ConfigError, match="max_tokens is 5"):
        Pairs(make(), max_tokens=5)[0]


def test_each_pass_has_every_pair_once_and_its_own_alternatives(make: Any) -> None:
    path = make(**DRAWN)
    passes = [Pairs(path, max_tokens=128, epoch=epoch) for epoch in range(3)]
    assert [len(pairs) for pairs in passes] == [12, 12, 12]
    shown = [[pairs[index]["x_chosen"].tolist() for index in range(12)] for pairs in passes]
    assert shown[0] == shown[2] != shown[1]
    for pairs in passes:
        (batch,) = DataLoader(pairs, batch_size=12)
        assert sorted(answers(batch, "chosen")) == sorted(f"yes {n}<|im_end|>\n" for n in range(12))


def test_a_pair_stays_in_one_pack_and_unpacks_to_the_same_tensors(make: Any) -> None:
    path = make()
    with StreamingLoader(path, max_tokens=128, epochs=1, tail="pad") as loader:
        found = [one.sequence for batch in loader for pack in unpack(batch) for one in pack]
    assert [len(sequence.documents) for sequence in found] == [2] * 12
    packed = sorted(map(str, six_tensors(found, max_tokens=64)["x_rejected"].tolist()))
    pairs = Pairs(path, max_tokens=64)
    assert packed == sorted(str(pairs[index]["x_rejected"].tolist()) for index in range(12))


def test_other_sequences_are_no_pairs(make: Any) -> None:
    pairs = Pairs(make("text-replay"))
    with pytest.raises(ConfigError, match="a preference pair has two"):
        pairs[0]
