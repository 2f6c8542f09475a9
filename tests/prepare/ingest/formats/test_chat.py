"""Dialogues: roles, order, what a turn carries, preference pairs."""

from __future__ import annotations

import pytest

from shardkit.prepare.ingest import IngestConfig, run
from shardkit.prepare.ingest.formats import chat
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, reader, record

USER, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


def draft(row, tmp_path):
    (one,) = chat.drafts(record(row), config(format="chat"), reader(tmp_path))
    return one


def shape(draft) -> list[tuple[str | None, str | None, str | None]]:
    return [(segment.role, segment.name, segment.text) for segment in draft.segments]


@pytest.mark.parametrize(
    "row",
    [
        {"conversations": [USER, ANSWER]},
        {"messages": [USER, ANSWER]},
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
    ],
)
def test_the_common_spellings_are_one_dialogue(tmp_path, row):
    got = draft(row, tmp_path)
    assert shape(got) == [("user", None, "q"), ("assistant", None, "a")]
    assert [(r.kind, r.segments) for r in got.relations] == [("dialogue", (0, 1))]
    assert got.metadata == {}


def test_what_a_turn_carries_is_named(tmp_path):
    row = {
        "conversations": [
            {"role": "system", "content": "", "tools": '[{"name": "f"}]'},
            USER,
            {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [{"name": "f"}]},
            {"role": "tool", "content": "42"},
            {"role": "observation", "content": ""},
            ANSWER,
        ],
        "gt": ["42"],
    }
    got = draft(row, tmp_path)
    assert shape(got) == [
        ("system", "tools", '[{"name": "f"}]'),
        ("user", None, "q"),
        ("assistant", "reasoning_content", "hm"),
        ("assistant", "tool_calls", '[{"name":"f"}]'),
        ("tool", None, "42"),
        ("tool", None, ""),
        ("assistant", None, "a"),
    ]
    assert got.metadata == {"gt": ["42"]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<think>\nhm\n</think>\n\nyes", [("reasoning_content", "hm"), (None, "yes")]),
        ("<think></think>yes", [(None, "yes")]),
        ("no <think>hm</think>", [(None, "no <think>hm</think>")]),
        ("<think>open", [(None, "<think>open")]),
        ("<think>a<think>b</think>c", [(None, "<think>a<think>b</think>c")]),
    ],
)
def test_one_leading_think_block_is_the_reasoning_and_others_are_text(tmp_path, content, expected):
    got = draft({"conversations": [USER, {"role": "assistant", "content": content}]}, tmp_path)
    assert [(segment.name, segment.text) for segment in got.segments[1:]] == expected
    assert got.changes == ({"think_block_parted": 1} if "</think>" in content and content.count("<think>") == 1 and content[0] == "<" else {})  # fmt: skip


def test_what_a_row_says_before_its_turns_comes_first(tmp_path):
    got = draft({"system": "be short", "tools": [{"name": "f"}], "messages": [USER, ANSWER], "id": 7}, tmp_path)
    assert shape(got)[:3] == [("system", "tools", '[{"name":"f"}]'), ("system", None, "be short"), ("user", None, "q")]
    assert got.relations[0].segments == (0, 1, 2, 3)
    assert got.metadata == {"id": 7}


def test_a_content_in_parts_is_its_texts(tmp_path):
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    got = draft({"messages": [{"role": "user", "content": parts}, ANSWER]}, tmp_path)
    assert got.segments[0].text == "one\ntwo"
    with pytest.raises(Bad, match="image_url"):
        draft({"messages": [{"role": "user", "content": [*parts, {"type": "image_url"}]}, ANSWER]}, tmp_path)


def test_a_preference_pair_is_one_example(tmp_path):
    got = draft({"chosen": [USER, ANSWER], "rejected": [USER, {"role": "assistant", "content": "b"}]}, tmp_path)
    assert shape(got) == [
        ("user", "chosen", "q"), ("assistant", "chosen", "a"), ("user", "rejected", "q"), ("assistant", "rejected", "b"),
    ]  # fmt: skip
    assert [(r.scope, r.segments) for r in got.relations] == [("chosen", (0, 1)), ("rejected", (2, 3))]


def test_control_strings_are_text(tmp_path):
    content = "a<|im_end|>\n<|im_start|>assistant"
    assert (
        draft({"conversations": [{"role": "user", "content": content}, ANSWER]}, tmp_path).segments[0].text == content
    )
    assert shape(draft({"text": "<|endoftext|>"}, tmp_path)) == [(None, None, "<|endoftext|>")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"conversations": []}, "no_content"),
        ({"conversations": "talk"}, "wrong_type"),
        ({"conversations": ["talk"]}, "wrong_type"),
        ({"conversations": [USER]}, "no_answer"),
        ({"conversations": [USER, ANSWER, USER]}, "no_answer"),
        ({"conversations": [{"role": "system", "content": "s"}]}, "no_answer"),
        ({"conversations": [ANSWER, USER]}, "turn_order"),
        ({"conversations": [USER, USER, ANSWER]}, "turn_order"),
        ({"conversations": [USER, {"role": "tool", "content": "x"}]}, "turn_order"),
        ({"conversations": [USER, {"role": "robot", "content": "b"}]}, "unknown_role"),
        ({"conversations": [{"content": "b"}, ANSWER]}, "unknown_role"),
        ({"conversations": [{"role": "user"}, ANSWER]}, "wrong_type"),
        ({"conversations": [{"role": "user", "content": ["x"]}, ANSWER]}, "wrong_type"),
        ({"conversations": [USER, {"role": "assistant", "content": " "}]}, "empty_turn"),
        ({"chosen": [USER, ANSWER], "rejected": []}, "no_content"),
        ({"chosen": [USER, ANSWER]}, "missing_field"),
        ({"text": ""}, "empty_text"),
        ([], "not_an_object"),
    ],
)
def test_it_is_excluded_for_its_own_reason(tmp_path, row, reason):
    with pytest.raises(Bad) as bad:
        draft(row, tmp_path)
    assert bad.value.reason == reason


@pytest.mark.parametrize(
    ("name", "count"), [("sft", 320), ("sft_tool", 135), ("dpo", 100), ("rlaif", 80), ("pretrain", 270)]
)
def test_the_shared_files_are_kept_whole(shared, tmp_path, name, count):
    path = shared / "data" / "chat" / f"{name}.jsonl"
    result = run(IngestConfig(format="chat", paths=(path,), output=tmp_path / "out"))
    assert (result.tally.read, result.tally.kept) == (count, count)
