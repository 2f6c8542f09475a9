"""Dialogues: roles, order, what a turn carries, preference pairs."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal

import pytest

from shardkit.prepare.ingest import IngestConfig, run
from shardkit.prepare.ingest.formats import chat
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.builders import config, reader, record
from tests.prepare.ingest.formats.turns import ANSWER, URI, USER, draft, shape
from tests.prepare.ingest.runs import Ingested


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
    with pytest.raises(Bad, match="input_audio"):
        draft({"messages": [{"role": "user", "content": [*parts, {"type": "input_audio"}]}, ANSWER]}, tmp_path)


def test_what_no_segment_holds_is_metadata(tmp_path):
    row = {
        "messages": [
            {"role": "user", "content": "q", "name": "bob", "refusal": None},
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": {"r": [1]}},
            {"role": "assistant", "content": "a", "reasoning": "hm", "weight": 0},
        ]
    }
    got = draft(row, tmp_path)
    assert shape(got) == [
        ("user", None, "q"),
        ("assistant", "tool_calls", '{"arguments":"{}","name":"f"}'),
        ("tool", None, '{"r":[1]}'),
        ("assistant", "reasoning_content", "hm"),
        ("assistant", None, "a"),
    ]
    assert [s.supervised for s in got.segments] == [None, None, None, False, False]
    assert got.metadata == {
        "turn_fields": [{"turn": 1, "fields": {"name": "bob"}}, {"turn": 3, "fields": {"name": "f"}}]
    }


def test_what_a_table_holds_and_json_does_not_is_put_into_words(tmp_path):
    calls = [{"name": "f", "blob": b"\xff", "price": Decimal("1.50")}]
    turns = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": {"b": b"r"}},
    ]
    got = draft({"messages": turns, "tools": b"x", "gt": Decimal(1)}, tmp_path)
    told = '[{"blob":"/w==","name":"f","price":"1.50"}]'
    assert [text for _, _, text in shape(got)] == ['"eA=="', "q", told, '{"b":"cg=="}']
    assert got.changes["bytes_as_base64"] == 3
    with pytest.raises(Bad, match="a field cannot be kept as JSON"):
        draft({"messages": [USER, ANSWER], "tools": [object()]}, tmp_path)


@pytest.mark.parametrize("empty", ["", None, [], [{"type": "text", "text": ""}]])
def test_a_result_that_is_empty_keeps_its_place(tmp_path, empty):
    calls = {"role": "assistant", "tool_calls": [{"name": "f"}, {"name": "g"}]}
    results = [{"role": "tool", "content": content} for content in (empty, "1")]
    got = draft({"messages": [USER, calls, *results, ANSWER]}, tmp_path)
    assert shape(got)[2:4] == [("tool", None, ""), ("tool", None, "1")]


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": "q", "input": "", "output": "a"},
        {"prompt": "q", "completion": "a"},
        {"question": "q", "answer": "a"},
        {"prompt": [USER], "completion": [ANSWER]},
        {"prompt": "q", "response": "a"},
        {"conversations": None, "messages": [USER, ANSWER]},
        {"instruction": "q", "context": "", "response": "a"},
        {"prompt": "\n\nHuman: q\n\nAssistant:", "response": " a"},
        {"texts": [{"user": "q", "assistant": "a"}]},
        {"conversation": [{"human": "q", "assistant": "a"}]},
        {"conversation": [USER, ANSWER]},
        {"conversation": [{"input": "q", "output": "a"}]},
        {"query": "q", "response": "a", "system_prompt": ""},
    ],
)
def test_question_and_answer_in_fields_of_their_own(tmp_path, row):
    assert shape(draft(row, tmp_path)) == [("user", None, "q"), ("assistant", None, "a")]


@pytest.mark.parametrize("beside", ["input", "context"])
def test_what_stands_beside_an_instruction_belongs_to_it(tmp_path, beside):
    got = draft({"instruction": "do", beside: "it", "output": "a", "category": "qa", "system_prompt": "s"}, tmp_path)
    assert shape(got) == [("system", None, "s"), ("user", None, "do\nit"), ("assistant", None, "a")]
    assert got.metadata == {"category": "qa"}


SPOKEN = "\n\nHuman: one \n\nAssistant: two\n\nthree\n\nHuman: \n\nfour\n\nAssistant:"


def test_speakers_that_a_text_marks_are_turns(tmp_path):
    got = draft({"chosen": f"{SPOKEN} a", "rejected": f"{SPOKEN}b"}, tmp_path)
    asked = [("user", "one "), ("assistant", "two\n\nthree"), ("user", "\n\nfour")]
    assert [(s.role, s.name, s.text) for s in got.segments] == [
        (role, side, text)
        for side, answer in (("chosen", "a"), ("rejected", "b"))
        for role, text in (*asked, ("assistant", answer))
    ]
    beside = draft({"prompt": SPOKEN, "chosen": " a", "rejected": "b"}, tmp_path)
    assert (beside.segments, beside.relations, beside.metadata) == (got.segments, got.relations, {})


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ("a text", "wrong_type"),
        ("\n\nHuman: q\n\nAssistant:", "empty_turn"),
        ("\n\nHuman: q\n\nHuman: r\n\nAssistant: a", "turn_order"),
        ("\n\nHuman: q", "no_answer"),
    ],
)
def test_a_marked_text_that_is_no_dialogue_says_why(tmp_path, chosen, reason):
    with pytest.raises(Bad) as bad:
        draft({"chosen": chosen, "rejected": "\n\nHuman: q\n\nAssistant: a"}, tmp_path)
    assert bad.value.reason == reason


def message(name, role, *replies):
    return {"message_id": name, "role": role, "text": f"text of {name}", "lang": "en", "replies": list(replies)}


def test_a_tree_of_messages_is_an_example_for_each_of_its_dialogues(tmp_path):
    tree = message(
        "q", "prompter",
        message("a", "assistant", message("q2", "prompter", message("b", "assistant")), message("q3", "prompter")),
        message("c", "assistant", message("q4", "prompter", message("bad", "moderator", message("d", "assistant")))),
    )  # fmt: skip
    row = {"message_tree_id": "t", "tree_state": "ready_for_export", "prompt": tree}
    got = list(chat.drafts(record(row), config(format="chat"), reader(tmp_path)))
    assert [one.position for one in got] == ["1/b", "1/d"]
    assert [segment.text for segment in got[0].segments] == [f"text of {name}" for name in ("q", "a", "q2", "b")]
    assert got[0].group == "t"
    assert got[0].metadata["tree_state"] == "ready_for_export"
    assert got[0].metadata["turn_fields"][3] == {"turn": 4, "fields": {"message_id": "b", "lang": "en"}}
    assert got[1].reason == "unknown_role"
    with pytest.raises(Bad, match="no message of the tree is an answer"):
        list(chat.drafts(record({"prompt": message("q", "prompter")}), config(format="chat"), reader(tmp_path)))


def test_an_instruction_with_input_and_history(tmp_path):
    got = draft({"instruction": "do", "input": "it", "output": "a", "history": [["x", "y"]], "system": "s"}, tmp_path)
    assert [text for _, _, text in shape(got)] == ["s", "x", "y", "do\nit", "a"]
    assert got.metadata == {}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q", "chosen": "a", "rejected": "b"},
        {"prompt": [USER], "chosen": [ANSWER], "rejected": [{"role": "assistant", "content": "b"}]},
        {"conversations": [USER], "chosen": {"from": "gpt", "value": "a"}, "rejected": {"from": "gpt", "value": "b"}},
        {"question": "q", "chosen": "a", "rejected": "b"},
    ],
)
def test_a_pair_of_answers_takes_its_question_from_beside(tmp_path, row):
    got = draft(row, tmp_path)
    assert shape(got) == [
        ("user", "chosen", "q"), ("assistant", "chosen", "a"), ("user", "rejected", "q"), ("assistant", "rejected", "b"),
    ]  # fmt: skip
    assert got.metadata == {}


def test_a_pair_that_is_whole_keeps_its_prompt_as_metadata(tmp_path):
    got = draft({"prompt": "q", "chosen": [USER, ANSWER], "rejected": [USER, ANSWER]}, tmp_path)
    assert len(got.segments) == 4
    assert got.metadata == {"prompt": "q"}


@pytest.mark.parametrize("name", ["talks.json", "talks.json.gz"])
def test_a_json_array_of_talks(tmp_path, name):
    rows = [{"conversations": [USER, ANSWER]}, {"conversations": [USER]}, {"instruction": "q", "output": "a"}]
    data = json.dumps(rows, indent=1).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    done = Ingested(tmp_path / "out", "auto" if name.endswith("json") else "chat", tmp_path / name)
    assert done.counts == (3, 2, 1)
    assert list(done.rows) == ["1", "3"]
    assert done.exclusions == {"2": "no_answer"}


def test_a_preference_pair_is_one_example(tmp_path):
    got = draft({"chosen": [USER, ANSWER], "rejected": [USER, {"role": "assistant", "content": "b"}]}, tmp_path)
    assert shape(got) == [
        ("user", "chosen", "q"), ("assistant", "chosen", "a"), ("user", "rejected", "q"), ("assistant", "rejected", "b"),
    ]  # fmt: skip
    assert [(r.scope, r.segments) for r in got.relations] == [("chosen", (0, 1)), ("rejected", (2, 3))]


def test_who_answered_is_recorded(tmp_path):
    got = draft({"messages": [USER, ANSWER], "model": "m@1"}, tmp_path)
    assert [r.annotator for r in got.relations] == ["m@1"]
    assert got.metadata == {"model": "m@1"}
    pair = {"prompt": "q", "chosen": "a", "rejected": "b", "chosen_model": "x", "model": "y"}
    assert [r.annotator for r in draft(pair, tmp_path).relations] == ["x", "y"]
    assert draft({"messages": [USER, ANSWER], "model": {"name": "m"}}, tmp_path).relations[0].annotator is None


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
        ({"conversations": [USER, {"role": "assistant", "content": ""}], "gt": []}, "empty_turn"),
        ({"conversations": [USER, {"role": "assistant", "content": ""}, USER, ANSWER], "gt": "1"}, "empty_turn"),
        ({"conversations": [USER], "gt": "1"}, "no_answer"),
        ({"chosen": [USER, ANSWER], "rejected": []}, "no_content"),
        ({"prompt": ["q"], "completion": "a", "images": [URI]}, "wrong_type"),
        ({"texts": [{"user": None, "assistant": "a"}], "images": [URI]}, "wrong_type"),
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


@pytest.mark.parametrize("content", ["", " ", None])
def test_a_row_with_gt_may_leave_the_last_answer_open(tmp_path, content):
    turns = [
        {"role": "system", "tools": [{"name": "f"}], "content": "s"},
        USER,
        {"role": "assistant", "content": content},
    ]
    got = draft({"conversations": turns, "gt": ["42", 7]}, tmp_path)
    assert shape(got) == [
        ("system", "tools", '[{"name":"f"}]'), ("system", None, "s"), ("user", None, "q"), ("assistant", None, ""),
    ]  # fmt: skip
    assert got.metadata == {"gt": ["42", 7]}


def test_what_a_pair_says_before_its_turns_comes_first_on_both_sides(tmp_path):
    got = draft({"system": "s", "tools": [{"name": "f"}], "prompt": "q", "chosen": "a", "rejected": "b"}, tmp_path)
    assert [(segment.role, segment.name, segment.text) for segment in got.segments] == [
        (role, f"{side}.{name}" if name else side, text)
        for side, answer in (("chosen", "a"), ("rejected", "b"))
        for role, name, text in (
            ("system", "tools", '[{"name":"f"}]'), ("system", "", "s"), ("user", "", "q"), ("assistant", "", answer),
        )
    ]  # fmt: skip
    assert got.metadata == {}
    assert [relation.segments for relation in got.relations] == [(0, 1, 2, 3), (4, 5, 6, 7)]
