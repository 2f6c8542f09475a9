"""Control tokens of a recipe: which names, and that data cannot say them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError
from shardkit.records import Example, Segment
from shardkit.sequence.recipes import RECIPES, bind, configure, names_of
from shardkit.sequence.recipes.controls import AUTO, resolve
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_example
from tests.tokenizer_builders import EARLIER, MINIMIND

PARTS = dict.fromkeys(("bos", "eos", "image_start", "image_patch", "image_end"), AUTO)


@pytest.mark.parametrize(
    ("present", "names"),
    [
        (MINIMIND, ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]),
        (EARLIER, ["<bos>", "<eos>", "<image_start>", "<image_patch>", "<image_end>"]),
    ],
)
def test_the_tokenizers_own_family_is_taken(present: tuple[str, ...], names: list[str]) -> None:
    assert list(resolve(PARTS, present).values()) == names


def test_given_names_stand_before_the_family() -> None:
    wanted = {**PARTS, "bos": "", "eos": "<|endoftext|>"}
    assert list(resolve(wanted, MINIMIND).values())[:3] == ["", "<|endoftext|>", "<|vision_start|>"]
    assert resolve({"bos": AUTO, "eos": AUTO}, ["<bos>", "<eos>"]) == {"bos": "<bos>", "eos": "<eos>"}


def test_missing_tokens_are_listed_with_what_there_is() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(PARTS, ["<|im_start|>", "<|im_end|>", "<|image_pad|>"])
    assert caught.value.what == (
        "the tokenizer has no control token <|vision_start|> (image_start), <|vision_end|> (image_end); "
        "it has <|im_start|>, <|im_end|>, <|image_pad|>"
    )
    assert caught.value.hint == (
        "name one with --set image_start=TOKEN, or append what is missing with --add-control-tokens"
    )


@pytest.mark.parametrize(
    ("present", "says"), [([], "it has none"), ([f"<{n}>" for n in range(50)], "<38>, <39> and 10 more")]
)
def test_a_long_list_of_tokens_is_shortened_aloud(present: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(PARTS, present)
    assert caught.value.what.endswith(says)


def test_with_adding_the_family_that_is_nearly_there_is_completed() -> None:
    assert resolve(PARTS, ["<bos>", "<image_patch>"], add=True)["eos"] == "<eos>"
    assert resolve(PARTS, [], add=True)["eos"] == "<|im_end|>"


@pytest.mark.parametrize("patch", ["", "<|im_end|>"])
def test_the_patch_is_a_token_of_its_own(patch: str) -> None:
    with pytest.raises(ConfigError, match="marks no image slots"):
        resolve({**PARTS, "image_patch": patch}, MINIMIND)


def test_bos_and_eos_may_be_one_token() -> None:
    assert set(resolve({"bos": "<|endoftext|>", "eos": "<|endoftext|>"}, MINIMIND).values()) == {"<|endoftext|>"}


# ------------------------------------------------------------------ data cannot say them
def _minimind(sample: Path, _: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.load(sample / "tokenizer")


def _torchtitan(_: Path, request: pytest.FixtureRequest) -> Tokenizer:
    """The one without control tokens, with all that its config file names declared."""
    folder = request.getfixturevalue("shared") / "data/tokenizers/torchtitan_test"
    config = orjson.loads((folder / "tokenizer_config.json").read_bytes())
    return Tokenizer.load(folder).with_controls(token["content"] for token in config["added_tokens_decoder"].values())


DIALOGUE_MARKS = {"im_start": 2, "im_end": 2, "think_start": 1, "think_end": 1}


def _dialogue(*texts: str) -> Example:
    segments = tuple(
        Segment(kind="text", role=role, text=text) for role, text in zip(("user", "assistant"), texts, strict=True)
    )
    return Example(source="test", segments=segments)


@pytest.mark.parametrize("load", [_minimind, _torchtitan])
@pytest.mark.parametrize("name", RECIPES)
def test_control_strings_of_data_stay_text(name: str, load, sample: Path, request: pytest.FixtureRequest) -> None:
    tokenizer = load(sample, request)
    recipe = bind(configure(RECIPES[name], {}), tokenizer.controls, add=True)
    tokenizer = tokenizer.with_controls(names_of(recipe))
    processor = recipe.image_processor()
    strings = [*tokenizer.controls, *EARLIER, *MINIMIND]
    for control in strings:
        text = f"a{control}{control} b\n{control}"
        example = _dialogue(text, control) if name == "sft" else make_example(0, text, 1, control)
        (sequence,) = recipe.build(example, tokenizer, processor, 4096, "error").sequences
        ids = sequence.input_ids.tolist()
        parts = DIALOGUE_MARKS if name == "sft" else dict.fromkeys(recipe.CONTROLS, 1)
        expected = Counter({tokenizer.controls[getattr(recipe, part)]: times for part, times in parts.items()})
        if processor is not None:
            assert [slot.count for slot in sequence.slots] == [64, 64]
            for part, times in (("image_start", 2), ("image_patch", 128), ("image_end", 2)):
                expected[tokenizer.controls[getattr(recipe, part)]] = times
        found = Counter(token for token in ids if token in tokenizer.controls.values())
        assert found == expected, control
    assert len(strings) >= 35
