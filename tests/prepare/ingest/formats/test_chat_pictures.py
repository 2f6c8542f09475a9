"""Dialogues with images: where they stand, and how marks and images must agree."""

from __future__ import annotations

import pytest

from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest.formats.turns import ANSWER, URI, USER, draft, pictures


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": URI}}]}, ANSWER]}, [("user", "see"), ("user", 0)]),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": URI},
            {"type": "text", "text": "see"}]}, ANSWER]}, [("user", 0), ("user", "see")]),
        ({"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "see"}]}, ANSWER],
            "images": [URI]}, [("user", 0), ("user", "see")]),
        ({"image": URI, "conversations": [{"from": "human", "value": "<image>\nsee"}, {"from": "gpt", "value": "a"}]},
            [("user", 0), ("user", "\nsee")]),
        ({"image_bytes": b"AAAA", "conversations": '[{"role": "user", "content": "see <image>"}, '
            '{"role": "assistant", "content": "a"}]'}, [("user", "see "), ("user", 0)]),
        ({"messages": [{"role": "user", "content": "what is <image>?"}, ANSWER]}, [("user", "what is <image>?")]),
    ],
    ids=["part-behind", "part-before", "part-of-row", "mark", "json-text", "mark-without-images"],
)  # fmt: skip
def test_pictures_stand_where_the_turns_show_them(tmp_path, row, expected):
    got = draft(row, tmp_path)
    assert pictures(got) == [*expected, ("assistant", "a")]
    assert len(got.images) == sum(isinstance(part, int) for _, part in expected)
    assert [r.images for r in got.relations] == [tuple(range(len(got.images)))]
    assert got.metadata == {}


def test_both_sides_of_a_pair_show_the_pictures_of_the_row(tmp_path):
    ask = {"role": "user", "content": "<image>q"}
    got = draft({"images": URI, "chosen": [ask, ANSWER], "rejected": [ask, ANSWER]}, tmp_path)
    assert [(s.kind, s.image, s.name) for s in got.segments if s.kind == "image"] == [
        ("image", 0, "chosen"),
        ("image", 0, "rejected"),
    ]
    assert [r.images for r in got.relations] == [(0,), (0,)]


def test_results_side_by_side_stay_two_where_an_image_stands_between(tmp_path):
    see, text = {"type": "image_url", "image_url": URI}, {"type": "text", "text": "t"}
    call = {"role": "assistant", "tool_calls": [{"name": "f"}]}

    def results(*contents):
        turns = [{"role": "tool", "content": content} for content in contents]
        got = draft({"messages": [USER, call, *turns, ANSWER]}, tmp_path)
        return [said for role, said in pictures(got) if role == "tool"]

    assert results([text], [see]) == ["t", "", 0]
    assert results([see], [text]) == [0, "", "t"]
    assert results([see], [see]) == [0, "", "", 1]
    assert results([see, text], [text, see], [text]) == [0, "t", "t", 1, "", "t"]
    assert results([text], [text]) == ["t", "t"]


@pytest.mark.parametrize(("marks", "images"), [(0, 1), (2, 1), (1, 2)])
def test_marks_and_pictures_must_agree(tmp_path, marks, images):
    row = {"messages": [{"role": "user", "content": "q" + "<image>" * marks}, ANSWER], "images": [URI] * images}
    with pytest.raises(Bad, match=f"the turns have {marks} <image> marks, the row has {images} images") as bad:
        draft(row, tmp_path)
    assert bad.value.reason == "placeholder_count"


@pytest.mark.parametrize(
    "row",
    [
        {"images": [URI, URI], "texts": [{"user": "q", "assistant": "a", "source": "ai2d"}]},
        {"images": [URI, URI], "question": "q", "answer": "a"},
    ],
)
def test_pictures_without_marks_come_before_the_first_question(tmp_path, row):
    got = draft(row, tmp_path)
    assert pictures(got) == [("user", 0), ("user", 1), ("user", "q"), ("assistant", "a")]
    told = [{"turn": 2, "fields": {"source": "ai2d"}}]
    assert got.metadata == ({"turn_fields": told} if "texts" in row else {})
    pair = draft({"image": URI, "question": "q", "chosen": "a", "rejected": "b"}, tmp_path)
    assert [(s.name, s.image) for s in pair.segments if s.kind == "image"] == [("chosen", 0), ("rejected", 0)]
