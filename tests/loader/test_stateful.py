"""torchdata's StatefulDataLoader: stopped and restored anywhere, the batches that would have come."""

import json

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from shardkit.errors import ResumeError
from shardkit.loader import StreamingLoader
from tests.loader.builders import seen

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker:UserWarning"),
    # torchdata 0.11 calls what torch 2.13 deprecates.
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
]


def make(path, workers, **more):
    loader = StreamingLoader(path, **{"max_tokens": 256, "global_batch": 2, **more})
    return StatefulDataLoader(loader, batch_size=None, num_workers=workers)


def epochs(path, number):
    """What `number` epochs give without torchdata."""
    with StreamingLoader(path, max_tokens=256, global_batch=2) as loader:
        return [seen(loader) for _ in range(number)]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("stop", [0, 1, 4, -1])
def test_a_restored_loader_gives_what_would_have_come(tokens, workers, stop):
    (whole,) = epochs(tokens, 1)
    stop = stop % len(whole)
    stateful = make(tokens, workers)
    arriving = iter(stateful)
    before = [seen([next(arriving)])[0] for _ in range(stop)]
    state = json.loads(json.dumps(stateful.state_dict(), default=int))
    state = stateful.state_dict()
    del arriving

    restored = make(tokens, workers)
    restored.load_state_dict(state)

    assert before + seen(restored) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_after_the_rest_of_an_epoch_comes_the_next_one(tokens, workers):
    whole = epochs(tokens, 4)
    stateful = make(tokens, workers)
    assert seen(stateful) == whole[0]
    assert seen(stateful) == whole[1]
    arriving = iter(stateful)
    before = seen([next(arriving), next(arriving), next(arriving)])
    state = stateful.state_dict()
    del arriving

    restored = make(tokens, workers)
    restored.load_state_dict(state)

    assert before + seen(restored) == whole[2]
    assert seen(restored) == whole[3]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_from_the_end_of_an_epoch_leaves_nothing_of_it(tokens, workers):
    whole = epochs(tokens, 2)
    stateful = make(tokens, workers)
    arriving = iter(stateful)
    assert seen(next(arriving) for _ in whole[0]) == whole[0]
    state = stateful.state_dict()
    del arriving

    restored = make(tokens, workers)
    restored.load_state_dict(state)
    rest = seen(restored)

    # In the process the loader stands at the next epoch already; behind workers torchdata ends the old one first.
    assert rest == (whole[1] if workers == 0 else [])
    if workers:
        assert seen(restored) == whole[1]


def test_a_state_of_other_settings_is_refused(tokens):
    stateful = make(tokens, 2)
    next(iter(stateful))
    state = stateful.state_dict()

    other = make(tokens, 2, max_tokens=300)
    other.load_state_dict(state)
    with pytest.raises(ResumeError, match="the state is of plan"):
        next(iter(other))


def test_a_state_of_a_worker_is_none_of_the_loader(tokens):
    stateful = make(tokens, 1)
    next(iter(stateful))
    (worker,) = stateful.state_dict()["_snapshot"]["_worker_snapshots"].values()
    with StreamingLoader(tokens, max_tokens=256, global_batch=2) as loader, pytest.raises(ResumeError):
        loader.load_state_dict(worker["dataset_state"])
