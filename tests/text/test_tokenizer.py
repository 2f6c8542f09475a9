"""Data never speaks in control tokens, and comes back as it was."""

from __future__ import annotations

import pickle
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardkit.errors import ConfigError
from shardkit.text.tokenizer import Tokenizer
from tests.tokenizer_builders import MINIMIND, byte_level, spelled

SMALL = Tokenizer(byte_level(merges=[("h", "i"), ("\u0120", "hi")]))


def write(folder: Path, definition: object, name: str = "tokenizer.json") -> Path:
    (folder / name).write_bytes(orjson.dumps(definition))
    return folder / name


def test_ids_are_those_of_the_file() -> None:
    assert SMALL.controls == {**{name: place for place, name in enumerate(MINIMIND)}, "<think>": 6, "</think>": 7}
    assert SMALL.encode("hi hi") == [264, 265]
    assert SMALL.encode("") == []
    assert SMALL.encode_batch(["hi", "", " hi"]) == [[264], [], [265]]
    assert SMALL.decode([1, 264, 265, 2]) == "<|im_start|>hi hi<|im_end|>"
    assert (SMALL.vocab_size, SMALL.token_id("<think>"), SMALL.token_id("hi")) == (266, 6, None)


@given(st.text())
def test_a_text_comes_back(text: str) -> None:
    ids = SMALL.encode(text)
    assert SMALL.decode(ids) == text
    assert SMALL.keeps(text, ids)
    assert SMALL.encode_batch([text]) == [ids]


CONTROLS_AS_TEXT = st.lists(st.sampled_from([*SMALL.controls, " ", "a", "\n", "<", "|>"])).map("".join)


@given(CONTROLS_AS_TEXT)
def test_control_strings_in_data_stay_text(text: str) -> None:
    ids = SMALL.encode(text)
    assert set(ids).isdisjoint(SMALL.controls.values())
    assert SMALL.decode(ids) == text


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_a_model_that_can_spell_a_control_token_does_not(ignore_merges: bool) -> None:
    # The vocabulary has the merges up to <think> and one on from it; with ignore_merges it looks whole words up too.
    merges = [*spelled("<think>"), ("<think>", "x")]
    definition = byte_level(merges=merges, model={"ignore_merges": ignore_merges})
    definition["pre_tokenizer"]["use_regex"] = False
    tokenizer = Tokenizer(definition)
    for text in ("<think>", "a<think>b", "<think>x", "<think><think>x"):
        ids = tokenizer.encode(text)
        assert tokenizer.controls["<think>"] not in ids
        assert tokenizer.decode(ids) == text
    # Not vacuous: the shorter pieces are still merged, and without the added token the model does spell it.
    assert len(tokenizer.encode("<think>")) == 2
    definition["added_tokens"] = definition["added_tokens"][:-2]
    assert Tokenizer(definition).encode("<think>") == [6]


def test_a_control_id_from_data_is_an_error_wherever_it_comes_from() -> None:
    tokenizer = Tokenizer(byte_level(), where="here/tokenizer.json")
    tokenizer._data = tokenizer._full
    message = "here/tokenizer.json: data text was encoded to the control token '<|im_end|>'"
    with pytest.raises(ConfigError, match=f"^{message}$".replace("|", r"\|")):
        tokenizer.encode("a<|im_end|>b")
    with pytest.raises(ConfigError):
        tokenizer.encode_batch(["a", "<think>"])


@pytest.mark.parametrize(
    ("kind", "vocab", "more"),
    [
        ("WordLevel", {"<s>": 0, "<unk>": 1, "a": 2, "b": 3}, {"unk_token": "<unk>"}),
        ("Unigram", [["<s>", 0.0], ["<unk>", 0.0], ["a", -1.0], ["b", -1.0]], {"unk_id": 1}),
    ],
)
def test_models_without_an_alphabet_say_unknown_and_nothing_else(kind: str, vocab: object, more: dict) -> None:
    definition = byte_level(controls=("<s>", "<unk>"), functional=())
    definition |= {
        "model": {"type": kind, "vocab": vocab, **more},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "decoder": None,
    }
    for place, token in enumerate(definition["added_tokens"]):
        token["id"] = place
    tokenizer = Tokenizer(definition)
    assert tokenizer.encode("a b") == [2, 3]
    assert set(tokenizer.encode("<s>")) == {1}
    assert not tokenizer.lossless


