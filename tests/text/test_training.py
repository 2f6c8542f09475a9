"""A tokenizer learnt from texts: fixed ids first, then bytes, then merges."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import ByteLevel

from shardkit.errors import ConfigError
from shardkit.text.reserved import FUNCTIONAL, SPECIAL, Reserved, buffer_names
from shardkit.text.template import chatml
from shardkit.text.tokenizer import Tokenizer
from shardkit.text.training import PATTERNS, TEMPLATE_MARKS, tokenizer_config, train

TEXTS = ["the cat sat on the mat", "the hat", "\u4eca\u5929\u5929\u6c14", "a <think> b </think>", "12 12 120"] * 3
SMALL = Tokenizer(train([TEXTS], vocab_size=315, reserved=Reserved(), pattern="qwen2"))


def test_ids_are_controls_then_bytes_then_merges() -> None:
    definition = train([TEXTS], vocab_size=315, reserved=Reserved(), pattern="qwen2")
    by_id = sorted(definition["model"]["vocab"], key=definition["model"]["vocab"].__getitem__)
    assert tuple(by_id[:36]) == (*SPECIAL, *FUNCTIONAL, *buffer_names(9))
    assert by_id[36:292] == sorted(ByteLevel.alphabet())
    assert by_id[292] == "th"
    assert len(by_id) == len(definition["model"]["vocab"]) == 315
    assert len(definition["model"]["merges"]) == 315 - 292
    assert [token["special"] for token in definition["added_tokens"]] == [True] * 21 + [False] * 15
    assert [token["id"] for token in definition["added_tokens"]] == list(range(36))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_order_and_batches_do_not_matter(pattern: str) -> None:
    make = [
        train(batches, vocab_size=320, reserved=Reserved(), pattern=pattern)
        for batches in ([TEXTS], [TEXTS[::-1]], [[text] for text in TEXTS], [TEXTS[7:], [], TEXTS[:7]])
    ]
    assert all(one == make[0] for one in make)
    assert Tokenizer(make[0]).lossless


@given(st.text())
def test_every_text_comes_back(text: str) -> None:
    ids = SMALL.encode(text)
    assert SMALL.decode(ids) == text
    assert min(ids, default=36) >= 36


@given(st.binary())
def test_random_bytes_come_back(data: bytes) -> None:
    text = data.decode("latin-1")
    assert SMALL.decode(SMALL.encode(text)) == text


def test_each_byte_has_a_token_of_its_own() -> None:
    empty = Tokenizer(train([["a"]], vocab_size=292, reserved=Reserved(), pattern="gpt2"))
    assert {token for point in range(0x800) for token in empty.encode(chr(point))} <= set(range(36, 292))
    assert len(empty.encode("\U0010ffff")) == 4


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", ["<think>", "think", "<|im_end|>", "at", "the", " cat"])
def test_what_the_text_teaches_never_makes_a_control_token(name: str, pattern: str) -> None:
    reserved = Reserved(special=(name,), functional=(), buffers=(), roles={})
    definition = train([[f"the {name} {name}{name} the cat"] * 50], vocab_size=300, reserved=reserved, pattern=pattern)
    tokenizer = Tokenizer(definition)
    for text in (name, f"x{name}y", f" {name} {name}", f"the {name} cat"):
        ids = tokenizer.encode(text)
        assert 0 not in ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.lossless


def test_texts_may_run_out_of_pairs() -> None:
    tokenizer = Tokenizer(train([["ab"]], vocab_size=400, reserved=Reserved(), pattern="qwen2"))
    assert tokenizer.vocab_size == 293
    assert tokenizer.encode("ab") == [292]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"vocab_size": 291}, "--vocab-size 291 is below 292: 36 control tokens and 256 bytes"),
        ({"pattern": "words"}, "there is no pattern 'words'"),
        (
            {"reserved": Reserved(special=("<s>", "a"), functional=(), buffers=(), roles={})},
            "the control token 'a' is the letter of a byte; no text with that byte could be spelled",
        ),
        (
            {"reserved": Reserved(special=("\u0120",), functional=(), buffers=(), roles={})},
            "the control token '\u0120' is the letter of a byte; no text with that byte could be spelled",
        ),
    ],
)
def test_impossible_settings(settings: dict, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        train([["a"]], **{"vocab_size": 400, "reserved": Reserved(), "pattern": "qwen2", **settings})
    assert caught.value.what == says


def test_digits_are_tokens_of_their_own_with_qwen2() -> None:
    texts = [["2024 2024 2024 12 12"] * 9]
    for pattern, joined in (("qwen2", False), ("gpt2", True)):
        tokenizer = Tokenizer(train(texts, vocab_size=310, reserved=Reserved(), pattern=pattern))
        assert ("2024" in tokenizer.entries) == joined


def test_the_config_names_roles_and_kinds() -> None:
    config = orjson.loads(tokenizer_config(Reserved(), "{{ x }}"))
    assert [config[f"{role}_token"] for role in ("pad", "unk", "bos", "eos")] == [
        "<|endoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>",
    ]  # fmt: skip
    assert config["chat_template"] == "{{ x }}"
    assert sum(token["special"] for token in config["added_tokens_decoder"].values()) == 21
    assert "chat_template" not in orjson.loads(tokenizer_config(Reserved(), None))


def test_the_template_of_the_package_writes_marks_that_are_reserved() -> None:
    source = chatml().source
    assert all(mark in source for mark in TEMPLATE_MARKS)
    assert {name for name in Reserved().names if name in source} == set(TEMPLATE_MARKS)
