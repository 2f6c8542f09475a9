"""What may differ between a state and a loader."""

import base64
import json
import logging
from dataclasses import asdict

import pytest

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import append as appends
from shardkit.loader import state as states
from shardkit.loader.batch import Quarantined
from shardkit.loader.quarantine import LONGEST_DETAIL, MAX_QUARANTINED
from shardkit.loader.state import Difference, Promise
from shardkit.sequence.plan.after import read_cursor
from tests.sequence.plan.builders import make_plan, random_lengths

BOUND = {"dataset": "a1", "seed": 0, "max_tokens": 256, "packer": "best-fit", "packer_version": 2, "mixture": None}


def judged(**changes):
    now = {**BOUND, **changes}
    return states.judge(states.differences(BOUND, now), BOUND)


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({}, Promise.REPLAYABLE),
        ({"max_tokens": 300}, Promise.STATISTICALLY_EQUIVALENT),
        ({"mixture": {"by": "token"}, "max_tokens": 300}, Promise.STATISTICALLY_EQUIVALENT),
        ({"packer": "none", "packer_version": 3}, Promise.STATISTICALLY_EQUIVALENT),
        ({"seed": 1}, Promise.UNRECOVERABLE),
        ({"dataset": "b2"}, Promise.UNRECOVERABLE),
        ({"max_tokens": 300, "dataset": "b2"}, Promise.UNRECOVERABLE),
        ({"something_new": 1}, Promise.UNRECOVERABLE),
    ],
)
def test_promises(changes, promise):
    assert judged(**changes) is promise


def test_a_packer_that_is_not_here_any_more_cannot_be_planned_after():
    saved = {**BOUND, "packer_version": 0}

    assert states.judge(states.differences(saved, BOUND), saved) is Promise.UNRECOVERABLE


def test_a_promise_is_its_name():
    assert Promise.REPLAYABLE == "REPLAYABLE"
    assert json.dumps(Promise.STATISTICALLY_EQUIVALENT) == '"STATISTICALLY_EQUIVALENT"'


def test_a_difference_names_both_sides_and_what_is_missing():
    (found,) = states.differences({"a": 1}, {"a": 1, "b": "x"})

    assert found == Difference(name="b", saved=None, now="x")
    assert str(found) == 'b is null there, "x" here'
    assert len(str(Difference(name="a", saved=["long"] * 500, now=1))) < 300


LOGGER = logging.getLogger("shardkit.loader")


def test_equivalent_accepts_what_replayable_refuses(caplog):
    found = states.differences(BOUND, {**BOUND, "max_tokens": 1})

    states.refuse_less(LOGGER, Promise.STATISTICALLY_EQUIVALENT, "equivalent", found)
    assert not caplog.records
    with pytest.raises(ResumeError, match=r"STATISTICALLY_EQUIVALENT: .*max_tokens is 256 there, 1 here") as caught:
        states.refuse_less(LOGGER, Promise.STATISTICALLY_EQUIVALENT, "replayable", found)
    assert 'require="equivalent"' in caught.value.hint
    with pytest.raises(ResumeError, match="UNRECOVERABLE: ") as caught:
        states.refuse_less(LOGGER, Promise.UNRECOVERABLE, "equivalent", found)
    assert "equivalent" not in caught.value.hint
    assert [record.message.split(":")[:2] for record in caplog.records] == [
        ["loader state refused", f" {promise}"] for promise in ("STATISTICALLY_EQUIVALENT", "UNRECOVERABLE")
    ]


def test_a_mixture_differs_by_the_names_in_it():
    there, here = ({"mixture": {"by": "token", "weights": {"a": "1", "b": b}}} for b in ("2", "3"))

    (found,) = states.differences(there, here)

    assert str(found) == 'mixture.weights.b is "2" there, "3" here'
    assert states.judge([found], BOUND) is Promise.STATISTICALLY_EQUIVALENT


def test_a_cursor_survives_json():
    plan = make_plan(random_lengths(200), block=32)
    for step in plan.steps(plan.start(2)):
        state = json.loads(json.dumps(states.write_cursor(plan, step.after)))
        assert read_cursor(plan, state) == step.after


