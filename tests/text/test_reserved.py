"""Which control tokens a tokenizer begins with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.text.reserved import Reserved, read_reserved
from shardkit.text.tokenizer import Tokenizer


def test_there_are_36_and_they_are_those_of_minimind(sample: Path) -> None:
    reserved = Reserved()
    minimind = Tokenizer.load(sample / "tokenizer")
    assert (len(reserved.special), len(reserved.functional), len(reserved.buffers)) == (21, 6, 9)
    assert list(reserved.names) == sorted(minimind.controls, key=minimind.controls.__getitem__)
    assert [reserved.names.index(reserved.roles[role]) for role in ("pad", "unk", "bos", "eos")] == [0, 0, 1, 2]


def test_a_file_of_either_kind_names_others(tmp_path: Path) -> None:
    body = {"special": ["<pad>", "<eos>"], "functional": ["<think>"], "buffers": 2, "pad": "<pad>", "eos": "<eos>"}
    (tmp_path / "a.json").write_text(json.dumps(body))
    (tmp_path / "a.toml").write_text(
        'special = ["<pad>", "<eos>"]\nfunctional = ["<think>"]\nbuffers = 2\npad = "<pad>"\neos = "<eos>"\n'
    )
    found = read_reserved(tmp_path / "a.toml")
    assert found == read_reserved(tmp_path / "a.json")
    assert found.names == ("<pad>", "<eos>", "<think>", "<|buffer1|>", "<|buffer2|>")
    assert found.to_json() == {**body, "buffers": ["<|buffer1|>", "<|buffer2|>"]}
    (tmp_path / "b.json").write_text(json.dumps(found.to_json()))
    assert read_reserved(tmp_path / "b.json") == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("special = 3", "special is no list of names"),
        ("buffers = -1", "buffers is no list of names"),
        ('specials = ["a"]', "there is no setting 'specials' here; there are special, functional, buffers, pad, unk, bos, eos"),
        ('special = ["a", "a"]', "the control token 'a' comes twice"),
        ('special = ["a"]\nfunctional = ["a"]', "the control token 'a' comes twice"),
        ('special = [""]', "the control token '' is empty or cannot be printed"),
        ('special = ["a"]\neos = "b"', "eos = 'b' is none of the control tokens"),
        ('special = ["a"]\neos = 1', "a role is no name of a control token"),
        ("special =", "the file of control tokens is no TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_reserved(tmp_path / "a.toml")
    assert caught.value.what.startswith(says)
    assert caught.value.where == str(tmp_path / "a.toml")
    assert caught.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"a\.toml: the file of control tokens cannot be read \(No such file or directory\)"
    ):
        read_reserved(tmp_path / "a.toml")
