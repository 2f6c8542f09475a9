"""The layout beside the chat template of the tokenizer, rendered in jinja2's sandbox as its users render it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import pytest
from tokenizers import Tokenizer as Backend

from shardkit.records import Example, Segment
from shardkit.sequence.recipes import RECIPES, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.prepare.ingest.runs import Ingested

EMPTY_SYSTEM = "<|im_start|>system\n\n\n# Tools"
Render = Callable[[Mapping[str, Any]], str]


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "data" / "tokenizers" / "minimind"


@pytest.fixture(scope="module")
def render(folder: Path) -> Render:
    """A row of the dump -> the text that its own trainer would tokenize."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    template = environment.from_string(
        json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["chat_template"]
    )

    def rendered(row: Mapping[str, Any]) -> str:
        messages = [{**turn} for turn in row["conversations"]]
        tools = None
        for turn in messages:
            if turn["role"] == "system" and turn.get("tools"):
                tools = json.loads(turn["tools"])
            if turn.get("tool_calls"):
                turn["tool_calls"] = json.loads(turn["tool_calls"])
        return template.render(messages=messages, tools=tools, add_generation_prompt=False)

    return rendered


@pytest.mark.parametrize(("name", "rows", "blank", "marked"), [("sft", 320, 0, []), ("sft_tool", 135, 79, [126, 127])])
def test_a_real_dialogue_is_the_rendered_text_and_its_ids(
    shared: Path, folder: Path, render: Render, tmp_path: Path, name: str, rows: int, blank: int, marked: list[int]
) -> None:
    """`blank` rows lack the blank line of an empty system text before the tools; `marked` ones have `</think>` as text."""
    file = shared / "data" / "chat" / f"{name}.jsonl"
    examples = Ingested(tmp_path / "out", "chat", file).rows
    tokenizer = Tokenizer.load(folder)
    whole = Backend.from_file(str(folder / "tokenizer.json"))
    recipe = bind(configure(RECIPES["sft"], {}), tokenizer.controls)
    num_blank = 0
    other_ids = []
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        text = render(json.loads(line))
        if text.startswith(EMPTY_SYSTEM):
            text = text.replace(EMPTY_SYSTEM, "<|im_start|>system\n# Tools", 1)
            num_blank += 1
        (sequence,) = recipe.build(examples[str(number)], tokenizer, None, 1 << 20, "error").sequences
        ids = sequence.input_ids.tolist()
        assert tokenizer.decode(ids) == text
        if ids != whole.encode(text, add_special_tokens=False).ids:
            other_ids.append(number)
    assert (len(examples), num_blank, other_ids) == (rows, blank, marked)


@pytest.mark.parametrize(
    ("content", "same"),
    [("yo", True), (" yo", True), ("    if x:", False), ("\tx", True), ("yo  ", True), ("a\n\n", True)],
)
def test_ids_differ_from_those_of_the_whole_text_only_where_an_answer_begins_with_white_space(
    folder: Path, content: str, same: bool
) -> None:
    """White space behind the header's line feed would merge with it; the header then has no ids of its own."""
    tokenizer = Tokenizer.load(folder)
    whole = Backend.from_file(str(folder / "tokenizer.json"))
    recipe = bind(configure(RECIPES["sft"], {"empty_think": False}), tokenizer.controls)
    segments = tuple(
        Segment(kind="text", role=role, text=text) for role, text in (("user", "q"), ("assistant", content))
    )
    (sequence,) = recipe.build(Example(source="s", segments=segments), tokenizer, None, 1000, "error").sequences
    ids = sequence.input_ids.tolist()
    assert (ids == whole.encode(tokenizer.decode(ids), add_special_tokens=False).ids) is same
