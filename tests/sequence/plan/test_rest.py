"""What is left of an epoch, and a plan that begins with it."""

from itertools import pairwise

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.rest import missing_ranges
from tests.sequence.plan.builders import epoch_steps, make_plan, members, random_lengths

MIXED = Mixture.of({"by": "token", "weights": {"a": 1, "b": 2}})


def test_what_lacks_of_a_cut_sequence():
    assert missing_ranges(10, [(0, 4)], None) == (0, ((3, 10),))
    assert missing_ranges(10, [(0, 4), (3, 10)], None) == (1, ())
    assert missing_ranges(10, [(3, 7)], None) == (0, ((0, 4), (6, 10)))
    assert missing_ranges(10, [(3, 7)], ((3, 10),)) == (0, ((6, 10),))
    assert missing_ranges(10, [(3, 10)], ((3, 10),)) == (1, ())
    assert missing_ranges(10, [(0, 4), (3, 10), (0, 4)], None) == (1, ((3, 10),))


@pytest.mark.parametrize("seed", range(20))
def test_equals_counting_each_target(seed):
    random = np.random.default_rng(seed)
    tokens = int(random.integers(3, 30))
    cuts = [0, *sorted(set(random.integers(1, tokens - 1, 4).tolist())), tokens - 1]
    parts = [(start, stop + 1) for start, stop in pairwise(cuts)]
    delivered = [part for part in parts if random.random() < 0.6]
    times = [sum(start < target < stop for start, stop in delivered) for target in range(1, tokens)]

    least, left = missing_ranges(tokens, delivered, None)

    assert least == min(times)
    expected = {t for t in range(1, tokens) if times[t - 1] == least} if max(times) > least else set()
    assert {t for start, stop in left for t in range(start + 1, stop)} == expected


@pytest.mark.parametrize("mixture", [None, MIXED], ids=["one", "mixed"])
def test_a_rest_gives_what_is_left_and_then_whole_epochs(mixture):
    lengths = random_lengths(120, sources=["a", "b"])
    old = make_plan(lengths, block=32)
    before = epoch_steps(old, 2)[:10]
    delivered = members(before)

    plan = make_plan(lengths, mixture=mixture, block=32, seed=9, rest=old.rest_at(before[-1].after))
    steps = epoch_steps(plan, 2)

    assert [step.step for step in steps] == list(range(10, 10 + len(steps)))
    assert plan.num_steps(2) == 10 + len(steps)
    assert [plan.global_batch(2, step.step) for step in steps] == [step.packs for step in steps]
    left = set(range(120)) - set(delivered)
    if mixture is None:
        assert sorted(members(steps)) == sorted(left)
        assert sorted(members(epoch_steps(plan, 3))) == list(range(120))
    else:
        # Shares go on: of the source that ends the epoch everything left comes once, of the other at least once.
        assert left <= set(members(steps))
    with pytest.raises(ConfigError, match="this plan begins with epoch 2, not with 0"):
        plan.start(0)


@pytest.mark.parametrize("stop", [0, 1, 9])
def test_what_is_left_is_known_from_the_cursor(stop):
    lengths = random_lengths(120)
    plan = make_plan(lengths, block=32)
    steps = epoch_steps(plan, 1)

    rest = make_plan(lengths, block=32).rest_at(steps[stop].after)
    assert (rest.epoch, rest.step, rest.began, rest.now) == (1, stop + 1, (1,), (1,))
    assert np.flatnonzero(rest.due == 2).tolist() == sorted(members(steps[: stop + 1]))
    assert rest.tokens == lengths.tokens[members(steps[: stop + 1])].sum()
    after = make_plan(lengths, block=32).rest_at(steps[-1].after)
    assert (after.epoch, set(after.due.tolist())) == (2, {2}), "nothing of the next epoch was delivered"


def test_a_rest_of_a_rest_leaves_out_both():
    lengths = random_lengths(120)
    plan, delivered = make_plan(lengths, block=32), []
    start = plan.start(1)
    for seed in range(4):
        steps = list(plan.steps(start))[:4]
        delivered += members(steps)
        rest = plan.rest_at(steps[-1].after)
        assert np.flatnonzero(rest.due == 2).tolist() == sorted(delivered)
        plan = make_plan(lengths, block=32, seed=seed, rest=rest)
        start = plan.start(1)

    last = epoch_steps(plan, 1)

    assert sorted(delivered + members(last)) == list(range(120))
    assert last[0].step == 16


def test_what_a_mixture_delivered_is_told_by_the_pass_of_each_source():
    lengths = random_lengths(90, sources=["a", "a", "a", "b"])
    plan = make_plan(lengths, mixture=Mixture.of({"weights": {"a": 1, "b": 1}}), block=32)
    steps = epoch_steps(plan, 0)
    cut = len(steps) * 2 // 3
    times = np.bincount(members(steps[:cut]), minlength=90)

    rest = plan.rest_at(steps[cut - 1].after)

    assert rest.due.tolist() == times.tolist(), "a sequence that was delivered n times is due in pass n"
    assert times[lengths.source == 1].max() > 1, "vacuous: the small source was not repeated"
    assert rest.began == (0, 0)
    assert rest.now == tuple(int(times[lengths.source == code].min()) for code in (0, 1))


@pytest.mark.parametrize("after", [None, {"b": 1, "a": 2}, {"a": 1, "b": 0}], ids=str)
def test_sources_keep_their_passes_under_other_weights(after):
    lengths = random_lengths(90, sources=["a", "a", "a", "b"])
    old = make_plan(lengths, mixture=Mixture.of({"weights": {"a": 1, "b": 1}}), block=32)
    cut = old.num_steps(0) * 2 // 3
    before = members(epoch_steps(old, 0)[:cut])
    rest = old.rest_at(epoch_steps(old, 0)[cut - 1].after)

    mixture = None if after is None else Mixture.of({"weights": after})
    plan = make_plan(lengths, mixture=mixture, block=32, rest=rest)

    times = np.bincount(before, minlength=90)
    now = members(epoch_steps(plan, 0))
    both = times + np.bincount(now, minlength=90)
    for code, name in enumerate("ab"):
        own = both[lengths.source == code]
        if after is None or after[name]:
            assert own.max() - own.min() <= 1, "no sequence comes twice while another one waits"
            assert own.min() >= 1, "what was left of the epoch came"
    if after is None:
        assert both[lengths.source == 0].tolist() == [1] * int((lengths.source == 0).sum())
        assert sorted(members(epoch_steps(plan, 1))) == list(range(90))
