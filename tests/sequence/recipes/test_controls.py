"""Control tokens of a recipe: which names. That data cannot say them is tested for every recipe, in contract."""

from __future__ import annotations

import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.recipes.controls import AUTO, resolve
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
