"""A part of the data of equal tokens, sequences or compute."""

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.mixture import whole_weights
from shardkit.sequence.plan.subset import attainable, subset_amounts
from tests.sequence.plan.builders import epoch_steps, make_lengths, make_plan, members, random_lengths


@pytest.mark.parametrize("unit", ["tokens", "examples", "compute"])
def test_a_subset_is_the_same_in_every_epoch_and_a_larger_one_holds_it(unit):
    lengths = random_lengths(300, sources=["a", "b"])
    amounts = {"tokens": lengths.tokens, "examples": np.ones(300, np.int64), "compute": lengths.cost}[unit]
    found = []
    for share in (0.1, 0.3):
        budget = int(amounts.sum() * share)
        mixture = Mixture.of({"by": "token", "weights": {"a": 2, "b": 1}, "subset": {unit: budget}})
        plan = make_plan(lengths, mixture=mixture, block=32)
        epochs = [set(members(epoch_steps(plan, epoch))) for epoch in range(2)]
        assert epochs[0] == epochs[1]
        held = amounts[sorted(epochs[0])]
        assert budget <= held.sum() < budget + held.max()
        found.append(epochs[0])
    assert found[0] < found[1]


def test_more_than_there_is_is_refused_with_both_numbers():
    lengths = make_lengths([10] * 30, sources=["a", "b", "c"] * 10)
    mixture = {"weights": {"a": 1, "b": 1, "c": 0}, "subset": {"tokens": 201}}

    with pytest.raises(ConfigError) as caught:
        make_plan(lengths, mixture=Mixture.of(mixture))

    assert (
        str(caught.value) == "a subset of 201 tokens is more than there is: all that the mixture draws are 200 tokens"
    )
    make_plan(lengths, mixture=Mixture.of({**mixture, "subset": {"tokens": 200}}))


@pytest.mark.parametrize("by", ["example", "token"])
def test_a_subset_of_one_sequence_leaves_the_other_sources_out(by):
    lengths = random_lengths(50, sources=["a", "b"])
    plan = make_plan(lengths, mixture=Mixture.of({"by": by, "weights": {"a": 1, "b": 1}, "subset": {"examples": 1}}))

    epochs = [members(epoch_steps(plan, epoch)) for epoch in range(3)]

    assert epochs[0] == epochs[1] == epochs[2]
    assert len(epochs[0]) == 1


def test_what_a_subset_holds_is_told_in_every_unit():
    lengths = random_lengths(300, sources=["a", "b"])
    mixture = Mixture.of({"by": "token", "weights": {"a": 2, "b": 1}, "subset": {"compute": 10**7}})

    holds = subset_amounts(lengths, mixture, seed=0, window=8)

    inside = sorted(set(members(epoch_steps(make_plan(lengths, mixture=mixture), 0))))
    assert holds == {
        "tokens": lengths.tokens[inside].sum(),
        "examples": len(inside),
        "compute": lengths.cost[inside].sum(),
    }
    assert 10**7 <= holds["compute"] < 10**7 + lengths.cost.max()


def test_shares_of_a_subset_are_those_that_its_sources_can_keep():
    lengths = make_lengths([10] * 100, sources=["a"] * 80 + ["b"] * 20)
    asked = Mixture.of({"by": "token", "weights": {"a": 1, "b": 1}, "subset": {"tokens": 600}})

    mixture, short = attainable(lengths, asked, seed=0, window=8)

    assert short == ("b",)
    assert whole_weights(mixture) == {"a": 400, "b": 200}
    plan = make_plan(lengths, mixture=mixture)
    drawn = members(epoch_steps(plan, 0))
    assert len(drawn) == len(set(drawn)) == 60, "an epoch is the subset, once"
    assert len(members(epoch_steps(make_plan(lengths, mixture=asked), 0))) > 70
    fits = Mixture.of({"by": "token", "weights": {"a": 1, "b": 1}, "subset": {"tokens": 400}})
    assert attainable(lengths, fits, seed=0, window=8) == (fits, ())
