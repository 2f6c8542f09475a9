"""States that are damaged, edited, cut short, of another version, or none at all: a ResumeError, and the loader stays as it was."""

import copy
import json

import pytest

from shardkit.errors import ResumeError
from shardkit.loader import StreamingLoader
from shardkit.loader import state as states
from tests.loader.builders import seen

SETTINGS = {"max_tokens": 256, "global_batch": 2, "mixture": {"by": "token", "weights": {"notes": 1, "web": 2}}}


@pytest.fixture(scope="module")
def state(tokens):
    """One with everything in it: a mixture, a plan that it goes on from, an image that could not be read."""
    with StreamingLoader(tokens, **{**SETTINGS, "max_tokens": 300}) as loader:
        next(iter(loader))
        before = loader.state_dict()
    with StreamingLoader(tokens, **SETTINGS) as loader:
        loader.load_state_dict(before, require="equivalent")
        next(iter(loader))
        found = loader.state_dict()
    bad = {"example_id": "0" * 32, "shard": 0, "row": 1, "image": 0, "reason": "image_truncated", "detail": "cut"}
    return json.loads(json.dumps(states.sealed({**found, "quarantine": [bad]})))


def leaves(value, path=()):
    """The path of every value that is no dict and no list, and of empty ones."""
    inner = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if not inner:
        yield path
    for name, one in inner:
        yield from leaves(one, (*path, name))


def put(state, path, change):
    """A copy of the state with another value at a place."""
    found = copy.deepcopy(state)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    change(inner, path[-1])
    return found


def other(inner, name):
    value = inner[name]
    inner[name] = value + 1 if type(value) is int else f"{value}x" if isinstance(value, str) else "x"


def nothing(inner, name):
    inner[name] = None if inner[name] is not None else 0


def gone(inner, name):
    del inner[name]


def test_every_field_that_is_altered_is_refused(tokens, state):
    places = list(leaves(state))
    assert {path[0] for path in places} == set(states.FORM) | {"shards"}
    assert len(places) > 60
    with StreamingLoader(tokens, **SETTINGS) as loader:
        before = loader.state_dict()
        for path in places:
            for change in (other, nothing, gone):
                for require in ("replayable", "equivalent"):
                    with pytest.raises(ResumeError) as caught:
                        loader.load_state_dict(put(state, path, change), require=require)
                    assert caught.value.hint
        assert loader.state_dict() == before
        loader.load_state_dict(state)
        assert loader.state_dict() == state


def test_a_change_of_what_is_bound_is_told_by_name(tokens, state):
    with StreamingLoader(tokens, **SETTINGS) as loader, pytest.raises(ResumeError) as caught:
        loader.load_state_dict(put(state, ("bound", "seed"), other))

    assert "the state was changed since it was saved" in str(caught.value)
    assert "(seed is 1 there, 0 here)" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "it is NoneType, no dict"),
        ([], "it is list, no dict"),
        ("{}", "it is str, no dict"),
        ({}, "version is missing"),
        ({"version": True}, "version is true"),
        ({"version": 2, "cursor": {}}, "the state has version 2, this shardkit reads 3"),
        ({"version": 99}, "the state has version 99, this shardkit reads 3"),
        ({"version": 3, "plan": 7}, "plan is 7"),
    ],
)
def test_what_is_no_state(tokens, value, words):
    with StreamingLoader(tokens, **SETTINGS) as loader, pytest.raises(ResumeError) as caught:
        loader.load_state_dict(value, require="equivalent")

    assert words in str(caught.value)
    assert caught.value.hint


def test_a_state_keeps_its_digest_through_any_json(tokens, state):
    shuffled = json.loads(json.dumps(dict(reversed(state.items())), indent=3, ensure_ascii=True))

    with StreamingLoader(tokens, **SETTINGS) as loader:
        loader.load_state_dict(shuffled)
        once = seen(loader)
        loader.load_state_dict(state)
        assert seen(loader) == once