def link(epoch, streams=None, shards=None):
    return {"bound": {}, "cursor": {"epoch": epoch}, "streams": streams, "shards": shards}


def test_plans_of_an_epoch_that_is_over_are_forgotten():
    saved = {**link(3), "rests": [link(1), link(2)]}

    assert states.with_rest(saved) == [link(3)]
    assert states.with_rest({**link(3), "rests": [link(3)]}) == [link(3), link(3)]
    assert states.with_rest({**link(3, {"draw": []}), "rests": [link(1)]}) == [link(1), link(3, {"draw": []})]
    # Passes of sources go on where they were ahead of epochs, or where some began later.
    for before in (link(1, {"draw": []}), link(1, shards=[[0, 2]])):
        assert states.with_rest({**link(3), "rests": [before]}) == [before, link(3)]


def test_more_changes_than_a_state_holds_are_refused():
    saved = {**link(3), "rests": [link(3)] * states.MAX_RESTS}

    with pytest.raises(ResumeError, match="settings or data were changed 8 times within an epoch"):
        states.with_rest(saved)
    with pytest.raises(
        ResumeError, match=r"changed 1 times within an epoch, and .* 100 bytes; with this change it would"
    ):
        states.with_rest({**saved, "rests": [link(3)]}, room=100)


def largest(bound, sources=0, objects=0):
    """A state with as much of everything as a loader of these settings lets into it."""
    digest = "0123456789abcdef" * 4
    number = appends.MAX_SHARDS
    draw = [[10**4] * sources, [10**9] * sources, [10**14] * sources, 10**14, 3, 10**9, 10**6]
    fixed = {
        "bound": bound,
        "recorded": {"world_size": 4096, "objects": {"number": objects, "marks": "x" * (objects * 16 // 3)}},
        "shards": {"number": number, "digest": digest[:32], "marks": base64.b64encode(bytes(6 * number)).decode()},
        "cursor": {"epoch": 0, "step": 0, "block": 0, "pack": 0},
        "streams": {name: [[0] * sources] * 3 + [0] * 4 for name in ("draw", "origin")} if sources else None,
    }
    room = states.room_for_rests(fixed, sources)
    bad = [
        Quarantined(
            example_id=digest[:32],
            shard=99_999,
            row=999_999,
            image=99,
            reason="image_truncated",
            detail="x" * LONGEST_DETAIL,
        )
        for _ in range(MAX_QUARANTINED)
    ]
    return states.sealed(
        {
            **fixed,
            "version": states.VERSION,
            "plan": digest[:32],
            "cursor": {"epoch": 10**4, "step": 10**9, "block": 10**7, "pack": 4096},
            "streams": {"draw": draw, "origin": draw} if sources else None,
            "num_steps": 10**9,
            "rests": ["x" * (room - 4)],
            "quarantine": states.write_quarantine(bad),
        }
    )


@pytest.mark.parametrize(("sources", "objects"), [(0, 0), (0, 1500), (8, 1500), (60, 0), (150, 0)])
def test_the_largest_state_is_within_64_kib(sources, objects):
    """As many bad pictures, changes, sources and shards as a state may hold."""
    settings = {f"tokenize.recipe.setting_{n}": "0123456789abcdef" * 4 for n in range(20)}
    mixture = {"by": "token", "weights": {f"source-{n:03}": "1/3" for n in range(sources)}}

    state = largest(
        {**asdict(make_plan(random_lengths(50)).settings), **settings, "mixture": mixture}, sources, objects
    )

    assert 50_000 < len(json.dumps(state)) <= 64 * 1024


def test_a_mixture_of_more_sources_than_a_state_holds_is_refused():
    mixture = {"by": "token", "weights": {f"source-{n:03}": "1/3" for n in range(600)}}

    with pytest.raises(ConfigError, match="its mixture has 600 sources") as caught:
        largest({"mixture": mixture}, 600)
    assert caught.value.hint
