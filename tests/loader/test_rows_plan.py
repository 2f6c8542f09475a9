"""How other loaders fail their users in what a plan decides; by the numbers of the list of such failures.

Each test has the scenario of its row. Rows on states are in test_rows_state.py, on reading and on failures in
test_rows_reading.py.
"""

from collections import Counter
from itertools import count, islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError
from shardkit.loader import Promise
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.report import describe
from shardkit.store.dataset import Dataset
from tests.loader.rows import copied, make_loader, one_each, rows_of
from tests.sequence.plan.builders import epoch_steps, make_lengths, make_plan, members

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


def test_row_3_mixed_sources_are_shuffled_anew_in_each_epoch(tokens):
    mixture = {"weights": {"web": 1, "notes": 1}}
    orders = []
    for epoch in (0, 1):
        with one_each(tokens, mixture=mixture) as loader:
            loader.set_epoch(epoch)
            batches = list(loader)
        orders.append(
            {
                name: [
                    row
                    for batch in batches
                    for row, source in zip(batch.info.rows, batch.sources, strict=True)
                    if source == name
                ]
                for name in ("web", "notes")
            }
        )
    for name in ("web", "notes"):
        assert orders[0][name] != orders[1][name]
        assert sorted(set(orders[0][name])) == sorted(set(orders[1][name]))


def test_row_7_the_number_of_workers_may_change(sized):
    path = sized(103)
    loader = make_loader(path)
    batches = list(DataLoader(loader, batch_size=None, num_workers=2))
    state = copied(loader.state_after(batches[4]))

    for workers in (0, 1, 3, 8):
        resumed = make_loader(path)
        assert resumed.load_state_dict(state) is Promise.REPLAYABLE
        hosted = DataLoader(resumed, batch_size=None, num_workers=workers)
        assert [batch.batch_id for batch in hosted] == [batch.batch_id for batch in batches[5:]]


def test_row_8_the_number_of_ranks_may_change(sized):
    path, more = sized(1000), {"global_batch": 24, "packer": "none"}
    with make_loader(path, **more) as loader:
        whole = [sorted(batch.info.rows) for batch in loader]
    states = []
    for rank in range(8):
        with make_loader(path, rank=rank, world_size=8, **more) as loader:
            for _ in islice(loader, 10):
                pass
            states.append(copied(loader.state_dict()))
    assert [{**state, "recorded": None} for state in states] == [{**states[0], "recorded": None}] * 8

    for world in (4, 2, 3, 24):
        found = [[] for _ in whole[10:]]
        for rank in range(world):
            with make_loader(path, rank=rank, world_size=world, **more) as loader:
                assert loader.load_state_dict(states[rank % 8]) is Promise.REPLAYABLE
                for rows, batch in zip(found, loader, strict=True):
                    rows += batch.info.rows
        assert [sorted(rows) for rows in found] == whole[10:]
    with pytest.raises(ConfigError, match="world sizes that fit: 1, 2, 3, 4, 6, 8, 12, 24"):
        make_loader(path, rank=0, world_size=5, **more)


def test_row_13_the_length_does_not_depend_on_workers(sized):
    path = sized(103)
    lengths = {len(list(DataLoader(make_loader(path), batch_size=None, num_workers=workers))) for workers in (0, 2, 4)}
    assert lengths == {len(make_loader(path))}


@pytest.mark.parametrize("tail", ["drop", "pad", "wrap"])
def test_row_14_every_rank_has_as_many_batches(sized, tail):
    path = sized(103)
    assert len(Dataset.open(path).sequence_shards) > 2
    for world in (2, 3, 8):
        counts = set()
        for rank in range(world):
            with one_each(path, tail=tail, global_batch=24, rank=rank, world_size=world) as loader:
                counts |= {len(list(loader)), len(loader)}
        assert counts == {4 if tail == "drop" else 5}


