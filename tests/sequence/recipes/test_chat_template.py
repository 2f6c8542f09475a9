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

from shardkit.sequence.recipes import RECIPES, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.prepare.ingest.runs import Ingested

Render = Callable[[Mapping[str, Any]], str]


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "data" / "tokenizers" / "minimind"


@pytest.fixture(scope="module")
def render(folder: Path) -> Render:
    """A row of the dump -> the text that its own trainer would tokenize."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    template = environment.from_string(json.loads((folder / "tokenizer_config.json").read_text("utf-8"))["chat_template"])

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


@pytest.mark.parametrize(("name", "rows", "blank", "spaced"), [("sft", 320, 0, 0), ("sft_tool", 135, 79, None)])
def test_ids_are_those_of_the_rendered_text(
    shared: Path, folder: Path, render: Render, tmp_path: Path, name: str, rows: int, blank: int, spaced: int | None
) -> None:
    """The one difference in the text: an empty system text leaves no blank line before the tools."""
    file = shared / "data" / "chat" / f"{name}.jsonl"
    ingested = Ingested(tmp_path / "out", "chat", file).rows
    tokenizer = Tokenizer.load(folder)
    whole = Backend.from_file(str(folder / "tokenizer.json"))
    recipe = bind(configure(RECIPES["sft"], {}), tokenizer.controls)
    counts = dict.fromkeys(("rows", "blank", "other ids"), 0)
    for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
        row = json.loads(line)
        text = render(row)
        if text.startswith("<|im_start|>system\n\n\n# Tools"):
            text = text.replace("\n\n\n# Tools", "\n# Tools", 1)
            counts["blank"] += 1
        (sequence,) = recipe.build(ingested[str(number)], tokenizer, None, 1 << 20, "error").sequences
        ids = sequence.input_ids.tolist()
        assert tokenizer.decode(ids) == text
        if ids != whole.encode(text, add_special_tokens=False).ids:
            counts["other ids"] += 1
            assert any(_spaced(turn) for turn in row["conversations"]), row
        counts["rows"] += 1
    assert counts == {"rows": rows, "blank": blank, "other ids": counts["other ids"]}
    assert counts["other ids"] <= (sum(1 for _ in ()) if spaced == 0 else rows)


def _spaced(turn: Mapping[str, Any]) -> bool:
    """Whether a text of the turn begins or ends with white space, which would merge with the line feeds around it."""
    texts = [turn.get("content") or "", turn.get("reasoning_content") or ""]
    return any(text != text.strip() for text in texts)
