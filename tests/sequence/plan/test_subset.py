"""A part of the data of equal tokens, sequences or compute."""

import numpy as np
import pytest

from shardkit.sequence.plan import Mixture
from tests.sequence.plan.builders import epoch_steps, make_plan, members, random_lengths


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
