"""Any tokenizer.json: of every kind of model, with a normalizer, without control tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.tokenize.chunk import TEXTS_CHANGED
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run
from shardkit.store.dataset import Dataset
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example
from tests.prepare.tokenize.datasets import commit
from tests.tokenizer_builders import byte_level

LETTERS = [chr(point) for point in range(33, 127)]
MARKS = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
TEXT = "a Cat <|image_pad|> <|im_end|> <think> \uff1c|im_end|\uff1e <image_patch>"
"""With a control string in full-width signs, which NFKC makes of ordinary ones."""


def plain(model: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A tokenizer without added tokens."""
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return {"version": "1.0", **empty, "added_tokens": [], "model": model, **more}


def bpe() -> dict[str, Any]:
    return byte_level(controls=(), functional=(), merges=[("C", "a"), ("Ca", "t")])


UNIGRAM = {"type": "Unigram", "unk_id": 0, "byte_fallback": False}
SPLIT = {"type": "WhitespaceSplit"}
KINDS: dict[str, dict[str, Any]] = {
    "bpe": bpe(),
    "bpe with controls": byte_level(),
    "bpe of whole strings": byte_level(controls=(), functional=(), words=MARKS, model={"ignore_merges": True}),
    "nfkc": bpe() | {"normalizer": {"type": "NFKC"}},
    "lower": bpe() | {"normalizer": {"type": "Lowercase"}},
    "prefix space": bpe()
    | {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
    "unigram": plain(
        {**UNIGRAM, "vocab": [["<unk>", 0.0], *([one, -2.0] for one in ["\u2581", *LETTERS]), *([one, -1.0] for one in MARKS)]},
        pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
    ),
    "wordpiece": plain(
        {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {name: place for place, name in enumerate(["[UNK]", *LETTERS, *(f"##{one}" for one in LETTERS), *MARKS])},
        },
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        pre_tokenizer=SPLIT,
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": False},
    ),
    "wordlevel": plain(
        {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "Cat": 2, "<|im_end|>": 3}}, pre_tokenizer=SPLIT
    ),
}  # fmt: skip


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path]:
    commit(tmp_path / "set", {"all": [make_example(0, TEXT, relations=[caption(1, 0)]), make_example(TEXT)]})
    return (tmp_path / "set",)


def config(tmp_path: Path, inputs: tuple[Path], **more: Any) -> TokenizeConfig:
    return TokenizeConfig(
        inputs=inputs, output=tmp_path / "out", tokenizer=tmp_path / "tokenizer.json", recipe="vlm",
        settings={"image_size": "28"}, **more,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_its_control_tokens_stand_for_structure_alone(kind: str, inputs: tuple[Path], tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(KINDS[kind]))
    result = run(config(tmp_path, inputs, add_control_tokens=True))
    made = Dataset.open(tmp_path / "out")
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    counts = dict.fromkeys(tokenizer.controls, 0)
    for shard in made.sequence_shards:
        for ids in made.sequence_reader(shard).table(["input_ids"])["input_ids"].to_pylist():
            assert ids[0] == tokenizer.controls["<|im_start|>"]
            for name, place in tokenizer.controls.items():
                counts[name] += ids.count(place)
    expected = {"<|im_start|>": 2, "<|im_end|>": 2, "<|vision_start|>": 1, "<|vision_end|>": 1, "<|image_pad|>": 1}
    assert counts == {**dict.fromkeys(counts, 0), **expected}
    assert sorted(made.recipe["added_control_tokens"]) == ([] if kind == "bpe with controls" else sorted(MARKS))
    assert tokenizer.digest == made.recipe["tokenizer"]
    # What cannot be spelled, or is changed on the way, is counted and not silent.
    keeps = tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert result.counts["changes"].get(TEXTS_CHANGED, 0) == (0 if keeps else 2)
    assert keeps == (kind in {"bpe", "bpe with controls", "bpe of whole strings"})


def test_control_tokens_are_named_where_they_are_missing(inputs: tuple[Path], tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(bpe()))
    with pytest.raises(ConfigError) as caught:
        run(config(tmp_path, inputs))
    assert caught.value.what.startswith("the tokenizer has no control token <|im_start|> (bos), <|im_end|> (eos)")
    assert caught.value.what.endswith("it has none")
    assert "--add-control-tokens" in caught.value.hint


def test_a_vocabulary_of_an_older_release_works(shared: Path, inputs: tuple[Path], tmp_path: Path) -> None:
    file = shared / "data/tokenizers/torchtitan_test/tokenizer.json"
    (tmp_path / "tokenizer.json").write_bytes(file.read_bytes())
    run(config(tmp_path, inputs, add_control_tokens=True))
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    assert set(tokenizer.controls) == set(MARKS)
    assert set(tokenizer.encode(TEXT)).isdisjoint(tokenizer.controls.values())
