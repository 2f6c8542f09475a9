"""Figures of an epoch."""

import numpy as np
import pytest

from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.budget import spend
from shardkit.sequence.plan.report import describe
from tests.sequence.plan.builders import make_lengths, make_plan, random_lengths


def test_figures_of_four_sequences():
    plan = make_plan(make_lengths([60, 40, 70, 20]), global_batch=1)

    figures = describe(plan, 0, [1])

    assert (figures["steps"], figures["packs"], figures["tokens"], figures["sequences"]) == (2, 2, 190, 4)
    assert figures["fill"] == 1.0
    assert figures["least_packs"] == {"number": 2, "by": "tokens"}
    assert np.isclose(figures["padding"], 0.05)
    assert figures["per_pack"]["tokens"] == {"mean": 95.0, "p50": 95.0, "p99": 99.9, "max": 100.0}
    assert figures["straggler"] == {"1": 1.0}


@pytest.mark.parametrize(("tail", "ratio"), [("drop", 1.0), ("pad", 4.0), ("wrap", 1.0)])
def test_packs_that_fill_a_step_up_count_for_the_balance(tail, ratio):
    plan = make_plan(make_lengths([60]), global_batch=4, tail=tail)

    figures = describe(plan, 0, [4])

    assert figures["steps"] == (tail != "drop")
    assert figures["straggler"] == {"4": ratio}
    spent = spend(plan, "tokens", 100)
    assert spent["delivered"]["tokens"] == {"drop": 0, "pad": 120, "wrap": 240}[tail]
    assert (spent["reached"], spent["steps"]) == (tail != "drop", {"drop": 0, "pad": 2, "wrap": 1}[tail])


def test_sources_say_how_often_they_were_drawn_whole():
    lengths = random_lengths(90, sources=["a", "a", "b"])
    plan = make_plan(lengths, mixture=Mixture.of({"weights": {"a": 1, "b": 1}}))

    sources = describe(plan, 0)["sources"]

    assert sources["a"]["passes"] == 1.0
    assert sources["b"]["passes"] > 1.5
    assert abs(sources["a"]["shares"]["example"] - 0.5) < 0.01


def test_an_empty_dataset_has_figures_too():
    figures = describe(make_plan(make_lengths([])), 0, [1])

    assert (figures["steps"], figures["packs"], figures["fill"], figures["padding"]) == (0, 0, 1.0, 0.0)
    assert figures["per_pack"]["tokens"]["max"] == 0.0
