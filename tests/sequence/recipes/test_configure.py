"""Settings of a recipe, as text or as TOML values."""

from __future__ import annotations

import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.recipes import RECIPES, configure


def test_text_is_read_as_what_the_field_holds() -> None:
    recipe = configure(RECIPES["vlm"], {"image_size": "56", "supervise_eos": "False", "bos": "", "separator": "7"})
    assert (recipe.processor.image_size, recipe.supervise_eos, recipe.bos, recipe.separator) == (56, False, "", "7")
    assert configure(RECIPES["vlm"], {"image_size": 56, "supervise_eos": False, "bos": "", "separator": "7"}) == recipe


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"image_size": "big"}, "image_size='big' is not a whole number"),
        ({"image_size": "1.5"}, "image_size='1.5' is not a whole number"),
        ({"image_size": True}, "image_size=True is not a whole number"),
        ({"supervise_eos": "1"}, "supervise_eos='1' is not true or false"),
        ({"supervise_eos": 1}, "supervise_eos=1 is not true or false"),
        ({"bos": 3}, "bos=3 is not text"),
    ],
)
def test_another_kind_of_value_is_refused(settings: dict, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(RECIPES["vlm"], settings)
    assert caught.value.what == says
    assert f"--set {next(iter(settings))}=" in caught.value.hint


def test_an_unknown_setting_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        configure(RECIPES["pretrain"], {"seperator": "x"})
    assert caught.value.what == (
        "recipe pretrain has no setting 'seperator'; it has bos, eos, supervise_eos, separator"
    )
    assert caught.value.hint == "write --set KEY=VALUE with one of these (did you mean separator?)"
