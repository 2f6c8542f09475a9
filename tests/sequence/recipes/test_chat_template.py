"""The layout beside chat templates: the project's own, and that of the tokenizer as its users render it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from shardkit.records import Example, Segment
from shardkit.sequence.recipes import RECIPES, bind, configure
from shardkit.sequence.recipes.dialogue import read_dialogue
from shardkit.text.template import ChatTemplate, chatml
from shardkit.text.tokenizer import Tokenizer
from tests.prepare.ingest.runs import Ingested
from tests.sequence.recipes.talks import TOKENIZER, build, shown, talk

EMPTY_SYSTEM = "<|im_start|>system\n\n\n# Tools"


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "data" / "tokenizers" / "minimind"


def raw(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("name", "rows", "blank", "marked"), [("sft", 320, 0, []), ("sft_tool", 135, 79, [126, 127])])
def test_a_real_dialogue_is_the_rendered_text_and_its_ids(
    shared: Path, folder: Path, tmp_path: Path, name: str, rows: int, blank: int, marked: list[int]
) -> None:
    """`blank` rows lack the blank line of an empty system text before the tools; `marked` ones have `</think>` as text."""
    file = shared / "data" / "chat" / f"{name}.jsonl"
    examples = Ingested(tmp_path / "out", "chat", file).rows
    tokenizer = Tokenizer.load(folder)
    whole = Backend.from_file(str(folder / "tokenizer.json"))
    theirs = ChatTemplate.load(folder)
    recipe = bind(configure(RECIPES["sft"], {}), tokenizer.controls)
    num_blank = 0
    other_ids = []
    for number, row in enumerate(raw(file), 1):
        text = chatml().render(row["conversations"])
        rendered = theirs.render(row["conversations"])
        if rendered != text:
            assert rendered.startswith(EMPTY_SYSTEM)
            assert rendered.replace(EMPTY_SYSTEM, "<|im_start|>system\n# Tools", 1) == text
            num_blank += 1
        (sequence,) = recipe.build(examples[str(number)], tokenizer, None, 1 << 20, "error").sequences
        ids = sequence.input_ids.tolist()
        assert tokenizer.decode(ids) == text
        if ids != whole.encode(text, add_special_tokens=False).ids:
            other_ids.append(number)
    assert (len(examples), num_blank, other_ids) == (rows, blank, marked)


def test_a_real_pair_is_the_rendered_text_of_both_sides(shared: Path, tmp_path: Path) -> None:
    file = shared / "data" / "chat" / "dpo.jsonl"
    examples = Ingested(tmp_path / "out", "chat", file).rows
    for number, row in enumerate(raw(file), 1):
        (sequence,) = build("dpo", examples[str(number)], max_tokens=1 << 20).sequences
        assert [text for text, _ in shown(sequence)] == [chatml().render(row[side]) for side in ("chosen", "rejected")]
    assert len(examples) == 100


words = st.sampled_from(["a", " ", "\n", "<think>", "</think>", "<|im_end|>", "\u4e00", '"', "\\", "<"])
texts = st.lists(words, max_size=6).map("".join)
values = st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | texts, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2), max_leaves=4)  # fmt: skip
calls = st.fixed_dictionaries({"name": texts, "arguments": texts | st.dictionaries(texts, values, max_size=2)})
answers = st.tuples(texts, texts, st.lists(calls | st.fixed_dictionaries({"function": calls}), max_size=2))


@given(st.lists(values, max_size=2), st.none() | texts, st.lists(st.tuples(texts, answers, st.lists(texts, max_size=2)), min_size=1, max_size=3))  # fmt: skip
def test_any_dialogue_is_laid_out_as_the_template_renders_it(tools: list[Any], system: str | None, talks: Any) -> None:
    turns: list[Any] = []
    if tools:
        turns.append(("system", json.dumps(tools), "tools"))
    if system is not None:
        turns.append(("system", system))
    for asked, (reasoning, content, calls_made), results in talks:
        turns += [("user", asked), ("assistant", reasoning, "reasoning_content"), ("assistant", content)]
        turns += [("assistant", json.dumps(calls_made), "tool_calls"), *(("tool", result) for result in results)]
    example = talk(*turns, ("user", "q"), ("assistant", "end"))
    (sequence,) = build("sft", example, overlong="error", max_tokens=1 << 16).sequences
    dialogue = read_dialogue(example.segments)
    messages = [{"reasoning_content": "", **message} if message["role"] == "assistant" else message for message in dialogue.messages()]  # fmt: skip
    assert shown(sequence)[0][0] == chatml().render(messages, tools=list(dialogue.tools))


@pytest.mark.parametrize(
    ("content", "same"),
    [("yo", True), (" yo", True), ("    if x:", False), ("\tx", True), ("yo  ", True), ("a\n\n", True)],
)
def test_ids_differ_from_those_of_the_whole_text_only_where_an_answer_begins_with_white_space(
    folder: Path, content: str, same: bool
) -> None:
    """White space behind the header's line feed would merge with it; the header then has no ids of its own."""
    whole = Backend.from_file(str(folder / "tokenizer.json"))
    recipe = bind(configure(RECIPES["sft"], {"empty_think": False}), TOKENIZER.controls)
    segments = tuple(
        Segment(kind="text", role=role, text=text) for role, text in (("user", "q"), ("assistant", content))
    )
    (sequence,) = recipe.build(Example(source="s", segments=segments), TOKENIZER, None, 1000, "error").sequences
    ids = sequence.input_ids.tolist()
    assert (ids == whole.encode(TOKENIZER.decode(ids), add_special_tokens=False).ids) is same
