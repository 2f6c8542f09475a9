"""Going on from every step: exactly the batches that would have come, compared as sequences of contents."""

import json

import pytest

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import Promise
from shardkit.loader.state import sealed
from tests.loader.builders import make_loader, seen
from tests.loader.conftest import tokenize

MIXTURE = {"by": "token", "weights": {"web": 1, "notes": 1}}
KINDS = {
    "drop": {"tail": "drop"},
    "wrap": {"tail": "wrap", "global_batch": 3},
    "pad": {"tail": "pad", "global_batch": 4},
    "mixed": {"mixture": MIXTURE},
    "single": {"packer": "none", "global_batch": 5},
}


def through_json(state):
    text = json.dumps(state)
    assert len(text) < 64 * 1024
    return json.loads(text)


@pytest.mark.parametrize("kind", KINDS)
def test_from_every_step_of_two_epochs_exactly_the_rest_comes(tokens, kind):
    settings = {"epochs": 2, **KINDS[kind]}
    with make_loader(tokens, **settings) as loader:
        states, batches = [loader.state_dict()], []
        for batch in loader:
            batches.append(batch)
            states.append(loader.state_dict())
            assert states[-1] == loader.state_after(batch)
    whole = seen(batches)
    first_epoch = sum(position[0] == 0 for position, *_ in whole)
    assert len(whole) >= 2 * first_epoch - 2 >= 6

    for number, state in enumerate(states):
        with make_loader(tokens, **settings) as loader:
            assert loader.load_state_dict(through_json(state)) is Promise.REPLAYABLE
            assert len(loader) == len(whole)
            assert seen(loader) == whole[number:]


def test_the_state_at_an_epochs_end_is_the_beginning_of_the_next(tokens):
    with make_loader(tokens) as loader:
        for batch in loader:
            state = loader.state_after(batch)
        second = seen(loader)

    with make_loader(tokens) as loader:
        loader.load_state_dict(through_json(state))
        assert state["cursor"] == {"epoch": 1, "step": 0, "block": 0, "pack": 0}
        assert seen(loader) == second


def test_a_state_counts_the_batches_of_its_epoch(tokens):
    with make_loader(tokens) as loader:
        batches = list(loader)
        states = [loader.state_after(batch) for batch in batches]
        second = len(list(loader))

    assert [state["num_steps"] for state in states] == [len(batches)] * (len(batches) - 1) + [second]


def test_a_restore_plans_no_epoch(tokens, monkeypatch):
    with make_loader(tokens, mixture=MIXTURE, epochs=3) as loader:
        batches = [batch for batch in loader if batch.position[0] == 2]
        state = loader.state_after(batches[1])
    monkeypatch.setattr("shardkit.sequence.plan.plan.Plan.survey", None)

    with make_loader(tokens, mixture=MIXTURE) as loader:
        loader.load_state_dict(state)
        assert seen(loader) == seen(batches[2:])


@pytest.mark.parametrize("used", [0, 1, 4])
def test_a_state_goes_into_a_loader_in_use(tokens, used):
    with make_loader(tokens) as loader:
        batches = list(loader)
        state = loader.state_after(batches[2])

    with make_loader(tokens) as loader:
        stream = iter(loader)
        for _ in range(used):
            next(stream)
        loader.load_state_dict(state)
        assert next(stream).position == (0, 3)
        assert seen(stream) == seen(batches[4:])


def test_a_loader_can_go_back_and_begin_again(tokens):
    with make_loader(tokens) as loader:
        before = loader.state_dict()
        first = seen(loader)
        loader.load_state_dict(before)
        assert seen(loader) == first
        loader.set_epoch(0)
        assert seen(loader) == first
        loader.set_epoch(5)
        assert next(iter(loader)).position == (5, 0)


def test_the_state_is_the_same_on_every_rank(tokens):
    states = []
    for rank in range(2):
        with make_loader(tokens, rank=rank, world_size=2) as loader:
            next(iter(loader))
            states.append(loader.state_dict())

    assert states[0] == states[1]


def test_another_number_of_ranks_goes_on_with_the_same_global_batches(tokens):
    with make_loader(tokens, global_batch=4) as loader:
        batches = list(loader)
    with make_loader(tokens, global_batch=4, rank=1, world_size=2) as loader:
        next(iter(loader))
        state = loader.state_dict()

    parts = []
    for rank in range(4):
        with make_loader(tokens, global_batch=4, rank=rank, world_size=4) as loader:
            assert loader.load_state_dict(through_json(state)) is Promise.REPLAYABLE
            parts.append(seen(loader))

    for step, batch in enumerate(seen(batches[1:])):
        assert sorted(digest for part in parts for digest in part[step][1]) == sorted(batch[1])
        assert all(part[step][3] == batch[3] for part in parts), "denominators are those of the whole global batch"