@pytest.mark.parametrize(
    ("kind", "vocab"), [("Unigram", [["a", -1.0], ["b", -1.0]]), ("WordLevel", {"a": 0}), ("WordPiece", {"a": 0})]
)
def test_a_text_that_cannot_be_spelled_without_an_unknown_token_is_an_error(kind: str, vocab: object) -> None:
    model: dict[str, object] = {"type": kind, "vocab": vocab}
    if kind != "Unigram":
        model |= {"unk_token": "<none>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    definition = byte_level(controls=(), functional=()) | {"model": model, "pre_tokenizer": None, "decoder": None}
    tokenizer = Tokenizer(definition, where="t.json")
    assert tokenizer.encode("a") == [0]
    for encode in (tokenizer.encode, lambda text: tokenizer.encode_batch(["a", text])):
        with pytest.raises(ConfigError, match="the tokenizer cannot encode a text") as caught:
            encode("z")
        assert (caught.value.where, caught.value.hint) == ("t.json", "use another tokenizer with --tokenizer")


def test_dropout_is_off() -> None:
    tokenizer = Tokenizer(byte_level(merges=[("h", "i")], model={"dropout": 0.9}))
    assert {tuple(tokenizer.encode("hihihihihi")) for _ in range(20)} == {(264,) * 5}


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}},
        {"pre_tokenizer": {"type": "WhitespaceSplit"}},
        {"decoder": None},
    ],
)
def test_only_whole_byte_level_bpe_is_lossless(change: dict) -> None:
    assert SMALL.lossless
    assert not Tokenizer(byte_level() | change).lossless


def test_a_vocabulary_with_gaps_is_found_out() -> None:
    definition = byte_level()
    del definition["model"]["vocab"]["z"]
    tokenizer = Tokenizer(definition)
    assert not tokenizer.lossless
    assert tokenizer.keeps("abc", tokenizer.encode("abc"))
    assert not tokenizer.keeps("xyz", tokenizer.encode("xyz"))


def test_added_controls_get_the_next_ids_in_order() -> None:
    more = SMALL.with_controls(["<b>", "<|im_end|>", "<a>", "<b>"])
    assert (more.token_id("<b>"), more.token_id("<|im_end|>"), more.token_id("<a>")) == (266, 2, 267)
    assert more.vocab_size == 268
    assert more.encode("<b>hi") == SMALL.encode("<b>hi")
    assert more.decode([266, 264]) == "<b>hi"
    assert more.digest != SMALL.digest
    assert SMALL.with_controls(["<think>"]) is SMALL


def test_a_control_that_the_vocabulary_knows_keeps_its_id() -> None:
    tokenizer = Tokenizer(byte_level(functional=(), words=("<eos>",)))
    assert tokenizer.token_id("<eos>") is None
    more = tokenizer.with_controls(["<eos>", "<new>"])
    assert (more.token_id("<eos>"), more.token_id("<new>")) == (262, 263)
    assert 262 not in more.encode("<eos>")


def test_files_read_back_to_the_same_tokenizer(tmp_path: Path) -> None:
    write(tmp_path, byte_level())
    write(tmp_path, {"chat_template": "{{ x }}"}, "tokenizer_config.json")
    more = Tokenizer.load(tmp_path).with_controls(["<new>"])
    (tmp_path / "copy").mkdir()
    for name, data in more.files().items():
        (tmp_path / "copy" / name).write_bytes(data)
    again = Tokenizer.load(tmp_path / "copy")
    assert (again.digest, dict(again.controls), again.files()) == (more.digest, dict(more.controls), more.files())
    assert orjson.loads(again.files()["tokenizer_config.json"]) == {"chat_template": "{{ x }}"}


