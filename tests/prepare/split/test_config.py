from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.near import NearRules

RULES = NearRules(perceptual=None, transforms=(), text=None, preset="web", semantic=None)


def config(ratios: str = "train=0.9,test=0.1", **options) -> SplitConfig:
    return SplitConfig(input=Path("in"), output=Path("out"), ratios=parse_ratios(ratios), **options)


def test_ratios_are_read_exactly_and_in_their_order():
    made = config(" train = 0.8 ,val=.1,test=1/10")
    assert made.shares == {"train": Fraction(4, 5), "val": Fraction(1, 10), "test": Fraction(1, 10)}
    assert made.recipe(RULES)["ratios"] == [["train", "0.8"], ["val", ".1"], ["test", "1/10"]]


@pytest.mark.parametrize(
    ("ratios", "what"),
    [
        ("train", "--ratios: 'train' is not NAME=SHARE"),
        ("train=1,", "--ratios: '' is not NAME=SHARE"),
        ("train=0.5,test=0.4", "--ratios add up to 0.9, not to 1"),
        ("train=1.5,test=-0.5", "--ratios: test=-0.5 is no share over 0"),
        ("train=1,test=0", "--ratios: test=0 is no share over 0"),
        ("train=x", "--ratios: train=x is no share over 0"),
        ("train=1/0", "--ratios: train=1/0 is no share over 0"),
        ("train=0.5,train=0.5", "--ratios names a split twice"),
        ("../up=1", "--ratios: '../up' cannot be the name of a split"),
        ("all=1", "--ratios: 'all' cannot be the name of a split"),
    ],
)
def test_ratios_that_cannot_be(ratios: str, what: str):
    with pytest.raises(ConfigError) as caught:
        config(ratios)
    assert caught.value.what == what
    assert "--ratios" in caught.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"group_by": "@nothing"},
        {"group_by": "@path:(["},
        {"group_by": "@path:no-group"},
        {"on_missing_group": "drop"},
        {"shards": "zip"},
        {"shard_size": 0},
        {"unit_size": 0},
        {"frequent_asset_limit": 0},
        {"max_group_share": 0.0},
    ],
)
def test_options_that_cannot_be(options: dict):
    with pytest.raises(ConfigError):
        config(**options)


def test_paths_workers_and_overwrite_are_no_part_of_the_recipe():
    one = config(workers=1)
    two = SplitConfig(
        input=Path("x"), output=Path("y"), ratios=one.ratios, workers=9, overwrite=True, bases=(Path("z"),)
    )
    assert one.recipe(RULES, "id") == two.recipe(RULES, "id")
    assert one.recipe(RULES, "id") != one.recipe(RULES)
    assert config(group_by="@domain").recipe(RULES)["public_suffix_list"]
