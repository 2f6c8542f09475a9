"""What sft draws: by seed, pass, example and purpose; stored as alternatives."""

from __future__ import annotations

from typing import Any

import pytest

from shardkit.errors import ConfigError
from shardkit.records import Example
from shardkit.sequence.recipes import RECIPES, configure
from shardkit.sequence.recipes.chat_recipe import SYSTEM_PROMPTS
from shardkit.sequence.recipes.draws import choice, happens
from shardkit.text.template import ChatTemplate, chatml
from tests.sequence.recipes.talks import EMPTY_THINK, TOOLS, build, shown, talk

TURNS = (("user", "hi"), ("assistant", "yo"))
ALWAYS: dict[str, Any] = {"system_prompt_ratio": 1.0, "think_removal_ratio": 1.0}


def texts(example: Example, **fields: Any) -> list[str]:
    return [shown(sequence)[0][0] for sequence in build("sft", example, **fields).sequences]


def test_by_default_a_dialogue_stays_as_it_is() -> None:
    assert texts(talk(*TURNS)) == [chatml().render([{"role": role, "content": text} for role, text in TURNS])]


def test_a_draw_is_a_function_of_its_key() -> None:
    keys = [(seed, epoch, f"{number:032x}") for seed in range(3) for epoch in range(3) for number in range(1000)]
    found = {key: happens(0.2, *key, "x") for key in keys}
    assert 0.18 < sum(found.values()) / len(found) < 0.22
    assert all(happens(0.2, *key, "x") is drawn for key, drawn in found.items())
    assert [happens(0.2, *key, "y") for key in keys] != list(found.values())
    assert not any(happens(0.0, *key, "x") for key in keys)
    assert all(happens(1.0, *key, "x") for key in keys)
    assert {choice("abc", 0, 0, f"{number:032x}", "x") for number in range(100)} == {"a", "b", "c"}
    assert happens(0.5, 7, 3, "00" * 16, "think removal") is True


def test_a_system_turn_is_one_of_the_prompts() -> None:
    (text,) = texts(talk(*TURNS), system_prompts=("A.", "B."), system_prompt_ratio=1.0)
    head = text.removesuffix(f"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n{EMPTY_THINK}yo<|im_end|>\n")
    assert head in ("<|im_start|>system\nA.<|im_end|>\n", "<|im_start|>system\nB.<|im_end|>\n")
    drawn = {texts(talk(*TURNS, number=number), system_prompt_ratio=1.0)[0] for number in range(100)}
    assert len(drawn) == len(SYSTEM_PROMPTS) == 10


@pytest.mark.parametrize("first", [("system", "s"), ("system", TOOLS, "tools")])
def test_a_dialogue_with_a_system_turn_or_tools_gets_none(first: Any) -> None:
    example = talk(first, *TURNS)
    assert texts(example, **ALWAYS) == [text.replace(EMPTY_THINK, "") for text in texts(example)]


def test_empty_think_blocks_go_by_structure_and_all_or_none() -> None:
    written = f"I write {EMPTY_THINK}here"
    example = talk(("user", written), ("assistant", "a"), ("user", "q"), ("assistant", "b", "reasoning_content"), ("assistant", written))  # fmt: skip
    (text,) = texts(example, think_removal_ratio=1.0)
    assert text == (
        f"<|im_start|>user\n{written}<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
        f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nb\n</think>\n\n{written}<|im_end|>\n"
    )
    several = [texts(talk(*TURNS, *TURNS, number=number), think_removal_ratio=0.5)[0] for number in range(60)]
    assert {text.count(EMPTY_THINK) for text in several} == {0, 2}


def test_the_share_of_what_is_drawn_is_the_ratio() -> None:
    fields = {"alternatives": 4, "system_prompt_ratio": 0.2, "think_removal_ratio": 0.8}
    found = []
    for number in range(250):
        built = build("sft", talk(*TURNS, number=number), **fields)
        by_pass = {sequence.alternative: shown(sequence)[0][0] for sequence in built.sequences}
        found += [by_pass.get(epoch, by_pass[0]) for epoch in range(4)]
    assert 0.16 < sum(text.startswith("<|im_start|>system") for text in found) / 1000 < 0.24
    assert 0.76 < sum(EMPTY_THINK not in text for text in found) / 1000 < 0.84


