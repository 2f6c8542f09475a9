"""Several changes within an epoch, of anything that may change: nothing of it comes twice or never."""

from dataclasses import replace

import numpy as np
import pytest

from shardkit.digest import mix64
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.part import Part
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.mixer import mix64_array
from tests.sequence.plan.builders import make_plan, members, random_lengths

WEIGHTS = [{"a": 1, "b": 1, "c": 1}, {"a": 5, "b": 1, "c": 2}, {"a": 1, "b": 3, "c": 0}]


def random_settings(random):
    return {
        "max_tokens": int(random.integers(100, 300)),
        "packer": str(random.choice(list(PACKERS))),
        "global_batch": int(random.integers(1, 5)),
        "block": int(random.choice([16, 40, 500])),
        "tail": "pad",
        **({"max_images": int(random.integers(2, 9))} if random.random() < 0.3 else {}),
    }


def targets_of(lengths, steps):
    """[N] target tokens that were delivered of each sequence."""
    got = np.zeros(len(lengths), np.int64)
    for member in members(steps):
        got[int(member)] += (member.num_tokens if isinstance(member, Part) else int(lengths.tokens[member])) - 1
    return got


def held(lengths, number):
    """The first `number` sequences, as a dataset of their own."""
    rows = np.arange(number)
    return lengths.take(rows, lengths.shard[rows])


@pytest.mark.parametrize("seed", range(40))
def test_without_a_mixture_every_target_comes_once(seed):
    random = np.random.default_rng(seed)
    everything = random_lengths(260, seed=seed, sources=["a", "b", "c"])
    epoch = int(random.integers(0, 4))
    sizes = sorted(random.choice([80, 150, 200, 260], 3)) if seed % 2 else [260] * 3
    lengths = held(everything, sizes[0])
    plan, got, steps_taken = make_plan(lengths, **random_settings(random)), np.zeros(260, np.int64), 0

    for size in [*sizes[1:], None]:
        steps = list(plan.steps(plan.start(epoch)))
        stop = len(steps) if size is None else int(random.integers(0, max(len(steps) - 2, 1)))
        assert [step.step for step in steps] == list(range(steps_taken, steps_taken + len(steps)))
        got[: len(lengths)] += targets_of(lengths, steps[:stop])
        if size is None:
            break
        steps_taken += stop
        rest = plan.rest_at(steps[stop - 1].after if stop else plan.start(epoch))
        grown = held(everything, size)
        rest = rest.among(lengths.sources, np.arange(len(lengths)), grown)
        lengths = grown
        plan = make_plan(lengths, rest=rest, seed=seed, **random_settings(random))

    assert got[: len(lengths)].tolist() == (lengths.tokens - 1).tolist()
    again = list(plan.steps(plan.start(epoch + 1)))
    assert targets_of(lengths, again).tolist() == (lengths.tokens - 1).tolist(), "the next epoch is whole"


@pytest.mark.parametrize("seed", range(40))
def test_sources_keep_their_passes_through_any_mixtures(seed):
    random = np.random.default_rng(seed)
    lengths = random_lengths(200, seed=seed, sources=["a", "a", "a", "b", "c"])
    whole = lengths.tokens - 1

    def mixture():
        if random.random() < 0.25:
            return None
        by = str(random.choice(["example", "token", "compute"]))
        return Mixture.of({"by": by, "weights": WEIGHTS[int(random.integers(3))]})

    settings = {**random_settings(random), "packer": "best-fit"}
    plan, got = make_plan(lengths, mixture=mixture(), **settings), np.zeros(200, np.int64)
    for last in (False, False, True):
        steps = list(plan.steps(plan.start(plan.first_epoch)))
        stop = len(steps) if last else int(random.integers(1, max(len(steps) - 1, 2)))
        before = got // whole
        got += targets_of(lengths, steps[:stop])
        rest = plan.rest_at(steps[stop - 1].after)
        times, over = np.divmod(got, whole)
        assert not over.any()
        assert rest.due.tolist() == times.tolist(), "a sequence that was delivered n times is due in pass n"
        if last:
            break
        plan = make_plan(lengths, mixture=mixture(), rest=rest, seed=seed, **settings)

    drawn = plan.mixture.weights if plan.mixture else [(name, 1) for name in "abc"]
    for name, weight in drawn:
        if weight:
            own = times[lengths.source == "abc".index(name)]
            assert own.min() >= plan.first_epoch + 1, "the epoch has every sequence of what is drawn"
            of_before = before[lengths.source == "abc".index(name)]
            assert own.max() <= max(of_before.max(), own.min() + 1), "what is ahead waits for the others"


@pytest.mark.parametrize("seed", range(20))
def test_alternatives_take_turns_through_any_change(seed):
    random = np.random.default_rng(seed)
    plain = random_lengths(180, seed=seed, sources=["a", "b", "c"])
    examples = np.repeat(random.integers(0, 2**63, 60, dtype=np.uint64), 3)
    first = (mix64_array(mix64("alternatives"), examples) % np.uint64(3)).astype(np.int64)
    source = np.repeat(plain.source[::3], 3)
    lengths = replace(
        plain, source=source, period=np.full(180, 3), turn=(np.tile(np.arange(3), 60) - first) % 3, example=examples
    )
    settings = {"block": 16, "tail": "pad", "global_batch": 2}
    plan, got = make_plan(lengths, **settings), np.zeros(180, np.int64)
    for epoch in range(3):
        steps = list(plan.steps(plan.start(epoch)))
        stop = int(random.integers(1, len(steps) - 1))
        np.add.at(got, members(steps[:stop]), 1)
        rest = plan.rest_at(steps[stop - 1].after)
        mixture = None if random.random() < 0.5 else Mixture.of({"weights": WEIGHTS[0], "epoch": {"source": "a"}})
        changed = make_plan(lengths, mixture=mixture, rest=rest, seed=seed, **settings)
        if mixture is None:
            np.add.at(got, members(list(changed.steps(changed.start(epoch)))), 1)
            plan = changed
        else:
            np.add.at(got, members(steps[stop:]), 1)
            left = np.flatnonzero((rest.due == epoch) & (lengths.source == 0))
            now = members(list(changed.steps(changed.start(epoch))))
            assert set(left.tolist()) <= set(now)
            delivered = set(members(steps[:stop])) & set(np.flatnonzero(lengths.source == 0).tolist())
            assert not delivered & set(now), "pass and alternative of the epoch do not come again"
    assert got.tolist() == [1] * 180
