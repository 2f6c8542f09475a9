"""Impossible settings are refused before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.sizes import PRESETS


def make_config(**changes):
    return TrainConfig(**{"task": "vlm-align", "data": Path("tokens"), "out": Path("run"), "steps": 3, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "poem"}, "task 'poem' is none of vlm-align, lm, sft, dpo"),
        ({"preset": "huge"}, "preset 'huge' is none of smoke, small, h200"),
        ({"positions": "none"}, "positions 'none' is none of rotary, learned"),
        ({"freeze": ("head",)}, "freeze 'head' is none of vision, lm"),
        ({"freeze": ("vision", "lm")}, "everything is frozen"),
        ({"task": "lm", "freeze": ("lm",)}, "everything is frozen"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 2.0}, r"steps is 2\.0, not a whole number from 1 on"),
        ({"steps": True}, "steps is True"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_images": 0}, "max_images is 0"),
        ({"warmup": -1}, "warmup is -1, not a whole number from 0 on"),
        ({"clip": 0.0}, r"clip is 0\.0, not a number above 0"),
        ({"lr": "fast"}, "lr is 'fast'"),
        ({"resume_from": 3}, "resume_from is set"),
        ({"objective_weights": {"text": "much"}}, "the weight of text is 'much'"),
        ({"objective_weights": {"text": True}}, "the weight of text is True"),
        ({"global_batch": 0}, "global_batch is 0"),
        ({"global_batch": 3, "micro_steps": 2}, "2 micro-steps do not share 3 packs evenly"),
        ({"threads": 0}, "threads is 0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"theta": 1.0}, r"theta is 1\.0"),
        ({"schedule": "linear"}, "schedule 'linear' is none of constant, cosine"),
        ({"device": "abacus"}, "device 'abacus' is none of cpu, cuda"),
        ({"precision": "fp8"}, "precision 'fp8' is none of fp32, bf16"),
        ({"packer": "tetris"}, "packer 'tetris' is none of best-fit"),
        ({"objective_weights": {"text": -1.0}}, "the weight of text is -1.0"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        make_config(**changes)


def test_a_resumed_run_may_change_what_its_weights_do_not_depend_on():
    first = make_config()
    other = make_config(steps=9, out=Path("elsewhere"), checkpoint_every=1, keep_last=9, resume=True)
    assert first.bound() == other.bound()


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1}, {"lr": 2e-3}, {"warmup": 3}, {"global_batch": 2}, {"global_batch": 2, "micro_steps": 2}, {"max_tokens": 64},
        {"max_images": 4}, {"max_patches": 64}, {"max_attention": 4096},
        {"preset": "small"}, {"positions": "learned"}, {"freeze": ("lm",)}, {"objective_weights": {"text": 1.0}},
        {"threads": 1}, {"weight_decay": 0.0}, {"clip": 2.0}, {"task": "lm"},
        {"schedule": "cosine"}, {"packer": "next-fit"}, {"mixture": {"weights": {"a": 1}}}, {"theta": 5e5}, {"compile": True},
        {"device": "cuda"}, {"precision": "bf16"},
    ],
    ids=str,
)  # fmt: skip
def test_everything_that_weights_depend_on_is_bound(change):
    assert make_config().bound() != make_config(**change).bound()


def test_heads_divide_the_width_in_every_preset():
    for size in PRESETS.values():
        assert size.width % size.heads == 0
        assert size.heads % size.kv_heads == 0
        assert size.width // size.heads % 2 == 0  # rotary positions turn pairs
        assert size.tower.width % size.tower.heads == 0
        assert size.tower.width % 4 == 0  # sines and cosines of two coordinates
