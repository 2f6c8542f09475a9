"""What every recipe promises, over examples of every kind: a recipe may refuse one, with a reason, but not bend a rule."""

from __future__ import annotations

import json
import pickle
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from shardkit.digest import canonical_json
from shardkit.errors import ConfigError, SourceError
from shardkit.records import Example, Image, LayoutItem, Relation, Segment, example_id
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes import CHANGES, OVERLONG, REASONS, RECIPES, Built, bind, configure, names_of
from shardkit.sequence.sequence import Sequence
from shardkit.text.template import ChatTemplate, chatml
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_image
from tests.tokenizer_builders import EARLIER

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "tokenizer"
DRAWN = {
    "alternatives": 3, "system_prompt_ratio": 0.5, "think_removal_ratio": 0.5, "open_thinking_ratio": 0.5, "captions": "one",
}  # fmt: skip
"""Settings by which passes differ, of the recipes that have them."""


@pytest.fixture(params=RECIPES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ------------------------------------------------------------------ examples of every kind, with `word` in every text
def text_of(text: str, role: str | None = None, name: str | None = None) -> Segment:
    return Segment(kind="text", text=text, role=role, name=name)


def talk(word: str, side: str = "") -> tuple[Segment, ...]:
    """A dialogue with all parts that a turn can have."""
    tools = json.dumps([{"type": "function", "function": {"name": word, "parameters": {word: [word]}}}])
    calls = json.dumps(
        [{"name": word, "arguments": {word: word}}, {"function": {"name": "f", "arguments": f'"{word}"'}}]
    )
    parts = [
        (word, "system", ""), (tools, "system", "tools"), (word, "user", ""), (f"a{word}", "assistant", "reasoning_content"),
        (f"{word}{word} ", "assistant", ""), (calls, "assistant", "tool_calls"), (word, "tool", ""), (word, "tool", ""),
    ]  # fmt: skip
    return tuple(text_of(text, role, ".".join(filter(None, (side, part))) or None) for text, role, part in parts)


def examples(word: str) -> Iterator[Example]:
    said = f"a{word}{word} b\n{word}"
    page = replace(
        make_image(number=7),
        ocr_labels=(1, 2),
        layout=(LayoutItem(level="line", text=said, polygon=(1, 1, 40, 9), order=0), LayoutItem(level="line", text=word, polygon=(1, 12, 40, 20), order=1)),
    )  # fmt: skip
    pictures = (make_image(), make_image(56, 28, number=1))
    plain = tuple(text_of(text) for text in (said, word))
    seen = tuple(Segment(kind="image", image=number) for number in range(2))
    ends = [(text_of(f"{said}{side}", "assistant", side),) for side in ("chosen", "rejected")]
    pair = (*talk(word, "chosen"), *ends[0], *talk(word, "rejected"), *ends[1])
    last = text_of(f"{word}.", "assistant")
    yield from (
        made(plain),
        made((seen[0], plain[0], seen[1], plain[1]), pictures, [Relation(kind="interleaved", images=(0, 1))]),
        made((seen[0], *plain), pictures[:1], [Relation(kind="caption", images=(0,), segments=(at,)) for at in (1, 2)]),
        made((seen[0], plain[0]), (page,), [Relation(kind="ocr", images=(0,), segments=(1,))]),
        made((*talk(word), last), metadata={"gt": [word]}),
        made((text_of(word, "user"), last), metadata={"gt": [word]}),
        made((*shown_in(talk(word), seen), last), pictures, metadata={"gt": [word]}),
        made(pair),
        made(
            (*shown_in(talk(word, "chosen"), seen), *ends[0], *shown_in(talk(word, "rejected"), seen), *ends[1]),
            pictures,
        ),
    )


def shown_in(turns: tuple[Segment, ...], images: tuple[Segment, ...]) -> Iterator[Segment]:
    """The dialogue with all images before the content of every turn."""
    for turn in turns:
        if (turn.name or "").rpartition(".")[2] in ("", "chosen", "rejected"):
            yield from (replace(image, role=turn.role, name=turn.name) for image in images)
        yield turn


def made(
    segments: tuple[Segment, ...], images: tuple[Image, ...] = (), relations: Any = (), metadata: Any = None
) -> Example:
    found = Example(
        source="test",
        segments=segments,
        images=images,
        relations=tuple(relations),
        metadata=canonical_json(metadata or {}).decode(),
    )
    return replace(found, example_id=example_id(found))


# ------------------------------------------------------------------ tokenizers
def minimind(_: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.load(SAMPLE)


def torchtitan(request: pytest.FixtureRequest) -> Tokenizer:
    """The one without control tokens, with all that its config file names declared."""
    folder = request.getfixturevalue("shared") / "data/tokenizers/torchtitan_test"
    config = orjson.loads((folder / "tokenizer_config.json").read_bytes())
    return Tokenizer.load(folder).with_controls(token["content"] for token in config["added_tokens_decoder"].values())


class Maker:
    """A recipe bound to a tokenizer."""

    def __init__(self, name: str, tokenizer: Tokenizer, **settings: Any) -> None:
        self.recipe = bind(configure(RECIPES[name], settings), tokenizer.controls, add=True)
        self.tokenizer = tokenizer.with_controls(names_of(self.recipe))

    def build(self, example: Example, max_tokens: int = 1 << 16, overlong: str = "window") -> Built:
        processor = self.recipe.image_processor()
        return self.recipe.build(example, self.tokenizer, processor, max_tokens, overlong)


def makers(name: str) -> list[Maker]:
    """The recipe as it is, and drawing."""
    known = {field.name: field for field in fields(RECIPES[name])}
    drawn = {}
    for key, value in DRAWN.items():
        if key in known:
            try:
                configure(RECIPES[name], {key: value})
            except ConfigError:
                continue
            drawn[key] = value
    tokenizer = Tokenizer.load(SAMPLE)
    return [Maker(name, tokenizer), *([Maker(name, tokenizer, **drawn)] if drawn else [])]


# ------------------------------------------------------------------ promises
def test_a_recipe_states_what_it_is(name: str) -> None:
    kind = RECIPES[name]
    assert (kind.NAME, kind.VERSION >= 1, kind.MAX_TOKENS >= 2) == (name, True, True)
    assert set(kind.TARGETS) <= set(OBJECTIVES) - {"none"}
    assert bool(kind.TARGETS) is not kind.PROMPTS
    assert set(kind.CONTROLS) <= {field.name for field in fields(kind)}
    assert all(field.default is not MISSING for field in fields(kind))


def test_the_defaults_of_lengths_are_those_of_the_field() -> None:
    assert {name: kind.MAX_TOKENS for name, kind in RECIPES.items() if name in ("pretrain", "sft", "dpo")} == {
        "pretrain": 340,
        "sft": 1024,
        "dpo": 4096,
    }


def test_a_recipe_has_a_page_and_a_line_among_the_others(name: str) -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    (line,) = [
        line for line in (docs / "recipes.md").read_text("utf-8").splitlines() if line.startswith(f"| [{name}](")
    ]
    assert line.startswith(f"| [{name}](recipes/{name}.md) |")
    assert line.endswith(f"| {RECIPES[name].MAX_TOKENS} |")
    assert (docs / "recipes" / f"{name}.md").is_file()


def test_every_field_is_in_the_fingerprint(name: str) -> None:
    kind = RECIPES[name]
    plain = configure(kind, {}).recipe()
    assert {field.name for field in fields(kind)} | {"name", "version"} <= set(plain)
    for field in fields(kind):
        other = changed(kind, field.name, field.default)
        assert other is None or other.recipe() != plain, field.name
    assert orjson.loads(canonical_json(plain)) == plain, "a manifest gives back what it was given"


def changed(kind: Any, field: str, default: Any) -> Any:
    """The recipe with another value of a field, if there is one we can think of; an error about one names others."""
    if default is None:
        # Another text that renders the same.
        return kind(**{field: ChatTemplate(source=chatml().source + "{# #}")})
    if not isinstance(default, str | bool | int | float | tuple):
        return None
    kind_of = type(default)
    candidates = [
        ("x",) if kind_of is tuple else not default if kind_of is bool else "x" if kind_of is str else default + 1
    ]
    said = ""
    for candidate in candidates:
        try:
            return kind(**{field: candidate})
        except ConfigError as error:
            said = error.what
            if kind_of is str:
                named = re.findall(r"[\w-]+", said)
            else:
                named = [kind_of(number) for number in re.findall(r"[0-9]+", said)] + (
                    [0.25] if kind_of is float else []
                )
            candidates += [other for other in named if other not in (*candidates, default)]
    if said.endswith(f"is none of {default}"):
        return None
    raise AssertionError(f"no other value of {field} is taken: {said}")


def test_a_recipe_travels_to_workers(name: str) -> None:
    for maker in makers(name):
        assert pickle.loads(pickle.dumps(maker.recipe)) == maker.recipe


def test_what_is_left_out_has_a_reason_and_something_is_made(name: str) -> None:
    for maker in makers(name):
        all_built = [maker.build(example) for example in examples("word")]
        assert any(built.sequences for built in all_built)
        for built in all_built:
            assert bool(built.sequences) is not bool(built.reason)
            assert built.reason in ("", *REASONS)
            assert bool(built.detail) is bool(built.reason)
            assert set(built.changes) <= set(CHANGES)


@pytest.mark.parametrize("blank", [" ", "\n\n", "\u3000\t"])
def test_white_space_alone_is_nothing_to_learn(name: str, blank: str) -> None:
    said = text_of(blank)
    seen = (make_image(),)
    answers = [text_of(blank, "assistant", side) for side in ("chosen", "rejected")]
    for maker in makers(name):
        for example in (
            made((said, said)),
            made((Segment(kind="image", image=0), said), seen),
            made((text_of("q", "user"), text_of(blank, "assistant"))),
            made((text_of("q", "user", "chosen"), answers[0], text_of("q", "user", "rejected"), answers[1])),
        ):
            built = maker.build(example)
            assert built.reason or maker.recipe.PROMPTS or (name == "text-replay" and example.segments[0].text == "q")


def test_the_same_example_gives_the_same_sequences(name: str) -> None:
    for maker in makers(name):
        for example in examples("word"):
            one, other = maker.build(example), maker.build(example)
            assert [spelled(sequence) for sequence in one.sequences] == [
                spelled(sequence) for sequence in other.sequences
            ]


def spelled(sequence: Sequence) -> tuple[Any, ...]:
    return (
        sequence.input_ids.tolist(), sequence.objectives, sequence.slots, sequence.window, sequence.documents,
        sequence.alternative, sequence.alternatives, sequence.prompt,
    )  # fmt: skip


@pytest.mark.parametrize("overlong", OVERLONG)
@pytest.mark.parametrize("max_tokens", [40, 100, 220, 500])
def test_every_sequence_keeps_the_form(name: str, overlong: str, max_tokens: int) -> None:
    for maker in makers(name):
        targets = {OBJECTIVES[target] for target in maker.recipe.TARGETS}
        for example in examples("some words"):
            try:
                built = maker.build(example, max_tokens, overlong)
            except SourceError:
                assert overlong == "error"
                continue
            for number, sequence in enumerate(built.sequences):
                assert sequence.window == number
                assert 0 <= sequence.alternative < sequence.alternatives
                assert 0 < sequence.num_tokens <= max_tokens
                assert len(sequence.objectives) == sequence.num_tokens
                assert sequence.documents[0] == 0
                assert list(sequence.documents) == sorted(set(sequence.documents))
                assert all(sequence.objectives[start] == 0 for start in sequence.documents)
                assert set(sequence.objectives) - {0} <= targets
                assert (sequence.num_supervised == 0) is maker.recipe.PROMPTS
                assert (sequence.prompt is None) is not maker.recipe.PROMPTS
                end = 0
                for slot in sequence.slots:
                    assert end <= slot.start < slot.start + slot.count <= sequence.num_tokens
                    assert 0 <= slot.image < len(example.images)
                    assert not any(sequence.objectives[slot.start : slot.start + slot.count])
                    end = slot.start + slot.count


@pytest.mark.parametrize("max_tokens", [70, 150, 400])
def test_windows_have_every_target_behind_its_predecessor_once(name: str, max_tokens: int) -> None:
    for maker in makers(name):
        for example in examples("some words"):
            built = maker.build(example, max_tokens)
            if built.sequences:
                assert targets_of(built) == targets_of(maker.build(example))


def targets_of(built: Built) -> dict[int, list[tuple[int, int, int]]]:
    """By alternative: token before, target and objective of each target, in order. Sequences may be in any order."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for sequence in built.sequences:
        ids = sequence.input_ids.tolist()
        found.setdefault(sequence.alternative, []).extend(
            (ids[at - 1], ids[at], objective) for at, objective in enumerate(sequence.objectives) if objective
        )
    return {number: sorted(targets) for number, targets in found.items()}


# ------------------------------------------------------------------ data cannot say control tokens
def test_the_control_tokens_of_a_sequence_are_those_of_its_structure(name: str, request: pytest.FixtureRequest) -> None:
    """All recipes, all examples, all control strings of two tokenizers and of the first row schema."""
    for load in (minimind, torchtitan):
        # What is drawn depends on the content: not here.
        never = {field.name: 0.0 for field in fields(RECIPES[name]) if field.name.endswith("_ratio")}
        maker = Maker(name, load(request), **never)
        expected = [marks(maker, example) for example in examples("word")]
        assert any(expected)
        for word in dict.fromkeys([*maker.tokenizer.controls, *EARLIER]):
            assert [marks(maker, example) for example in examples(word)] == expected, word


def marks(maker: Maker, example: Example) -> Counter[int]:
    controls = set(maker.tokenizer.controls.values())
    return Counter(
        token
        for sequence in maker.build(example).sequences
        for token in sequence.input_ids.tolist()
        if token in controls
    )
