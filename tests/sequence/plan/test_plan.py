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
        ({"max_tokens": 10**15 + 1}, "max_tokens is 1000000000000001; 1000000000000000 is the most"),
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


def test_golden_steps():
    """What a plan gives for these lengths never changes without a new version of order or packer."""
    plan = make_plan(make_lengths([30, 60, 10, 80, 40, 50, 20, 70], shard_rows=2), global_batch=2)
    draw = Draw(passes=(0,), offsets=(0,), amounts=(0,))

    steps = epoch_steps(plan, 0)

    assert [step.packs for step in steps] == [((2, 5), (7, 0)), ((1, 4), (3, 6))]
    assert steps[0].after == Cursor(epoch=0, step=1, block=0, pack=2, draw=draw, origin=draw)


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