def test_row_15_no_rank_is_without_data(sized):
    path = sized(7)
    assert len(Dataset.open(path).sequence_shards) < 8
    for rank in range(8):
        with one_each(path, global_batch=8, rank=rank, world_size=8) as loader:
            assert len(list(loader)) == 1
        with pytest.raises(ConfigError, match="cannot be shared evenly by 5 ranks"):
            one_each(path, global_batch=8, rank=min(rank, 4), world_size=5)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_row_24_few_sequences_come_once(sized, number):
    path = sized(number)
    found = []
    for rank in range(8):
        with one_each(path, global_batch=8, rank=rank, world_size=8) as loader:
            found += rows_of(loader)
    assert len(found) == len(set(found)) == number
    # Eight ranks that work on the same data take the same rank: nothing is counted eight times.
    for _ in range(8):
        with one_each(path, rank=0, world_size=1) as loader:
            assert sorted(rows_of(loader)) == sorted(found)


def test_row_24_no_sequences_give_no_step():
    for tail in ("drop", "pad", "wrap"):
        plan = make_plan(make_lengths([]), tail=tail, global_batch=8)
        assert (epoch_steps(plan, 0), plan.num_steps(0)) == ([], 0)


def test_row_26_shares_are_of_the_unit_that_is_named():
    lengths = make_lengths([400] * 5000 + [4000] * 500, sources=["short"] * 5000 + ["long"] * 500, shard_rows=100)
    plan = make_plan(lengths, mixture=Mixture.of({"by": "token", "weights": {"short": 1, "long": 1}}), max_tokens=4000)
    drawn = members(list(islice(plan.steps(plan.start(0)), 1000)))
    tokens = np.bincount(lengths.source[drawn], lengths.tokens[drawn])
    # Packs of a block come shuffled: shares are those of the draw at every block's end.
    block = plan.block(0, 0, plan.start(0).draw, plan.start(0).origin)
    of_block = np.bincount(lengths.source[block.drawn], lengths.tokens[block.drawn])
    assert abs(of_block[0] - of_block[1]) <= 4000
    assert abs(tokens[0] / tokens.sum() - 0.5) < 0.02
    shares = describe(plan, 0)["sources"]["short"]["shares"]
    assert list(shares) == ["example", "token", "media", "loss", "compute"]
    assert abs(shares["token"] - 0.5) < 0.001
    assert shares["example"] > 0.9


def test_row_27_a_set_smaller_than_the_workers_keeps_its_share(sized, tmp_path):
    concat(ConcatConfig(inputs=(sized(103), sized(3, "tiny")), output=tmp_path / "both"))
    counts = Counter()
    loader = one_each(tmp_path / "both", mixture={"weights": {"texts": 1, "tiny": 1}})
    for batch in DataLoader(loader, batch_size=None, num_workers=8):
        counts.update(batch.info.sources)
    assert abs(counts["texts"] - counts["tiny"]) <= 1
    assert counts["texts"] == 103


def test_row_35_sums_over_ranks_and_micro_steps_give_the_loss_of_one_batch(sized):
    """Numerators summed, divided by the denominator that every rank has from the plan."""
    path, more = sized(103), {"global_batch": 4, "packer": "none"}

    def loss_of_targets(batch):
        chosen = batch.objective_ids > 0
        return torch.where(chosen, torch.sin(batch.input_ids.double()), 0.0).sum()

    with make_loader(path, **more) as loader:
        whole = [(loss_of_targets(batch), batch.denominators.sum()) for batch in islice(loader, 6)]
    sums = [[] for _ in whole]
    for rank in range(2):
        with make_loader(path, rank=rank, world_size=2, **more) as loader:
            for step, batch in zip(count(), islice(loader, 6), strict=False):
                sums[step].append((loss_of_targets(batch), batch.denominators.sum()))
    for (numerator, denominator), parts in zip(whole, sums, strict=True):
        assert all(part[1] == denominator for part in parts)
        together = sum(part[0] / part[1] for part in parts)
        assert torch.isclose(together, numerator / denominator, rtol=1e-9)
        lengths = {float(part[0]) for part in parts}
        assert len(lengths) == 2, "vacuous: the ranks had equal parts"