def refusal(saved_with, loaded_with, **how):
    with saved_with as loader:
        next(iter(loader))
        state = loader.state_dict()
    with loaded_with as loader:
        before = loader.state_dict()
        with pytest.raises(ResumeError) as caught:
            loader.load_state_dict(through_json(state), **how)
        assert loader.state_dict() == before, "a refused state changes nothing"
    return caught.value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 7}, "seed is 0 there, 7 here"),
        ({"max_tokens": 300}, "max_tokens is 256 there, 300 here"),
        ({"max_images": 9}, "max_images is null there, 9 here"),
        ({"global_batch": 4}, "global_batch is 2 there, 4 here"),
        ({"packer": "none"}, 'packer is "best-fit" there, "none" here'),
        ({"tail": "pad"}, 'tail is "drop" there, "pad" here'),
        ({"mixture": {"weights": {"web": 1, "notes": 1}}}, "mixture is null there, {"),
    ],
)
def test_other_settings_are_refused_with_both_sides(tokens, change, words):
    error = refusal(make_loader(tokens), make_loader(tokens, **change))

    assert words in str(error)
    assert error.exit_code == 7
    assert error.hint


def test_several_differences_are_all_named(tokens):
    error = refusal(make_loader(tokens), make_loader(tokens, seed=7, max_tokens=300))

    assert str(error) == (
        "loader state: UNRECOVERABLE: the state was saved for another stream (max_tokens is 256 there, 300 here; seed is 0 there, 7 here)"
    )


def test_another_manifest_and_another_tokenizer_are_refused(tokens, examples, tmp_path):
    shorter = tokenize(examples[0], out=tmp_path / "web_only")
    vocabulary = tokenize(*examples, out=tmp_path / "windows", max_tokens=120)

    error = refusal(make_loader(tokens), make_loader(shorter))
    assert "dataset is" in str(error)
    assert " there, " in str(error)
    error = refusal(make_loader(tokens), make_loader(vocabulary), require="equivalent")
    assert "tokenize.max_tokens is 128 there, 120 here" in str(error)


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 300},
        {"global_batch": 3},
        {"packer": "none"},
        {"max_images": 4, "max_patches": 64},
        {"tail": "pad"},
    ],
    ids=str,
)
def test_equivalent_goes_on_with_what_is_left_and_repeats_nothing(tokens, change, caplog):
    with make_loader(tokens, packer="best-fit", tail="pad") as loader:
        before = [batch for _, batch in zip(range(7), loader, strict=False)]
        state = loader.state_dict()

    settings = {"tail": "pad", "epochs": 2, **change}
    with make_loader(tokens, **settings) as loader:
        if change == {"tail": "pad"}:
            assert loader.load_state_dict(state, require="equivalent") is Promise.REPLAYABLE
        else:
            promise = loader.load_state_dict(through_json(state), require="equivalent")
            assert promise is Promise.STATISTICALLY_EQUIVALENT
            assert "STATISTICALLY_EQUIVALENT: " in caplog.text
        after, states = [], []
        for batch in loader:
            after.append(batch)
            states.append(loader.state_dict())
        assert len(loader) == len(after) + (7 if after[0].position == (0, 7) else 0)

    rows = [row for batch in [*before, *after] if batch.position[0] == 0 for row in batch.info.rows]
    assert (
        len(rows)
        == len(set(rows))
        == len({row for batch in after if batch.position[0] == 1 for row in batch.info.rows})
    )
    assert after[0].position == (0, 7)

    # A state of the new plan is replayable, though it goes on from the old one.
    for number in (0, 3, len(after) - 2):
        with make_loader(tokens, **settings) as loader:
            assert loader.load_state_dict(through_json(states[number])) is Promise.REPLAYABLE
            assert seen(loader) == seen(after[number + 1 :])
            assert loader.state_dict()["plan"] == states[number]["plan"]


def test_settings_can_change_several_times_within_an_epoch(tokens):
    rows, state = [], None
    for max_tokens in (256, 300, 280, 400):
        with make_loader(tokens, max_tokens=max_tokens, tail="pad") as loader:
            if state is not None:
                loader.load_state_dict(state, require="equivalent")
            last = max_tokens == 400
            for _, batch in zip(range(10**6 if last else 2), loader, strict=False):
                rows += batch.info.rows
            state = through_json(loader.state_dict())

    with make_loader(tokens, tail="pad") as loader:
        everything = [row for batch in loader for row in batch.info.rows]
    assert sorted(rows) == sorted(everything)


def test_a_mixture_can_change_within_an_epoch(tokens):
    with make_loader(tokens, tail="pad") as loader:
        before = [batch for _, batch in zip(range(4), loader, strict=False)]
        state = loader.state_dict()

    with make_loader(tokens, tail="pad", mixture={"weights": {"web": 2, "notes": 1}}) as loader:
        assert loader.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
        after = [row for batch in loader for row in batch.info.rows]

    delivered = [row for batch in before for row in batch.info.rows]
    with make_loader(tokens, tail="pad") as loader:
        everything = {row for batch in loader for row in batch.info.rows}
    assert everything <= {*delivered, *after}


def test_a_state_of_another_plan_of_these_settings_is_refused(tokens):
    with make_loader(tokens) as loader:
        state = loader.state_dict()
        with pytest.raises(ResumeError, match="the state is of plan abc, what is bound in it gives"):
            loader.load_state_dict(sealed({**state, "plan": "abc"}))
        with pytest.raises(ConfigError, match="require is 'anything', none of replayable, equivalent"):
            loader.load_state_dict(state, require="anything")


def test_a_batch_of_another_loader_has_no_state_here(tokens):
    with make_loader(tokens, seed=1) as loader:
        batch = next(iter(loader))
    with make_loader(tokens) as loader, pytest.raises(ConfigError, match="is none of plan"):
        loader.state_after(batch)
