"""The steps of an epoch: complete, reachable from any place, equal for every way of getting there."""

from dataclasses import replace

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.plan import Cursor, Mixture, PlanSettings, Rest
from shardkit.sequence.plan.draw import Draw
from tests.sequence.plan.builders import epoch_steps, make_lengths, make_plan, members, random_lengths

MIXED = Mixture.of({"by": "token", "weights": {"a": 1, "b": 2}})


def test_an_epoch_has_every_sequence_once_and_keeps_every_limit():
    lengths = random_lengths(300)
    plan = make_plan(lengths, max_images=5, max_patches=12, block=64)

    steps = epoch_steps(plan, 0)

    assert sorted(members(steps)) == list(range(300))
    packs = [list(pack) for step in steps for pack in step.packs]
    assert max(lengths.tokens[pack].sum() for pack in packs) <= 100
    assert max(lengths.images[pack].sum() for pack in packs) <= 5
    assert max(lengths.patches[pack].sum() for pack in packs) <= 12
    assert max(map(len, packs)) > 1


@pytest.mark.parametrize("tail", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("mixture", [None, MIXED], ids=["one", "mixed"])
@pytest.mark.parametrize("global_batch", [1, 4, 7])
def test_going_on_from_any_step_gives_exactly_the_rest(tail, mixture, global_batch):
    lengths = random_lengths(150, sources=["a", "b"])
    plan = make_plan(lengths, mixture=mixture, tail=tail, global_batch=global_batch, block=32)
    steps = epoch_steps(plan, 0) + epoch_steps(plan, 1)
    ends = [plan.num_steps(0), plan.num_steps(0) + plan.num_steps(1)]
    assert len(steps) == ends[1] > 2 * 4

    for number, step in enumerate(steps[:-1], 1):
        fresh = make_plan(lengths, mixture=mixture, tail=tail, global_batch=global_batch, block=32)
        fresh.remember(step.after)
        end = ends[step.after.epoch]
        assert list(fresh.steps(step.after)) == steps[number:end]
    assert steps[ends[0] - 1].after == plan.start(1)
    assert steps[-1].after.epoch == 2


@pytest.mark.parametrize("tail", ["drop", "pad", "wrap"])
def test_every_step_has_g_packs_and_the_tail_does_what_it_says(tail):
    lengths = random_lengths(100)
    packs = [pack for step in epoch_steps(make_plan(lengths), 0) for pack in step.packs]
    whole, over = divmod(len(packs), 8)
    assert over, "vacuous: there is no tail"

    plan = make_plan(lengths, tail=tail, global_batch=8)
    steps = epoch_steps(plan, 0)

    delivered = [pack for step in steps for pack in step.packs]
    filling = {"drop": [], "pad": [()] * (8 - over), "wrap": packs[: 8 - over]}[tail]
    assert delivered == (packs[: whole * 8] if tail == "drop" else packs + filling)
    assert plan.num_steps(0) == len(steps) == whole + (tail != "drop")


def test_wrap_goes_round_as_often_as_it_takes():
    plan = make_plan(make_lengths([60, 70]), tail="wrap", global_batch=5)

    (step,) = epoch_steps(plan, 0)

    one, other = step.packs[:2]
    assert step.packs == (one, other, one, other, one)


def test_fewer_packs_than_a_global_batch_give_no_step_with_drop():
    plan = make_plan(make_lengths([60, 70]), global_batch=5)

    assert epoch_steps(plan, 0) == []
    assert plan.num_steps(0) == 0


@pytest.mark.parametrize("tail", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("mixture", [None, MIXED], ids=["one", "mixed"])
def test_an_empty_dataset_gives_no_step(tail, mixture):
    plan = make_plan(make_lengths([]), mixture=mixture, tail=tail, global_batch=4)

    assert epoch_steps(plan, 0) == []
    assert plan.num_steps(3) == 0
    assert plan.fill(0) == 1.0


@pytest.mark.parametrize("mixture", [None, MIXED], ids=["one", "mixed"])
def test_steps_are_reached_by_number(mixture):
    plan = make_plan(random_lengths(150, sources=["a", "b"]), mixture=mixture, global_batch=3, block=32)
    steps = epoch_steps(plan, 1)

    assert [plan.global_batch(1, step) for step in range(plan.num_steps(1))] == [step.packs for step in steps]
    with pytest.raises(IndexError, match="epoch 1 has steps 0 to"):
        plan.place(1, plan.num_steps(1))


def test_epochs_and_seeds_have_orders_of_their_own():
    lengths = random_lengths(100)

    orders = [
        [step.packs for step in epoch_steps(make_plan(lengths, seed=seed), epoch)]
        for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]

    assert orders[0] == orders[3]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_packs_do_not_come_sorted_by_length():
    tokens = np.clip(np.random.default_rng(0).lognormal(3, 1, 4096), 1, 500).astype(int)
    plan = make_plan(make_lengths(tokens, keys=np.random.default_rng(1).integers(0, 2**63, 4096)), max_tokens=500)

    counts = np.array([len(step.packs[0]) for step in epoch_steps(plan, 0)])

    assert abs(np.corrcoef(counts[:-1], counts[1:])[0, 1]) < 0.25


def test_denominators_are_the_targets_of_the_whole_global_batch():
    lengths = random_lengths(40)
    lengths.supervised[3] = lengths.tokens // 2
    plan = make_plan(lengths, global_batch=4)

    for step in epoch_steps(plan, 0):
        inside = members([step])
        expected = [0, lengths.tokens[inside].sum() - len(inside), 0, (lengths.tokens[inside] // 2).sum(), 0, 0, 0]
        assert plan.denominators(step.packs).tolist() == expected
    assert plan.denominators([()]).tolist() == [0] * 7


def test_survey_counts_what_is_drawn():
    lengths = random_lengths(200, sources=["a", "b"])
    plan = make_plan(lengths, mixture=MIXED, block=32, max_patches=50)
    survey = plan.survey(0)
    drawn = members(epoch_steps(plan, 0))

    assert survey.num_packs == plan.num_steps(0)
    assert survey.sums["tokens"] == lengths.tokens[drawn].sum() == survey.tokens.sum()
    assert sum(source["sequences"] for source in survey.by_source.values()) == len(drawn)
    assert survey.by_source["a"]["tokens"] == lengths.tokens[drawn][lengths.source[drawn] == 0].sum()
    assert [int(cost) for cost in survey.costs] == plan.costs([step.packs[0] for step in epoch_steps(plan, 0)])
    assert plan.fill(0) == max(-(-survey.sums["tokens"] // 100), -(-survey.sums["patches"] // 50)) / survey.num_packs


@pytest.mark.parametrize("name", ["tokens", "images", "patches"])
def test_a_limit_below_the_longest_sequence_is_refused_with_both_numbers(name):
    lengths = make_lengths([5, 90], images=[1, 7], patches=[4, 28])
    longest = {"tokens": 90, "images": 7, "patches": 28}[name]

    make_plan(lengths, **{f"max_{name}": longest})
    with pytest.raises(ConfigError) as caught:
        make_plan(lengths, **{f"max_{name}": longest - 1})

    assert str(caught.value) == f"max_{name} is {longest - 1}, but the longest sequence has {longest} {name}"
    assert f"--max-{name} to {longest} or more" in caught.value.hint


def test_a_mixture_that_does_not_fit_is_refused():
    lengths = random_lengths(50, sources=["a", "b"])

    with pytest.raises(ConfigError, match="gives the source 'b' no weight"):
        make_plan(lengths, mixture=Mixture.of({"weights": {"a": 1}}))
    with pytest.raises(ConfigError, match="the source 'one' has nothing to count by media"):
        make_plan(make_lengths([5, 5]), mixture=Mixture.of({"by": "media", "weights": {"one": 1}}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_tokens": 0}, "max_tokens is 0, not a whole number above 0"),
        ({"max_tokens": 8.0}, "max_tokens is 8.0, not a whole number above 0"),
        ({"max_images": 0}, "max_images is 0"),
        ({"global_batch": True}, "global_batch is True"),
        ({"seed": "7"}, "seed is '7', not a whole number of 64 bits"),
        ({"seed": 2**63}, "not a whole number of 64 bits"),
        (
            {"packer": "worst-fit"},
            "there is no packer 'worst-fit' (known: best-fit, oldest-first, first-fit, next-fit, concat-and-split, none)",
        ),
        ({"tail": "cut"}, "there is no tail 'cut' (known: drop, pad, wrap)"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(ConfigError) as caught:
        PlanSettings(**{"max_tokens": 100, **settings})

    assert words in str(caught.value)
    assert caught.value.hint.startswith("set --")


def test_the_digest_names_everything_that_decides():
    lengths = random_lengths(50, sources=["a", "b"])
    rest = Rest(epoch=0, step=1, due=np.arange(50) % 2, began=(0, 0), now=(0, 0))
    plans = [
        make_plan(lengths),
        make_plan(lengths, seed=1),
        make_plan(lengths, max_tokens=200),
        make_plan(lengths, max_patches=64),
        make_plan(lengths, global_batch=2),
        make_plan(lengths, packer="none"),
        make_plan(lengths, tail="pad"),
        make_plan(lengths, mixture=MIXED),
        make_plan(lengths, max_attention=10**6),
        make_plan(lengths, rest=rest),
        make_plan(lengths, rest=replace(rest, due=rest.due[::-1].copy())),
        make_plan(lengths, rest=replace(rest, parts={3: ((4, 9),)})),
    ]

    assert len({plan.digest for plan in plans}) == len(plans)
    assert make_plan(lengths).digest == plans[0].digest


def test_no_packing_is_one_sequence_a_pack():
    steps = epoch_steps(make_plan(random_lengths(50), packer="none"), 0)

    assert sorted(step.packs for step in steps) == [((index,),) for index in range(50)]


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


def test_golden_steps():
    """What a plan gives for these lengths never changes without a new version of order or packer."""
    plan = make_plan(make_lengths([30, 60, 10, 80, 40, 50, 20, 70], shard_rows=2), global_batch=2)
    draw = Draw(passes=(0,), offsets=(0,), amounts=(0,))

    steps = epoch_steps(plan, 0)

    assert [step.packs for step in steps] == [((2, 5), (7, 0)), ((1, 4), (3, 6))]
    assert steps[0].after == Cursor(epoch=0, step=1, block=0, pack=2, draw=draw, origin=draw)


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


def test_known_steps_need_no_survey(monkeypatch):
    lengths = random_lengths(100, sources=["a", "b"])
    cursor = epoch_steps(make_plan(lengths, mixture=MIXED), 3)[1].after
    steps = make_plan(lengths, mixture=MIXED).num_steps(3)
    plan = make_plan(lengths, mixture=MIXED)
    plan.remember(cursor, steps)
    monkeypatch.setattr(plan, "survey", None)

    assert plan.num_steps(3) == steps
    assert next(plan.steps(cursor)).step == 2


def test_surveys_of_many_epochs_are_not_all_kept():
    plan = make_plan(random_lengths(50), mixture=None)

    steps = [plan.num_steps(epoch) for epoch in range(6)]

    assert len(plan._surveys) == 2
    assert [plan.num_steps(epoch) for epoch in range(6)] == steps
    assert plan.survey(0).num_packs == steps[0]


# ---------------------------------------------------------------- curricula by steps, subsets, limits
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


def test_attention_is_a_limit_of_its_own():
    lengths = random_lengths(300)
    plan = make_plan(lengths, max_tokens=400, max_attention=20_000)

    packs = [list(step.packs[0]) for step in epoch_steps(plan, 0)]

    attention = [int((lengths.tokens[pack] ** 2).sum()) for pack in packs]
    assert max(attention) <= 20_000
    assert max(int(lengths.tokens[pack].sum()) for pack in packs) > 200
    assert plan.fill(0) > 0.9
