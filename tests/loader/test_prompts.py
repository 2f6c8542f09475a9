"""Prompts for a sampler outside: each once an epoch, from any place on, for any number of samplers."""

import json
import sys

import pytest

from shardkit.cli import run
from shardkit.errors import ConfigError
from shardkit.loader.prompts import prompts
from tests.loader.conftest import TOKENIZER, shardkit

NUMBER = 23


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """23 prompts of the recipe rlaif."""
    folder = tmp_path_factory.mktemp("prompts")
    rows = [
        {"conversations": [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": "a"}]}
        for n in range(NUMBER)
    ]
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    shardkit("ingest", "chat", folder / "rows.jsonl", "-o", folder / "chat", "--workers", 1, "--quiet")
    options = ["--tokenizer", TOKENIZER, "--recipe", "rlaif", "--add-control-tokens", "--workers", 1, "--quiet"]
    shardkit("tokenize", folder / "chat", "-o", folder / "tokens", *options)
    return folder / "tokens"


def places(found):
    return [(prompt["epoch"], prompt["step"], prompt["example_id"]) for prompt in found]


def test_every_prompt_comes_once_an_epoch_in_an_order_of_its_own(asked):
    found = list(prompts(asked, epochs=2))
    first, second = ([p["example_id"] for p in found if p["epoch"] == epoch] for epoch in (0, 1))
    assert len(first) == len(set(first)) == NUMBER
    assert sorted(first) == sorted(second)
    assert first != second
    assert {prompt["messages"][-1]["content"] for prompt in found} == {f"q{n}" for n in range(NUMBER)}
    assert all(prompt["text"].endswith("</think>\n\n") or "<think>" in prompt["text"] for prompt in found)
    assert all(prompt["input_ids"] for prompt in found)


@pytest.mark.parametrize("cut", [0, 1, 7, NUMBER - 1, NUMBER, NUMBER + 5, 2 * NUMBER - 1])
def test_it_goes_on_behind_any_place(asked, cut):
    whole = places(prompts(asked, epochs=2))
    done = whole[:cut]
    after = None if not done else done[-1][:2]
    assert done + places(prompts(asked, epochs=2, after=after)) == whole


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_samplers_share_the_order_of_one(asked, world):
    whole = places(prompts(asked, epochs=2))
    parts = [places(prompts(asked, epochs=2, rank=rank, world_size=world)) for rank in range(world)]
    assert sorted(place for part in parts for place in part) == sorted(whole)
    assert all(step % world == rank for rank, part in enumerate(parts) for _, step, _ in part)


def test_the_command_writes_a_line_a_prompt(asked, capsys):
    assert run(["rollout-prompts", str(asked), "--limit", "5", "--after", "0/3"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["step"] for line in lines] == [4, 5, 6, 7, 8]


def test_each_line_is_handed_on_before_the_next_is_made(asked, capsys, monkeypatch):
    """So that a sampler need not wait, and a kill tears one line at most."""
    seen = []
    made = prompts

    def watched(*arguments, **options):
        for prompt in made(*arguments, **options):
            seen.append(capsys.readouterr().out)
            yield prompt

    monkeypatch.setattr("shardkit.loader.prompts.prompts", watched)
    assert run(["rollout-prompts", str(asked), "--limit", "3"]) == 0
    assert [text.count("\n") for text in seen[:3]] == [0, 1, 1]


def test_where_nothing_is_left_that_is_said(asked, capsys):
    assert run(["rollout-prompts", str(asked), "--after", f"0/{NUMBER - 1}"]) == 0
    assert capsys.readouterr() == ("", f"{asked}: no prompt is left behind 0/{NUMBER - 1} for this sampler\n")
    assert run(["rollout-prompts", str(asked), "--rank", "30", "--world", "31", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_full_disk_is_named(asked, capsys, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["rollout-prompts", str(asked)]) == 8
    assert "stdout: no space is left" in capsys.readouterr().err


def test_what_cannot_be_is_named(asked, tokens, capsys):
    assert run(["rollout-prompts", str(tokens)]) == 3
    assert "holds no prompts" in capsys.readouterr().err
    for place in ("3", "0/" + "9" * 5000):
        assert run(["rollout-prompts", str(asked), "--after", place]) == 3
        assert "EPOCH/STEP" in capsys.readouterr().err
    assert run(["rollout-prompts", str(asked), "--after", f"0/{NUMBER}"]) == 3
    error = capsys.readouterr().err
    assert f"has {NUMBER} prompts, place 0/{NUMBER} is behind them" in error
    assert f"0/0 to 0/{NUMBER - 1}" in error
    with pytest.raises(ConfigError, match="rank 2 is not one of 2"):
        list(prompts(asked, rank=2, world_size=2))
