"""What packs hold: limits, and sums over their members."""

import pytest

from shardkit.errors import ConfigError
from tests.sequence.plan.builders import epoch_steps, make_lengths, make_plan, members, random_lengths


@pytest.mark.parametrize("name", ["tokens", "images", "patches"])
def test_a_limit_below_the_longest_sequence_is_refused_with_both_numbers(name):
    lengths = make_lengths([5, 90], images=[1, 7], patches=[4, 28])
    longest = {"tokens": 90, "images": 7, "patches": 28}[name]

    make_plan(lengths, **{f"max_{name}": longest})
    with pytest.raises(ConfigError) as caught:
        make_plan(lengths, **{f"max_{name}": longest - 1})

    assert str(caught.value) == f"max_{name} is {longest - 1}, but the longest sequence has {longest} {name}"
    assert f"--max-{name} to {longest} or more" in caught.value.hint


def test_attention_is_a_limit_of_its_own():
    lengths = random_lengths(300)
    plan = make_plan(lengths, max_tokens=400, max_attention=20_000)

    packs = [list(step.packs[0]) for step in epoch_steps(plan, 0)]

    attention = [int((lengths.tokens[pack] ** 2).sum()) for pack in packs]
    assert max(attention) <= 20_000
    assert max(int(lengths.tokens[pack].sum()) for pack in packs) > 200
    assert plan.fill(0) > 0.9


def test_denominators_are_the_targets_of_the_whole_global_batch():
    lengths = random_lengths(40)
    lengths.supervised[3] = lengths.tokens // 2
    plan = make_plan(lengths, global_batch=4)

    for step in epoch_steps(plan, 0):
        inside = members([step])
        expected = [0, lengths.tokens[inside].sum() - len(inside), 0, (lengths.tokens[inside] // 2).sum(), 0, 0, 0]
        assert plan.denominators(step.packs).tolist() == expected
    assert plan.denominators([()]).tolist() == [0] * 7


def test_no_packing_is_one_sequence_a_pack():
    steps = epoch_steps(make_plan(random_lengths(50), packer="none"), 0)

    assert sorted(step.packs for step in steps) == [((index,),) for index in range(50)]
