"""Preference pairs: two documents of one sequence, with one prompt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.errors import SourceError
from shardkit.records import Example
from shardkit.sequence.recipes.chat_recipe import SYSTEM_PROMPTS
from shardkit.sequence.recipes.dpo import shares
from tests.example_builders import make_example
from tests.sequence.recipes.talks import EMPTY_THINK, TOOLS, build, pair, shown, talk

HI = ("user", "hi")
HEAD = f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{EMPTY_THINK}"
YO_NO = pair([HI, ("assistant", "yo")], [HI, ("assistant", "no")])


def test_a_pair_is_one_sequence_of_two_documents() -> None:
    (sequence,) = build("dpo", YO_NO).sequences
    assert shown(sequence) == [
        (f"{HEAD}yo<|im_end|>\n", "yo<|im_end|>\n"),
        (f"{HEAD}no<|im_end|>\n", "no<|im_end|>\n"),
    ]
    assert sequence.documents == (0, 23)
    assert sequence.objectives == bytes([0] * 19 + [5] * 4 + [0] * 19 + [6] * (sequence.num_tokens - 42))
    assert (sequence.window, sequence.alternative, sequence.alternatives, sequence.prompt) == (0, 0, 1, None)


def test_answers_in_the_prompt_are_targets_by_choice() -> None:
    before = [HI, ("assistant", "old"), ("user", "and?")]
    example = pair([*before, ("assistant", "yo")], [*before, ("assistant", "no")])
    (sequence,) = build("dpo", example).sequences
    assert [targets for _, targets in shown(sequence)] == ["yo<|im_end|>\n", "no<|im_end|>\n"]
    (sequence,) = build("dpo", example, supervise_history=True).sequences
    assert [targets for _, targets in shown(sequence)] == [
        "old<|im_end|>\nyo<|im_end|>\n",
        "old<|im_end|>\nno<|im_end|>\n",
    ]


def test_everything_behind_the_prompt_that_the_assistant_says_is_a_target() -> None:
    call = '[{"name": "f", "arguments": {}}]'
    example = pair(
        [HI, ("assistant", call, "tool_calls"), ("tool", "1"), ("assistant", "one")],
        [HI, ("assistant", "hm", "reasoning_content"), ("assistant", "two")],
    )
    (sequence,) = build("dpo", example).sequences
    assert [targets for _, targets in shown(sequence)] == [
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>\none<|im_end|>\n',
        "hm\n</think>\n\ntwo<|im_end|>\n",
    ]


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (make_example("a text"), "no_pair"),
        (talk(HI, ("assistant", "yo")), "no_pair"),
        (talk(("user", "hi", "chosen"), ("assistant", "yo", "chosen")), "no_pair"),
        (talk(), "no_pair"),
        (pair([HI, ("assistant", "yo")], [HI, ("assistant", "yo")]), "same_answers"),
        (pair([HI, ("assistant", "yo")], [("user", "ho"), ("assistant", "no")]), "prompts_differ"),
        (pair([HI, ("assistant", "yo")], [HI, ("assistant", "yo"), ("user", "x"), ("assistant", "no")]), "prompts_differ"),
        (pair([("system", TOOLS, "tools"), HI, ("assistant", "yo")], [HI, ("assistant", "no")]), "prompts_differ"),
        (pair([("system", "s"), HI, ("assistant", "yo")], [HI, ("assistant", "no")]), "prompts_differ"),
        (pair([HI, ("assistant", "yo")], [HI, ("assistant", "\n")]), "no_targets"),
        (pair([HI, ("assistant", "yo")], [HI, ("robot", "no")]), "no_dialogue"),
        (pair([HI, ("assistant", "yo")], [HI, ("assistant", "f()", "tool_calls")]), "bad_tools"),
    ],
)  # fmt: skip
def test_what_is_no_pair_has_a_reason(example: Example, reason: str) -> None:
    built = build("dpo", example)
    assert (built.reason, built.sequences) == (reason, ())
    assert built.detail


# ------------------------------------------------------------------ length
LONG = pair([HI, ("assistant", "x" * 40)], [HI, ("assistant", "y")])


def test_a_pair_has_no_windows() -> None:
    (whole,) = build("dpo", LONG).sequences
    assert build("dpo", LONG, max_tokens=whole.num_tokens).sequences[0].num_tokens == whole.num_tokens
    for overlong in ("window", "drop"):
        built = build("dpo", LONG, max_tokens=whole.num_tokens - 1, overlong=overlong)
        assert (built.reason, built.detail) == (
            "too_long",
            f"{whole.num_tokens} tokens, --max-tokens is {whole.num_tokens - 1}",
        )
    with pytest.raises(SourceError) as caught:
        build("dpo", LONG, max_tokens=whole.num_tokens - 1, overlong="error")
    assert caught.value.hint == "raise --max-tokens, or choose --overlong truncate or drop"


def test_truncate_cuts_the_longer_side_first() -> None:
    (whole,) = build("dpo", LONG).sequences
    built = build("dpo", LONG, max_tokens=whole.num_tokens - 5, overlong="truncate")
    (cut,) = built.sequences
    first, second = whole.documents[1], whole.num_tokens - whole.documents[1]
    assert cut.documents == (0, first - 5)
    assert cut.num_tokens - cut.documents[1] == second
    assert cut.input_ids[: first - 5].tolist() == whole.input_ids[: first - 5].tolist()
    assert built.changes == {"examples_truncated": 1, "tokens_truncated": 5}
    short = build("dpo", LONG, max_tokens=38, overlong="truncate")
    assert (short.reason, short.detail) == ("no_targets", "no token of the chosen side is a target")


@given(st.integers(1, 50), st.integers(1, 50), st.integers(2, 120))
def test_shares_fill_the_room_and_are_fair(chosen: int, rejected: int, room: int) -> None:
    one, other = shares(chosen, rejected, room)
    assert one <= chosen
    assert other <= rejected
    assert one + other == min(room, chosen + rejected)
    assert one == chosen or one >= room // 2
    assert other == rejected or other >= room // 2


# ------------------------------------------------------------------ drawn once a pair
def drawn(number: int, **fields: Any) -> list[list[tuple[str, str]]]:
    example = pair([HI, ("assistant", "yo")], [HI, ("assistant", "no")], number)
    return [shown(sequence) for sequence in build("dpo", example, **fields).sequences]


def test_both_sides_get_the_same_prompt_in_every_pass() -> None:
    settings = {"alternatives": 4, "system_prompt_ratio": 0.5, "think_removal_ratio": 0.5}
    seen = set()
    for number in range(40):
        for (chosen, learned), (rejected, other) in drawn(number, **settings):
            assert (learned, other) == ("yo<|im_end|>\n", "no<|im_end|>\n")
            assert chosen.removesuffix(learned) == rejected.removesuffix(other)
            seen.add((chosen.startswith("<|im_start|>system\n"), EMPTY_THINK in chosen))
    assert seen == {(False, False), (False, True), (True, False), (True, True)}


def test_alternatives_are_numbered_and_stored_once_where_they_are_equal() -> None:
    (sequence,) = build("dpo", YO_NO, alternatives=5).sequences
    assert sequence.alternatives == 1
    built = build("dpo", YO_NO, alternatives=3, system_prompt_ratio=1.0)
    assert [(s.window, s.alternative, s.alternatives) for s in built.sequences] == [(0, 0, 3), (1, 1, 3), (2, 2, 3)]
    for sequence in built.sequences:
        assert any(
            text.startswith(f"<|im_start|>system\n{prompt}<")
            for prompt in SYSTEM_PROMPTS
            for text, _ in shown(sequence)
        )