def test_the_digest_is_of_content_not_of_layout(tmp_path: Path) -> None:
    definition = byte_level()
    padded = {**definition, "padding": {"strategy": "BatchLongest"}, "truncation": {"max_length": 4}}
    file = write(tmp_path, definition)
    digest = Tokenizer.load(file).digest
    file.write_bytes(orjson.dumps(dict(reversed(padded.items())), option=orjson.OPT_INDENT_2))
    assert Tokenizer.load(file).digest == digest
    definition["model"]["vocab"]["more"] = 264
    write(tmp_path, definition)
    assert Tokenizer.load(file).digest != digest


def test_it_travels_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(SMALL))
    assert again.encode("hi <think>") == SMALL.encode("hi <think>")
    assert again.digest == SMALL.digest


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[", "unexpected end of data"),
        (b"[]", "it names no model type"),
        (b'{"model": {}}', "it names no model type"),
        (b'{"model": true}', "it names no model type"),
        (b'{"model": {"type": "BPE", "vocab": {}, "merges": [["a", "b"]]}}', "out of vocabulary"),
    ],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ConfigError, match=says) as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.where == str(tmp_path / "tokenizer.json")
    assert caught.value.hint.startswith("give a tokenizer.json")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.where == str(tmp_path / "tokenizer.json")


def test_an_added_token_with_a_foreign_id_is_refused() -> None:
    definition = byte_level()
    definition["added_tokens"][0]["id"] = 3
    with pytest.raises(ConfigError, match="given id 3, but its text has id 0"):
        Tokenizer(definition)


@pytest.fixture(scope="module")
def minimind(sample: Path) -> Tokenizer:
    return Tokenizer.load(sample / "tokenizer")


@pytest.fixture(scope="module")
def torchtitan(shared: Path) -> Tokenizer:
    return Tokenizer.load(shared / "data/tokenizers/torchtitan_test")


def test_minimind_has_its_36_controls_at_fixed_ids(minimind: Tokenizer) -> None:
    assert sorted(minimind.controls.values()) == list(range(36))
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
    assert [minimind.controls[name] for name in names] == [0, 1, 2, 9, 10, 12]
    assert minimind.controls["<think>"] == 25
    assert (minimind.vocab_size, minimind.lossless) == (6400, True)
    assert minimind.encode("assistant\n") == [1388, 570, 811, 234]


def test_minimind_spells_out_all_its_controls(minimind: Tokenizer) -> None:
    text = "".join(f"a{name} {name}{name}\n" for name in minimind.controls)
    ids = minimind.encode(text)
    assert min(ids) >= 36
    assert minimind.decode(ids) == text


@settings(max_examples=200)
@given(text=st.text())
def test_minimind_keeps_every_text(minimind: Tokenizer, text: str) -> None:
    assert minimind.decode(minimind.encode(text)) == text


def test_torchtitan_has_no_control_token_until_one_is_declared(torchtitan: Tokenizer) -> None:
    assert (dict(torchtitan.controls), torchtitan.vocab_size, torchtitan.lossless) == ({}, 2020, False)
    more = torchtitan.with_controls(["<|im_end|>", "<image_patch>"])
    assert dict(more.controls) == {"<|im_end|>": 2010, "<image_patch>": 2020}
    ids = more.encode("a<|im_end|><image_patch>b")
    assert set(ids).isdisjoint({2010, 2020})
    assert more.decode(ids) == "a<|im_end|><image_patch>b"


def test_torchtitan_loses_spaces_and_says_so(torchtitan: Tokenizer) -> None:
    ids = torchtitan.encode("a b")
    assert torchtitan.decode(ids) == "ab"
    assert not torchtitan.keeps("a b", ids)
