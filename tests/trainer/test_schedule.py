"""Learning rates of steps, by hand."""

from __future__ import annotations

import pytest

from shardkit.trainer.schedule import learning_rate
from tests.trainer.test_config import make_config


def rates(steps: int, *, before: float = 0.0, **changes) -> list[float]:
    config = make_config(**{"lr": 1.0, "steps": steps, **changes})
    return [learning_rate(config, number, steps, before=before) for number in range(1, steps + 1)]


def test_constant_rises_and_stays():
    assert rates(4, warmup=2) == [0.5, 1.0, 1.0, 1.0]
    assert rates(2, warmup=0) == [1.0, 1.0]
    assert rates(4, warmup=2, before=3.0) == [2.0, 1.0, 1.0, 1.0]


def test_more_steps_change_no_rate_of_a_constant_run():
    assert rates(9, warmup=3)[:5] == rates(5, warmup=3)


def test_cosine_ends_at_a_tenth():
    assert rates(5, warmup=1, schedule="cosine") == pytest.approx([1.0, 0.868198, 0.55, 0.231802, 0.1], abs=1e-6)
    assert rates(2, warmup=5, schedule="cosine") == pytest.approx([0.2, 0.4])


def test_the_last_step_of_a_cosine_is_bound_that_of_a_constant_rate_is_not():
    one, other = (make_config(schedule="cosine", steps=steps).bound() for steps in (3, 4))
    assert (one["steps"], other["steps"]) == (3, 4)
    assert make_config(steps=3).bound() == make_config(steps=4).bound()
