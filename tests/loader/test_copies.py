"""Copies of loaders: pickled, copied, closed; each goes its own way from the place of the first."""

import copy
import pickle

import pytest

from shardkit.errors import ConfigError
from shardkit.loader import EvaluationLoader, StreamingLoader
from tests.loader.builders import seen


@pytest.mark.parametrize("made", [StreamingLoader, EvaluationLoader])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_goes_on_by_itself(tokens, made, copied):
    with made(tokens, max_tokens=256, global_batch=2) as loader:
        whole = seen(loader)
    with made(tokens, max_tokens=256, global_batch=2) as loader:
        stream = iter(loader)
        next(stream)
        with copied(loader) as other:
            rest = whole[1:] if made is StreamingLoader else whole
            assert seen(other) == rest
            assert len(other) == len(whole)
        assert seen(stream) == whole[1:], "the first one is where it was"


@pytest.mark.parametrize("made", [StreamingLoader, EvaluationLoader])
def test_a_loader_may_be_closed_twice(tokens, made):
    loader = made(tokens, max_tokens=256)
    next(iter(loader))
    loader.close()
    loader.close()
    with pytest.raises(ConfigError, match="the loader was closed"):
        iter(loader)
