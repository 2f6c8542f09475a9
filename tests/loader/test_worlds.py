"""One global order, whatever reads it: ranks in processes of their own, workers of torch's DataLoader."""

import json
import multiprocessing
import os
from collections import Counter

import pytest
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError
from shardkit.loader import HostBatch, Promise
from tests.loader.builders import failure, make_loader, pack_digests, seen

# torch says so on machines with fewer cores; the order has to be the same anyway.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 3 worker:UserWarning")


def run_rank(path, rank, world_size, answer):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    with make_loader(path, global_batch=4, tail="pad", epochs=2) as loader:
        answer.send_bytes(json.dumps(seen(loader)).encode())


def run_ranks(path, world_size):
    """What each rank of a world sees, in a process of its own, told by the environment as torchrun does."""
    context = multiprocessing.get_context("fork")
    answers = []
    for rank in range(world_size):
        ours, theirs = context.Pipe(duplex=False)
        context.Process(target=run_rank, args=(path, rank, world_size, theirs), daemon=True).start()
        theirs.close()
        answers.append(ours)
    return [json.loads(answer.recv_bytes()) for answer in answers]


def test_global_batches_are_the_same_for_1_2_and_4_ranks(tokens):
    with make_loader(tokens, global_batch=4, tail="pad", epochs=2) as loader:
        whole = json.loads(json.dumps(seen(loader)))

    for world_size in (2, 4):
        ranks = run_ranks(tokens, world_size)
        assert {len(rank) for rank in ranks} == {len(whole)}
        for step, (position, digests, examples, denominators) in enumerate(whole):
            parts = [rank[step] for rank in ranks]
            assert all(part[0] == position and part[3] == denominators for part in parts)
            assert {len(part[1]) for part in parts} == {4 // world_size}
            assert Counter(digest for part in parts for digest in part[1]) == Counter(digests)
            assert sorted(example for part in parts for example in part[2]) == sorted(examples)
            for part in parts:
                rest = iter(digests)
                assert all(digest in rest for digest in part[1]), "a rank keeps the order of the global batch"


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_the_order_is_the_same_for_any_number_of_workers(tokens, num_workers):
    with make_loader(tokens, epochs=2) as loader:
        whole = seen(loader)

    hosted = DataLoader(make_loader(tokens, epochs=2), batch_size=None, num_workers=num_workers)
    batches = list(hosted)

    assert seen(batches) == whole
    assert len(hosted) == len(whole)
    assert all(isinstance(batch, HostBatch) for batch in batches) == (num_workers > 0)


def test_spawned_workers_give_the_same(tokens):
    with make_loader(tokens) as loader:
        whole = seen(loader)
        next(iter(loader))  # shards are open and threads run when the workers are made
        loader.set_epoch(0)
        hosted = DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="spawn")
        assert seen(hosted) == whole


@pytest.mark.full
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_go_on_alike(tokens, method):
    with make_loader(tokens) as loader:
        first, second = seen(loader), seen(loader)
        state = loader.state_after(next(iter(loader)))

    loader = make_loader(tokens)
    hosted = DataLoader(loader, batch_size=None, num_workers=2, multiprocessing_context=method)
    assert seen(hosted) == first
    assert seen(hosted) == second
    loader.load_state_dict(state)
    assert next(iter(hosted)).position == (2, 1)


@pytest.mark.parametrize("persistent", [False, True])
def test_each_iteration_of_a_dataloader_is_the_next_epoch(tokens, persistent):
    with make_loader(tokens) as loader:
        epochs = [seen(loader) for _ in range(3)]

    hosted = DataLoader(make_loader(tokens), batch_size=None, num_workers=2, persistent_workers=persistent)
    assert [seen(hosted) for _ in range(3)] == epochs


def test_persistent_workers_do_not_pass_over_a_state(tokens):
    loader = make_loader(tokens)
    hosted = DataLoader(loader, batch_size=None, num_workers=1, persistent_workers=True)
    batches = list(hosted)
    loader.load_state_dict(loader.state_after(batches[2]))

    assert "persistent workers keep the place they began with" in str(failure(hosted))
    again = DataLoader(loader, batch_size=None, num_workers=1, persistent_workers=True)
    assert seen(again) == seen(batches[3:])


def test_after_its_epochs_a_dataloader_gives_nothing(tokens):
    hosted = DataLoader(make_loader(tokens, epochs=1), batch_size=None, num_workers=2)

    assert len(list(hosted)) > 0
    assert list(hosted) == []


def test_workers_go_on_from_a_state_and_the_state_after_a_batch_is_right_there(tokens):
    with make_loader(tokens, epochs=2) as loader:
        whole = seen(loader)
    loader = make_loader(tokens, epochs=2)
    states = [loader.state_after(batch) for batch in DataLoader(loader, batch_size=None, num_workers=2)]

    for number in range(0, len(states), 5):
        for num_workers in (0, 3):
            fresh = make_loader(tokens, epochs=2)
            assert fresh.load_state_dict(json.loads(json.dumps(states[number]))) is Promise.REPLAYABLE
            rest = list(DataLoader(fresh, batch_size=None, num_workers=num_workers))
            assert seen(rest) == whole[number + 1 :]


def test_the_process_whose_workers_read_does_not_guess_its_place(tokens):
    loader = make_loader(tokens)
    before = loader.state_dict()
    batch = next(iter(DataLoader(loader, batch_size=None, num_workers=1)))

    with pytest.raises(ConfigError, match="does not know the place") as caught:
        loader.state_dict()
    assert "state_after(batch)" in caught.value.hint
    state = loader.state_after(batch)
    assert state["cursor"]["step"] == before["cursor"]["step"] + 1
    loader.load_state_dict(state)
    here = loader.state_dict()
    # What is recorded tells that a worker read before, and none does now.
    assert (state["recorded"]["workers"], here["recorded"]["workers"]) == (1, 0)
    assert {**here, "recorded": None, "digest": None} == {**state, "recorded": None, "digest": None}


def test_left_early_an_epoch_is_gone_on_with_by_its_state(tokens):
    with make_loader(tokens) as loader:
        whole = seen(loader)
    loader = make_loader(tokens)
    hosted = DataLoader(loader, batch_size=None, num_workers=2)
    batches = [batch for _, batch in zip(range(3), hosted, strict=False)]
    loader.load_state_dict(loader.state_after(batches[-1]))

    assert seen(hosted) == whole[3:]


def test_workers_cannot_build_on_a_device(tokens):
    loader = make_loader(tokens, device="cuda")

    error = failure(DataLoader(loader, batch_size=None, num_workers=1))

    assert isinstance(error, ConfigError)
    assert "workers of a DataLoader cannot build batches on cuda" in str(error)


def test_the_consumer_moves_what_workers_give(tokens):
    batch = next(iter(DataLoader(make_loader(tokens), batch_size=None, num_workers=1)))

    with make_loader(tokens) as loader:
        assert pack_digests(batch) == pack_digests(next(iter(loader)))


@pytest.mark.parametrize("num_workers", [1, 3])
@pytest.mark.parametrize("world_size", [3, 8])
def test_more_ranks_and_workers_than_shards_get_equal_numbers_of_batches(tokens, world_size, num_workers):
    rows, counts = [], set()
    for rank in range(world_size):
        loader = make_loader(tokens, global_batch=24, tail="pad", rank=rank, world_size=world_size)
        batches = list(DataLoader(loader, batch_size=None, num_workers=num_workers if rank == 0 else 0))
        counts.add(len(batches))
        rows += [row for batch in batches for row in batch.info.rows]

    assert len(counts) == 1
    assert len(rows) == len(set(rows)) == 80