def test_alternatives_are_drawn_like_passes_and_another_seed_draws_otherwise() -> None:
    fields = {"system_prompt_ratio": 0.2, "think_removal_ratio": 0.2}
    examples = [talk(*TURNS, number=number) for number in range(50)]
    one = [texts(example, alternatives=1, **fields) for example in examples]
    four = [texts(example, alternatives=4, **fields) for example in examples]
    assert [found[0] for found in four] == [found[0] for found in one]
    assert {len(found) for found in four} == {1, 4}
    assert one != [texts(example, seed=1, **fields) for example in examples]


def test_windows_of_alternatives_are_numbered_through() -> None:
    example = talk(("user", "hi"), ("assistant", "x" * 60))
    built = build("sft", example, alternatives=2, system_prompts=("s" * 30,), system_prompt_ratio=1.0, max_tokens=40)
    assert {sequence.alternatives for sequence in built.sequences} == {1}
    built = build("sft", example, alternatives=2, system_prompt_ratio=1.0, max_tokens=40)
    numbers = [(sequence.window, sequence.alternative) for sequence in built.sequences]
    first = [alternative for _, alternative in numbers].count(0)
    assert 1 < first < len(numbers)
    assert numbers == [(at, int(at >= first)) for at in range(len(numbers))]


def test_a_pass_whose_draw_leaves_no_target_is_counted() -> None:
    example = talk(*TURNS)
    (whole,) = build("sft", example).sequences
    limit = {"max_tokens": whole.num_tokens, "overlong": "truncate", "alternatives": 8, "system_prompt_ratio": 0.5}
    built = build("sft", example, system_prompts=("s" * 90,), **limit)  # type: ignore[arg-type]
    left = len({sequence.alternative for sequence in built.sequences})
    assert 0 < left < 8
    assert built.changes["alternatives_without_targets"] == 8 - left


# ------------------------------------------------------------------ settings
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"alternatives": "0"}, "alternatives=0 is not 1 to 256"),
        ({"system_prompt_ratio": "1.5"}, "system_prompt_ratio=1.5 is not 0 to 1"),
        ({"think_removal_ratio": "much"}, "think_removal_ratio='much' is not a number"),
        ({"think_removal_ratio": "1.2.3"}, "think_removal_ratio='1.2.3' is not a number"),
        ({"system_prompts": [], "system_prompt_ratio": "0.1"}, "a system prompt is empty, or there is none"),
        ({"system_prompts": [" "], "system_prompt_ratio": "0.1"}, "a system prompt is empty, or there is none"),
        ({"system_prompts": [1]}, "system_prompts=[1] is not a list of texts"),
        ({"layout": "llama"}, "layout='llama' is none of chatml"),
        ({"chat_template": "x.jinja"}, "chat_template is no ChatTemplate"),
    ],
)
def test_an_impossible_setting_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(RECIPES["sft"], settings)
    assert caught.value.what == says


def test_numbers_and_lists_are_read_as_what_the_field_holds() -> None:
    recipe = configure(
        RECIPES["sft"], {"system_prompt_ratio": "0.2", "think_removal_ratio": 1, "system_prompts": ["a"]}
    )
    assert (recipe.system_prompt_ratio, recipe.think_removal_ratio, recipe.system_prompts) == (0.2, 1.0, ("a",))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["sft", "dpo", "vlm-sft", "vlm-dpo"])
def test_a_template_of_another_layout_is_refused_where_targets_are_needed(name: str) -> None:
    other = ChatTemplate(source="{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}", where="other.jinja")
    with pytest.raises(ConfigError, match="does not render dialogues as the layout chatml") as caught:
        configure(RECIPES[name], {"chat_template": other})
    assert caught.value.where == "other.jinja"
    assert "--chat-template" in caught.value.hint
    raising = ChatTemplate(source="{{ raise_exception('no') }}")
    with pytest.raises(ConfigError, match="does not render dialogues as the layout chatml"):
        configure(RECIPES[name], {"chat_template": raising})


def test_a_template_that_renders_like_the_layout_is_taken_and_bound(shared: Any) -> None:
    other = ChatTemplate.load(shared / "data" / "tokenizers" / "minimind")
    recipe = configure(RECIPES["sft"], {"chat_template": other}).recipe()
    plain = configure(RECIPES["sft"], {}).recipe()
    assert (recipe["chat_template"], plain["chat_template"]) == (other.digest, chatml().digest)
    assert {**recipe, "chat_template": ""} == {**plain, "chat_template": ""}
