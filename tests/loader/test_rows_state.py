"""How other loaders fail their users in what a state decides; by the numbers of the list of such failures.

Each test has the scenario of its row. Rows on plans are in test_rows_plan.py, on reading and on failures in
test_rows_reading.py.
"""

import inspect
from itertools import islice

import pytest
from torch.utils.data import DataLoader

from shardkit.errors import ResumeError
from shardkit.loader import Promise, StreamingLoader
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.store.dataset import Dataset
from tests.loader.builders import seen
from tests.loader.rows import copied, make_loader, one_each, rows_of

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


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
