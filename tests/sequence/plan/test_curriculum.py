"""Other weights from a step or from a number of tokens on: the very step, over the ends of epochs and changes of settings."""

import pytest

from shardkit.sequence.plan import Mixture
from tests.sequence.plan.builders import epoch_steps, make_plan, members, random_lengths

STAGES = {
    "weights": {"a": 1, "b": 0},
    "then": [{"from_step": 7, "weights": {"a": 1, "b": 1}}, {"from_step": 30, "weights": {"a": 0, "b": 1}}],
}


@pytest.mark.parametrize("tail", ["drop", "wrap"])
@pytest.mark.parametrize("block", [16, 300])
def test_a_curriculum_by_steps_changes_with_the_very_step(block, tail):
    lengths = random_lengths(200, sources=["a", "b"])
    plan = make_plan(lengths, mixture=Mixture.of(STAGES), block=block, global_batch=3, tail=tail)

    steps = [step for epoch in range(4) for step in epoch_steps(plan, epoch)]
    assert len(steps) > 40

    sources = [{int(lengths.source[index]) for index in members([step])} for step in steps]
    assert all(found == {0} for found in sources[:7])
    assert 1 in set().union(*sources[7:10])
    first = next(number for number, found in enumerate(sources) if 1 in found)
    assert first in (7, 8)
    if tail == "drop":  # wrap fills the last step of an epoch with the first packs of it
        assert all(found == {1} for found in sources[30:])

    # From any step the same comes, also across the changes.
    for number, step in enumerate(steps[:-1], 1):
        fresh = make_plan(lengths, mixture=Mixture.of(STAGES), block=block, global_batch=3, tail=tail)
        fresh.remember(step.after)
        assert next(fresh.steps(step.after)) == steps[number]


def test_a_curriculum_goes_on_after_a_change_of_settings():
    lengths = random_lengths(200, sources=["a", "b"])
    mixture = Mixture.of(STAGES)
    old = make_plan(lengths, mixture=mixture, block=16, global_batch=3)
    before = epoch_steps(old, 0)[:5]

    rest = old.rest_at(before[-1].after)
    plan = make_plan(lengths, mixture=mixture, block=16, global_batch=3, max_tokens=120, rest=rest)
    steps = epoch_steps(plan, 0)

    sources = [{int(lengths.source[index]) for index in members([step])} for step in [*before, *steps]]
    assert all(found == {0} for found in sources[:7])
    assert 1 in sources[7] | sources[8]


def test_a_curriculum_that_begins_later_counts_the_steps_before():
    lengths = random_lengths(200, sources=["a", "b"])
    old = make_plan(lengths, global_batch=3)
    before = old.num_steps(0)
    cursor = epoch_steps(old, 1)[1].after

    rest = old.rest_at(cursor, of_run=True)

    assert (rest.run_steps, rest.run_tokens) == (before, lengths.tokens.sum())
    mixture = Mixture.of({**STAGES, "then": [{"from_step": before + 4, "weights": {"a": 0, "b": 1}}]})
    steps = epoch_steps(make_plan(lengths, mixture=mixture, global_batch=3, rest=rest), 1)
    sources = [{int(lengths.source[index]) for index in members([step])} for step in steps]
    assert [step.step for step in steps[:2]] == [2, 3]
    assert sources[:2] == [{0}, {0}]
    assert all(found == {1} for found in sources[2:])
