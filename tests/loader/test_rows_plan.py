"""How other loaders fail their users in what a plan and a state decide; by the numbers of the list of such failures.

Each test has the scenario of its row. Rows on reading and on failures are in test_rows_reading.py.
"""

import inspect
import json
from collections import Counter
from itertools import count, islice

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import Promise, StreamingLoader
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.report import describe
from shardkit.store.dataset import Dataset
from tests.loader.builders import seen
from tests.loader.conftest import ingest, tokenize, write_rows
from tests.sequence.plan.builders import epoch_steps, make_lengths, make_plan, members

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture(scope="module")
def sized(tmp_path_factory):
    """number of rows -> a tokenized dataset of texts, a sequence a row."""
    work = tmp_path_factory.mktemp("rows")
    made = {}

    def dataset(number, name="texts"):
        if (number, name) not in made:
            folder = work / f"{number}" / name
            examples = ingest(write_rows(folder, number, images=0, seed=number), work / f"{name}-{number}")
            made[number, name] = tokenize(examples, out=work / f"{name}-{number}-tokens")
        return made[number, name]

    return dataset


def make_loader(path, **more):
    return StreamingLoader(path, **{"max_tokens": 128, "tail": "pad", **more})


def one_each(path, **more):
    return make_loader(path, **{"packer": "none", **more})


def rows_of(batches):
    return [row for batch in batches for row in batch.info.rows]


def copied(state):
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_row_1_a_position_is_of_packs_and_never_of_samples(sized, workers):
    path = sized(103)
    loader = make_loader(path)
    hosted = DataLoader(loader, batch_size=None, num_workers=workers)
    batches = list(islice(hosted, 7))
    state = copied(loader.state_after(batches[-1]))

    resumed = make_loader(path)
    resumed.load_state_dict(state)
    rest = list(DataLoader(resumed, batch_size=None, num_workers=workers))

    rows = rows_of([*batches, *rest])
    assert len(rows) == len(set(rows)) == 103
    assert len(batches) < len(rows_of(batches)), "vacuous: no pack had several sequences"


@pytest.mark.parametrize("stop", [1, 20, 150, 500, 900])
def test_row_2_a_shuffled_stream_goes_on_exactly(sized, stop):
    path = sized(1000)
    with one_each(path) as loader:
        whole = rows_of(loader)
    with one_each(path) as loader:
        before = rows_of(islice(loader, stop))
        state = copied(loader.state_dict())
    with one_each(path) as loader:
        loader.load_state_dict(state)
        assert before + rows_of(loader) == whole
    assert whole != sorted(whole)


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


@pytest.mark.parametrize("used", [None, 0, 5], ids=["new", "same, not begun", "same, in the middle"])
def test_row_4_a_loaded_state_has_effect(sized, used):
    path = sized(103)
    with one_each(path) as loader:
        whole = rows_of(loader)
        loader.set_epoch(0)
        stream = iter(loader)
        for _ in range(40):
            state = copied(loader.state_after(next(stream)))
        if used is None:
            loader = make_other = one_each(path)  # noqa: F841 - the name says what it is
            stream = iter(loader)
        else:
            loader.set_epoch(0)
            stream = iter(loader)
            for _ in range(used):
                next(stream)
        loader.load_state_dict(state)
        assert rows_of([next(stream)]) == [whole[40]]
        loader.close()


def test_row_5_a_state_of_an_epochs_end_begins_the_next_one(sized):
    path = sized(512)
    with one_each(path, epochs=3) as loader:
        assert len(loader) == 3 * 512
        first = rows_of(islice(loader, 512))
        state = copied(loader.state_dict())
    with one_each(path, epochs=3) as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert state["cursor"]["epoch"] == 1
    assert len(rest) == 2 * 512
    assert sorted(rows_of(rest[:512])) == sorted(first)
    assert [batch.position for batch in rest[:2]] == [(1, 0), (1, 1)]


def test_row_6_states_before_the_first_step_and_after_early_ends(sized):
    path = sized(103)
    with one_each(path) as loader:
        before = copied(loader.state_dict())
        whole = seen(islice(loader, 10))
    with one_each(path) as loader:
        loader.load_state_dict(before)
        assert seen(islice(loader, 10)) == whole

    state, positions = before, []
    for _ in range(3):
        with one_each(path) as loader:
            loader.load_state_dict(state)
            for batch in loader:
                positions.append(batch.position)
                if batch.position[1] % 103 == 3:
                    break
            loader.set_epoch(batch.position[0] + 1)
            state = copied(loader.state_dict())
    assert positions == [(epoch, step) for epoch in range(3) for step in range(4)]


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


def test_row_9_another_batch_size_repeats_and_loses_nothing(sized):
    path = sized(103)
    with one_each(path, global_batch=4) as loader:
        before = rows_of(islice(loader, 7))
        state = copied(loader.state_dict())
    with one_each(path, global_batch=8) as loader:
        with pytest.raises(ResumeError, match="global_batch is 4 there, 8 here"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, require="equivalent")
        rows = before + rows_of(loader)
    assert len(before) == 28
    assert len(rows) == len(set(rows)) == 103


