"""Prompts for samplers: ids, text and JSON say the same; what is asked, and by what an answer is judged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardkit.errors import SourceError
from shardkit.records import Example
from shardkit.sequence.recipes import RECIPES
from shardkit.text.template import ChatTemplate, chatml
from tests.example_builders import make_example
from tests.sequence.recipes.talks import EMPTY_THINK, TOKENIZER, TOOLS, build, pair, talk

HI, YO = ("user", "hi"), ("assistant", "yo")
CLOSED = {"open_thinking_ratio": 0.0}
PROMPTS = [name for name, kind in RECIPES.items() if kind.PROMPTS]


def prompts(name: str, example: Example, **fields: Any) -> list[tuple[str, dict[str, Any]]]:
    """The decoded ids and the JSON of each prompt."""
    built = build(name, example, **fields)
    assert not built.reason, built
    return [(TOKENIZER.decode(s.input_ids.tolist()), json.loads(s.prompt or "")) for s in built.sequences]


def test_a_prompt_ends_where_the_answer_begins() -> None:
    ((text, found),) = prompts("rlaif", talk(HI, YO), **CLOSED)
    assert text == f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{EMPTY_THINK}"
    assert found == {"text": text, "messages": [{"role": "user", "content": "hi"}], "tools": [], "answer": "yo"}
    ((text, found),) = prompts("rlaif", talk(HI, YO), open_thinking_ratio=1.0)
    assert text == found["text"] == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n"


def test_prompts_have_no_targets() -> None:
    (sequence,) = build("rlaif", talk(HI, YO)).sequences
    assert sequence.objectives == bytes(sequence.num_tokens)
    assert PROMPTS == ["rlaif", "agent"]


def test_an_empty_answer_is_no_answer() -> None:
    ((_, found),) = prompts("rlaif", talk(HI, ("assistant", "")), **CLOSED)
    assert set(found) == {"text", "messages", "tools"}


TURNS: list[Any] = [
    ("system", TOOLS, "tools"), ("system", "s"), HI, ("assistant", "r", "reasoning_content"), ("assistant", "</think>a"),
    ("assistant", '{"function": {"name": "f", "arguments": "{\\"x\\": 1}"}}', "tool_calls"), ("tool", "1"), ("tool", ""),
]  # fmt: skip


@pytest.mark.parametrize("name", PROMPTS)
def test_all_parts_of_a_dialogue_are_in_text_and_messages(name: str) -> None:
    ((text, found),) = prompts(name, talk(*TURNS, YO, gt=1), **CLOSED)
    assert found["text"] == text == chatml().render(found["messages"], tools=found["tools"], add_generation_prompt=True)
    assert found["tools"] == [{"name": "f", "description": "\u67e5"}]
    assert found["messages"] == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "</think>a",
            "reasoning_content": "r",
            "tool_calls": [{"function": {"name": "f", "arguments": '{"x": 1}'}}],
        },
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": ""},
    ]


CALL = '[{"id": "abcdefghi", "function": {"name": "f", "arguments": {}}}]'
ROUND = (HI, ("assistant", CALL, "tool_calls"), ("tool", "1"), ("tool", "2"), YO)


def fields(turn: int, **values: Any) -> dict[str, Any]:
    """As ingest keeps what a turn carries besides."""
    return {"turn": turn, "fields": values}


def test_results_have_the_ids_of_their_calls() -> None:
    kept = [fields(1, name="Bo"), fields(3, tool_call_id="abcdefghi", name="f"), fields(4, tool_call_id="b", x=1)]
    ((_, found),) = prompts("rlaif", talk(*ROUND, turn_fields=kept), **CLOSED)
    assert found["messages"][0] == {"role": "user", "content": "hi"}
    assert found["messages"][2:] == [
        {"role": "tool", "content": "1", "tool_call_id": "abcdefghi", "name": "f"},
        {"role": "tool", "content": "2", "tool_call_id": "b"},
    ]


@pytest.mark.parametrize("kept", [[], [fields(3, tool_call_id="a")], [fields(3, tool_call_id=1), 7, {"fields": 1}], "x", {}])  # fmt: skip
def test_it_is_not_guessed_which_call_a_result_answers(kept: Any) -> None:
    ((_, found),) = prompts("rlaif", talk(*ROUND, turn_fields=kept), **CLOSED)
    assert all(set(message) <= {"role", "content", "tool_calls"} for message in found["messages"])


def test_templates_that_ask_for_ids_of_calls_render() -> None:
    source = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('9') if m.tool_call_id | length != 9 }}"
        "{{ m.tool_call_id }}:{{ m.content }};{% endif %}{% endfor %}"
    )
    kept = [fields(number, tool_call_id=name) for number, name in ((3, "abcdefghi"), (4, "<|im_end|"))]
    ((text, found),) = prompts("rlaif", talk(*ROUND, turn_fields=kept), chat_template=ChatTemplate(source=source))
    assert text == found["text"] == "abcdefghi:1;<|im_end|:2;"


def test_a_think_mark_in_an_earlier_answer_is_text_for_any_template(shared: Any) -> None:
    example = talk(HI, ("assistant", "no </think> here"), ("user", "q"), YO)
    ((text, found),) = prompts("rlaif", example, **CLOSED)
    assert found["text"] == text
    other = ChatTemplate.load(shared / "data" / "tokenizers" / "minimind")
    assert prompts("rlaif", example, chat_template=other, **CLOSED) == [(text, found)]


def test_the_keys_of_tools_keep_their_order_in_the_json() -> None:
    (sequence,) = build("rlaif", talk(("system", '[{"b": 1, "a": "\u67e5"}]', "tools"), HI, YO)).sequences
    assert '"tools":[{"b":1,"a":"\u67e5"}]' in (sequence.prompt or "")


# ------------------------------------------------------------------ agent
@pytest.mark.parametrize("gt", ["42", ["42", 7], {"x": None}, 0, False])
def test_gt_is_carried_whatever_it_is(gt: Any) -> None:
    ((_, found),) = prompts("agent", talk(HI, ("assistant", ""), gt=gt))
    assert found["gt"] == gt
    assert "answer" not in found


@pytest.mark.parametrize("metadata", [{}, {"gt": None}, {"gt": ""}, {"gt": []}, {"other": 1}])
def test_without_gt_there_is_nothing_to_judge_by(metadata: dict[str, Any]) -> None:
    built = build("agent", talk(HI, YO, **metadata))
    assert (built.reason, built.detail) == ("no_gt", "the row has no gt")


def test_the_field_of_gt_has_a_name() -> None:
    ((_, found),) = prompts("agent", talk(HI, YO, solution="x"), gt="solution")
    assert found["gt"] == "x"


# ------------------------------------------------------------------ left out
@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (talk(HI, YO, HI, gt=1), "last_turn"),
        (talk(gt=1), "last_turn"),
        (talk(YO, gt=1), "no_prompt"),
        (talk(("system", "s"), YO, gt=1), "no_prompt"),
        (talk(HI, ("assistant", "x", "tool_calls"), ("tool", "1"), YO, gt=1), "bad_tools"),
        (talk(("system", "x", "tools"), HI, YO, gt=1), "bad_tools"),
        (make_example("a text"), "no_dialogue"),
        (pair([HI, YO], [HI, ("assistant", "no")]), "no_dialogue"),
    ],
)
def test_what_asks_nothing_has_a_reason(name: str, example: Example, reason: str) -> None:
    built = build(name, example)
    assert (built.reason, built.sequences) == (reason, ())
    assert built.detail


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_is_never_cut(name: str) -> None:
    example = talk(("user", "a" * 100), YO, gt=1)
    (whole,) = build(name, example).sequences
    for overlong in ("window", "truncate", "drop"):
        built = build(name, example, max_tokens=whole.num_tokens - 1, overlong=overlong)
        assert built.reason == "too_long"
    with pytest.raises(SourceError, match="--max-tokens is"):
        build(name, example, max_tokens=whole.num_tokens - 1, overlong="error")
    assert build(name, example, max_tokens=whole.num_tokens).sequences


# ------------------------------------------------------------------ drawn
def test_thinking_is_drawn_for_a_share_of_prompts_and_passes() -> None:
    opened = [
        found["text"].endswith("<think>\n")
        for number in range(400)
        for _, found in prompts("rlaif", talk(HI, YO, number=number), open_thinking_ratio=0.25)
    ]
    assert 0.2 < sum(opened) / 400 < 0.32
    both = [prompts("rlaif", talk(HI, YO, number=number), alternatives=2) for number in range(100)]
    assert {len(found) for found in both} == {1, 2}


def test_a_system_turn_that_is_drawn_is_in_ids_text_and_messages() -> None:
    ((text, found),) = prompts("rlaif", talk(HI, YO), system_prompts=("Be kind.",), system_prompt_ratio=1.0, **CLOSED)
    assert text.startswith("<|im_start|>system\nBe kind.<|im_end|>\n")
    assert found["text"] == text
    assert found["messages"][0] == {"role": "system", "content": "Be kind."}
