"""From anywhere to anywhere: a stream goes on on other ranks and workers with the packs that would have come.

Compared as sequences: per step, the digest of the content of each pack in its place of the global batch.
"""

import json
import multiprocessing
import os
from functools import cache
from itertools import islice

import numpy as np
import pytest
from torch.utils.data import DataLoader

from shardkit.loader import Promise, StreamingLoader, packed
from shardkit.sequence.packers import PACKERS
from tests.loader.builders import pack_digests

# torch says so on machines with fewer cores; the order has to be the same anyway.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

GLOBAL_BATCH = 24
WORLDS = (1, 2, 3, 4, 8)
GRID = [(world, workers, ahead) for world in WORLDS for workers in (0, 1, 3) for ahead in (1, 4)]
QUICK = [(1, 3, 4), (2, 1, 1), (3, 0, 4), (4, 0, 1), (8, 1, 4)]
"""Every number of ranks, workers and prefetch once at least."""
MIXTURES = {
    "none": None,
    "tokens": {"by": "token", "weights": {"web": 1, "notes": 2}},
    "compute, a curriculum": {
        "by": "compute",
        "weights": {"web": 1, "notes": 0},
        "then": [{"from_step": 3, "weights": {"web": 1, "notes": 1}}],
    },
    "limits": {"by": "loss", "weights": {"web": 1, "notes": 3}, "repeat": {"notes": 3}, "epoch": {"source": "web"}},
}
# An epoch of some mixtures is less than a global batch, and would be dropped.
TAILS = {"none": ("drop", "pad", "wrap"), "tokens": ("wrap", "drop", "pad")}
SETTINGS = [
    (packer, mixture, TAILS.get(mixture, ("pad", "wrap", "pad"))[place % 3])
    for place, packer in enumerate(sorted(PACKERS))
    for mixture in MIXTURES
]
"""Packer, mixture and tail: every packer with every mixture. A whole run of each costs the most, so it serves several cases."""
CASES = 100
MANY_CASES = 1000


def make_loader(path, **more):
    return StreamingLoader(path, **{"max_tokens": 128, "tail": "pad", "seed": 5, **more})


# ---------------------------------------------------------------- ranks in processes of their own
def run_rank(path, rank, world, workers, ahead, answer):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    packed.AHEAD = ahead
    loader = make_loader(path, global_batch=GLOBAL_BATCH)
    hosted = DataLoader(loader, batch_size=None, num_workers=workers, prefetch_factor=ahead if workers else None)
    found = [(batch.info.batch_id, pack_digests(batch)) for batch in hosted]
    answer.send_bytes(json.dumps(found).encode())


@cache
def whole_epoch(path):
    """Batch id without its rank, and digests, of each step of one rank in this process."""
    with make_loader(path, global_batch=GLOBAL_BATCH, rank=0, world_size=1) as loader:
        return [(batch.batch_id.rpartition("/")[0], pack_digests(batch)) for batch in loader]


def check_grid(path, world, workers, ahead):
    context = multiprocessing.get_context("fork")
    answers, processes = [], []
    for rank in range(world):
        ours, theirs = context.Pipe(duplex=False)
        processes.append(context.Process(target=run_rank, args=(path, rank, world, workers, ahead, theirs)))
        processes[-1].start()
        theirs.close()
        answers.append(ours)
    ranks = [json.loads(answer.recv_bytes()) for answer in answers]
    for process in processes:
        process.join()
    whole = whole_epoch(path)
    assert {len(rank) for rank in ranks} == {len(whole)}
    for step, (batch_id, digests) in enumerate(whole):
        parts = [rank[step] for rank in ranks]
        assert [part[0] for part in parts] == [f"{batch_id}/{rank}of{world}" for rank in range(world)]
        assert sorted(digest for part in parts for digest in part[1]) == sorted(digests)
        for part in parts:
            rest = iter(digests)
            assert all(digest in rest for digest in part[1]), "a rank keeps the order of the global batch"


@pytest.mark.parametrize(("world", "workers", "ahead"), QUICK)
def test_ranks_workers_and_prefetch_give_one_stream(tokens, world, workers, ahead):
    check_grid(tokens, world, workers, ahead)


@pytest.mark.full
@pytest.mark.parametrize(("world", "workers", "ahead"), [one for one in GRID if one not in QUICK])
def test_ranks_workers_and_prefetch_give_one_stream_in_full(tokens, world, workers, ahead):
    check_grid(tokens, world, workers, ahead)


# ---------------------------------------------------------------- any combination
@cache
def whole_run(path, packer, mixture, tail):
    """The digests of each step of three epochs, and the state before each of them and at the end."""
    settings = {"packer": packer, "mixture": MIXTURES[mixture], "tail": tail, "epochs": 3, "global_batch": GLOBAL_BATCH}
    with make_loader(path, **settings) as loader:
        states, found = [json.dumps(loader.state_dict())], []
        for batch in loader:
            found.append((batch.position, pack_digests(batch)))
            states.append(json.dumps(loader.state_dict()))
    return settings, found, states


def check_case(path, number):
    random = np.random.default_rng(number)
    packer, mixture, tail = SETTINGS[number % len(SETTINGS)]
    settings, whole, states = whole_run(path, packer, mixture, tail)
    epochs = sorted({position[0] for position, _ in whole})
    epoch = int(random.choice(epochs))
    stops = [step for step, (position, _) in enumerate(whole) if position[0] == epoch]
    stop = int(random.choice(stops))
    assert len(states[stop]) < 64 * 1024

    before, after = (int(world) for world in random.choice(WORLDS, 2))
    saver = int(random.integers(before))
    with make_loader(path, **settings, rank=saver, world_size=before) as loader:
        # The state of another world and rank is the same state, but for what is recorded.
        loader.load_state_dict(json.loads(states[stop]))
        state = json.dumps(loader.state_dict())
    workers = int(random.choice([0] * 20 + [1, 3]))
    comes = whole[stop : stop + 3]
    parts = []
    for rank in range(after):
        loader = make_loader(path, **settings, rank=rank, world_size=after)
        assert loader.load_state_dict(json.loads(state)) is Promise.REPLAYABLE
        assert rank or len(loader) == len(whole)
        # One rank of several in workers is enough: starting them takes the time.
        of_rank = DataLoader(loader, batch_size=None, num_workers=workers if rank == 0 else 0)
        parts.append([(batch.position, pack_digests(batch)) for batch in islice(of_rank, len(comes))])
        loader.close()
    for step, (position, digests) in enumerate(comes):
        assert all(part[step][0] == position for part in parts)
        assert sorted(digest for part in parts for digest in part[step][1]) == sorted(digests)
    return packer, mixture, stop > 0, epoch


@pytest.mark.parametrize("mixture", MIXTURES)
def test_any_combination_goes_on_exactly(tokens, mixture):
    numbers = [number for number in range(CASES) if SETTINGS[number % len(SETTINGS)][1] == mixture]
    seen = [check_case(tokens, number) for number in numbers]

    packers, mixtures, stops, epochs = map(set, zip(*seen, strict=True))
    assert packers == set(PACKERS)
    assert mixtures == {mixture}
    assert stops == {False, True}
    assert epochs == {0, 1, 2}


@pytest.mark.full
@pytest.mark.parametrize("part", range(10))
def test_any_combination_goes_on_exactly_in_full(tokens, part):
    size = MANY_CASES // 10
    for number in range(CASES + part * size, CASES + (part + 1) * size):
        check_case(tokens, number)
