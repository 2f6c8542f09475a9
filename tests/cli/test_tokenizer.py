"""shardkit tokenizer, as a user meets it; and what `transformers` makes of its files."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_example
from tests.prepare.tokenize.datasets import commit


@pytest.fixture
def place(tmp_path: Path) -> Path:
    commit(tmp_path / "set", {"all": [make_example(f"the cat sat {k}") for k in range(9)]})
    return tmp_path


def test_training_says_what_it_read_and_what_it_made(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tokenizer", "train", f"{place}/set", "-o", f"{place}/t", "--vocab-size", "295"]
    assert run(command) == 0
    out, err = capsys.readouterr()
    tokenizer = Tokenizer.load(place / "t")
    assert out == f"{place}/t\t{tokenizer.digest}\n"
    assert err.splitlines() == [
        "9 of 9 examples, 117 of 117 bytes of text",
        "295 entries; on this text",
        "  latin        1.44 characters a token  (117 characters, 81 tokens, 9 texts)",
        "  all          1.44 characters a token  (117 characters, 81 tokens, 9 texts)",
    ]
    assert run([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    found = orjson.loads(out)
    assert err.splitlines()[-1] == "unchanged"
    assert found["measured"].pop("by_script") == {
        "latin": {"texts": 9, "characters": 117, "tokens": 81, "characters_per_token": 1.444}
    }
    assert found == {
        "tokenizer": f"{place}/t",
        "digest": tokenizer.digest,
        "unchanged": True,
        "vocab_size": 295,
        "chat_template": True,
        "text": {"examples": 9, "examples_there": 9, "bytes": 117, "bytes_there": 117},
        "measured": {
            "texts": 9, "characters": 117, "tokens": 81, "characters_per_token": 1.444, "changed_texts": 0,
        },
    }  # fmt: skip
    assert run([*command[:-1], "296"]) == 8


def test_a_dry_run_writes_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokenizer", "train", f"{place}/set", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("(dry run)\tnot written\n", "9 of 9 examples, 117 of 117 bytes of text\n")
    assert run(["tokenizer", "train", f"{place}/set"]) == 3
    assert capsys.readouterr().err == "there is no output\nNext: name a folder with -o, or use --dry-run\n"
    assert [file.name for file in place.iterdir()] == ["set"]


def test_a_small_text_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokenizer", "train", f"{place}/set", "-o", f"{place}/t"]) == 0
    assert "the text has no more pairs than for 299 of 6400 entries; name more text" in capsys.readouterr().err


def test_a_report_is_a_table_or_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokenizer", "train", f"{place}/set", "-o", f"{place}/t", "--vocab-size", "295", "--quiet"]) == 0
    capsys.readouterr()
    command = ["tokenizer", "report", f"{place}/t", f"{place}/set", "--against", f"{place}/t/tokenizer.json"]
    assert run(command) == 0
    rates = "  latin        1.44 characters a token  (117 characters, 81 tokens, 9 texts)"
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"{place}/t: 295 entries, 36 of them control tokens", rates]
    assert lines[3].endswith(" of 259 entries for text unused")
    assert lines[5:7] == [f"{place}/t/tokenizer.json: 259 entries for text, 259 shared (100.0% of both)", rates]
    assert run([*command, "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert found["against"]["overlap"] == 1.0
    assert len(found["unused"]) == found["unused_tokens"] == int(lines[3].split()[0])


# --------------------------------------------------------------------------- real text, and transformers
@pytest.fixture(scope="module")
def chat(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("chat")
    source = shared / "data/chat/sft.jsonl"
    assert run(["ingest", "chat", f"{source}", "-o", f"{place}/set", "--quiet", "--workers", "1"]) == 0
    assert run(["tokenizer", "train", f"{place}/set", "-o", f"{place}/t", "--vocab-size", "6400", "--quiet"]) == 0
    return place


def test_chinese_and_english_dialogues_reach_their_rates(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokenizer", "report", f"{chat}/t", f"{chat}/set", "--json"]) == 0
    rates = {
        script: one["characters_per_token"]
        for script, one in orjson.loads(capsys.readouterr().out)["by_script"].items()
    }
    print(f"characters a token: Chinese {rates['han']}, English {rates['latin']}")
    assert 1.45 <= rates["han"] <= 1.75
    assert 3.75 <= rates["latin"] <= 4.05


def test_ids_are_where_they_are_said_to_be(chat: Path) -> None:
    definition = orjson.loads((chat / "t/tokenizer.json").read_bytes())
    assert len(definition["model"]["vocab"]) == 6400
    assert len(definition["model"]["merges"]) == 6108
    tokenizer = Tokenizer.load(chat / "t")
    assert [tokenizer.controls[name] for name in ("<|endoftext|>", "<|im_end|>", "<tool_call>", "</think>", "<|buffer9|>")] == [
        0, 2, 21, 26, 35,
    ]  # fmt: skip


@pytest.mark.parametrize(("recipe", "kept"), [("sft", 320), ("rlaif", 320), ("vlm", 0)])
def test_recipes_find_their_control_tokens_in_it(
    recipe: str, kept: int, chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["tokenize", f"{chat}/set", "-o", f"{tmp_path}/out", "--tokenizer", f"{chat}/t", "--recipe", recipe]
    assert run([*command, "--workers", "1", "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["kept"] == kept
    made = orjson.loads((tmp_path / "out/manifest.json").read_bytes())
    assert made["recipe"]["added_control_tokens"] == []


def _texts(chat: Path, number: int) -> list[str]:
    """Lines of the data, cut anywhere, and random text: plain, odd and hostile."""
    chance = random.Random(6)
    lines = (chat / "set").glob("shards/all/*.arrow")
    data = next(iter(lines)).read_bytes().decode("utf-8", "replace").replace("\x00", "")
    texts = []
    for place in range(number):
        if place % 2:
            start = chance.randrange(len(data))
            texts.append(data[start : start + chance.randrange(200)])
        else:
            points = [
                chance.choice((chance.randrange(0x250), chance.randrange(0xD800), chance.randrange(0xE000, 0x110000)))
                for _ in range(chance.randrange(40))
            ]
            texts.append("".join(map(chr, points)))
    return texts


def test_transformers_reads_the_files_and_encodes_the_same(chat: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(chat / "t")
    ours = Tokenizer.load(chat / "t")
    texts = _texts(chat, 1000)
    assert len(set(texts)) > 900
    assert not any(name in text for text in texts for name in ours.controls)
    for text in texts:
        ids = theirs(text)["input_ids"]
        assert ids == ours.encode(text)
        assert theirs.decode(ids) == text
    assert len(theirs) == 6400
    assert (theirs.pad_token_id, theirs.unk_token_id, theirs.bos_token_id, theirs.eos_token_id) == (0, 0, 1, 2)
    # Theirs finds control tokens in any text, ours in none; as tokens they are the same.
    marked = "<|im_start|>user\nhi<|im_end|>\n<think>\n</think>"
    assert theirs(marked)["input_ids"][0] == 1
    assert min(ours.encode(marked)) >= 36
    assert ours.decode(theirs(marked)["input_ids"]) == marked
    assert theirs.decode([1, 25, 26, 2], skip_special_tokens=True) == "<think></think>"


def test_transformers_renders_the_chat_template(chat: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(chat / "t")
    talk = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "\u4f60\u597d"},
        {"role": "assistant", "content": "a", "reasoning_content": "r", "tool_calls": [{"name": "f", "arguments": {"x": "\u4e2d"}}]},
        {"role": "tool", "content": "1"},
    ]  # fmt: skip
    assert theirs.apply_chat_template(talk, tokenize=False, add_generation_prompt=True, open_thinking=True) == (
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\n\u4f60\u597d<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nr\n</think>\n\na\n"
        '<tool_call>\n{"name": "f", "arguments": {"x": "\u4e2d"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n<think>\n"
    )


def test_the_package_does_not_need_transformers() -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "import shardkit.cli.tokenizer, shardkit.cli.tokenize, shardkit.text.training\n"
        "print([name for name in ('torch', 'transformers') if sys.modules.get(name)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