def test_row_10_a_mixture_goes_on_exactly_from_every_batch(sized, tmp_path):
    concat(ConcatConfig(inputs=(sized(103), sized(40, "others")), output=tmp_path / "both"))
    more = {"global_batch": 4, "mixture": {"weights": {"texts": 2, "others": 1}}}
    with one_each(tmp_path / "both", **more) as loader:
        whole, states = [], []
        for batch in islice(loader, 38):
            whole.append(batch.info.rows)
            states.append(copied(loader.state_dict()))
    for number in range(1, 36):
        with one_each(tmp_path / "both", **more) as loader:
            loader.load_state_dict(states[number - 1])
            assert [batch.info.rows for batch in islice(loader, 3)] == whole[number : number + 3]


OTHER = {
    "split": ("raises", None),
    "seed": ("raises", 7),
    "max_tokens": ("raises", 200),
    "max_images": ("raises", 9),
    "max_patches": ("raises", 99),
    "max_attention": ("raises", 10**6),
    "global_batch": ("raises", 4),
    "mixture": ("raises", {"weights": {"texts": 1}}),
    "packer": ("raises", "next-fit"),
    "tail": ("raises", "pad"),
    "rank": ("harmless", 1),
    "world_size": ("harmless", 2),
    "epochs": ("harmless", 5),
    "verify": ("harmless", "open"),
    "on_bad": ("harmless", "quarantine"),
    "device": ("harmless", "cpu"),
}
"""Setting -> whether a state of another value is refused, and another value. `split`: see the table of promises."""
ELSEWHERE = {"self", "dataset", "decoder", "remote"}
"""Not here: held by the table of promises, or by the tests of what they are for."""


def test_row_11_each_setting_is_refused_or_declared_harmless(sized):
    path, base = sized(103), {"max_tokens": 128, "global_batch": 2}
    stated = set(inspect.signature(StreamingLoader.__init__).parameters)
    assert stated == {*OTHER, *ELSEWHERE}, "a setting that is in neither list"
    with StreamingLoader(path, **base) as loader:
        whole = seen(loader)
        loader.set_epoch(0)
        for _ in islice(loader, 3):
            pass
        state = copied(loader.state_dict())

    for name, (what, value) in OTHER.items():
        if name in ("split", "rank"):
            continue
        more = {name: value, **({"rank": 1} if name == "world_size" else {})}
        with StreamingLoader(path, **{**base, **more}) as loader:
            if what == "raises":
                with pytest.raises(ResumeError, match=f"{name} is .* there, .* here"):
                    loader.load_state_dict(state)
                continue
            assert loader.load_state_dict(state) is Promise.REPLAYABLE
            rest = [position for position, *_ in seen(batch for batch in loader if batch.position[0] == 0)]
            assert rest == [position for position, *_ in whole[3:]]


def test_row_12_grown_data_is_refused_or_loses_nothing(sized, tmp_path):
    old = sized(103)
    concat(ConcatConfig(inputs=(old, sized(47, "more")), output=tmp_path / "grown"))
    with one_each(old) as loader:
        before = [(batch.example_ids, batch.sources) for batch in islice(loader, 30)]
        state = copied(loader.state_dict())
    with one_each(tmp_path / "grown") as loader:
        with pytest.raises(ResumeError) as caught:
            loader.load_state_dict(state)
        assert all(Dataset.open(path).id in str(caught.value) for path in (old, tmp_path / "grown"))
        loader.load_state_dict(state, require="equivalent")
        after = [(batch.example_ids, batch.sources) for batch in loader]
    assert len(before + after) == len(set(before + after)) == 150


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


def test_row_34_packing_goes_on_from_every_pack(sized):
    path = sized(40, "others")
    with make_loader(path) as loader:
        batches, states = [], [copied(loader.state_dict())]
        for batch in loader:
            batches.append(batch)
            states.append(copied(loader.state_dict()))
    whole = seen(batches)
    for number, state in enumerate(states[:-1]):
        with make_loader(path) as loader:
            loader.load_state_dict(state)
            assert seen(loader) == whole[number:]


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


def test_row_39_a_state_of_a_later_epoch_keeps_its_order(sized):
    path = sized(103)
    with one_each(path, epochs=4) as loader:
        batches = list(loader)
    with one_each(path, epochs=4) as loader:
        for batch in loader:
            if batch.position == (2, 50):
                break
        state = copied(loader.state_dict())
    with one_each(path, epochs=4) as loader:
        loader.load_state_dict(state)
        assert [batch.batch_id for batch in loader] == [batch.batch_id for batch in batches[2 * 103 + 51 :]]
    orders = [rows_of(batches[epoch * 103 : epoch * 103 + 103]) for epoch in range(4)]
    assert orders[2] not in (orders[0], orders[1], orders[3])
