"""Data that grows in the middle of an epoch: what was delivered is planned anew from the shards that were bound."""

import json
from collections import Counter

import pytest

from shardkit.errors import ResumeError
from shardkit.loader import Promise, StreamingLoader
from shardkit.loader import append as appends
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.store.dataset import Dataset
from tests.loader.builders import seen
from tests.loader.conftest import ingest, shardkit, tokenize, write_rows


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A tokenized dataset, then that with a second one, then that with a third: each an append of the one before."""
    work = tmp_path_factory.mktemp("append")
    parts = []
    for seed, name in enumerate(("first", "second", "third"), 31):
        examples = ingest(write_rows(work / "raw" / name, 50, images=1, seed=seed), work / name)
        parts.append(tokenize(examples, out=work / f"{name}-tokens"))
    joined = [parts[0]]
    for number, part in enumerate(parts[1:], 2):
        out = work / f"of-{number}"
        concat(ConcatConfig(inputs=(joined[-1], part), output=out))
        joined.append(out)
    return joined


def make_loader(path, **more):
    return StreamingLoader(path, **{"max_tokens": 256, "global_batch": 2, "tail": "pad", **more})


def contents(batches):
    """(example, digest of its pack's content) would differ by pack; ids and windows name sequences across datasets."""
    found = []
    for batch in batches:
        windows = batch.to_device("cpu").windows.tolist()
        found += list(zip(batch.info.example_ids, windows, strict=True))
    return found


def everything(path, **more):
    with make_loader(path, **more) as loader:
        return sorted(contents(loader))


def go(path, steps, state=None, **more):
    """Some batches from a state on, and the state after them."""
    with make_loader(path, **more) as loader:
        if state is not None:
            promise = loader.load_state_dict(json.loads(json.dumps(state)), require="equivalent")
            assert promise is Promise.STATISTICALLY_EQUIVALENT
        batches = [batch for _, batch in zip(range(steps), loader, strict=False)]
        return contents(batches), loader.state_dict()


@pytest.mark.parametrize("stop", [0, 1, 4])
def test_an_append_repeats_and_loses_nothing(grown, stop, caplog):
    before, state = go(grown[0], stop)

    with make_loader(grown[1]) as loader:
        assert loader.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
        assert loader.state_dict()["cursor"]["step"] == stop
        after = contents(loader)
        next_epoch = contents(loader)

    assert sorted(before + after) == everything(grown[1])
    assert sorted(next_epoch) == everything(grown[1])
    old, new = (Dataset.open(path).id for path in grown[:2])
    assert f'dataset is "{old}" there, "{new}" here' in caplog.text


def test_it_is_refused_unless_asked_for_with_both_ids(grown):
    _, state = go(grown[0], 2)

    with make_loader(grown[1]) as loader, pytest.raises(ResumeError) as caught:
        loader.load_state_dict(state)

    for path in grown[:2]:
        assert Dataset.open(path).id in str(caught.value)
    assert 'require="equivalent"' in caught.value.hint


def test_the_other_way_round_is_no_append(grown):
    _, state = go(grown[1], 2)

    with make_loader(grown[0]) as loader, pytest.raises(ResumeError, match="dataset is"):
        loader.load_state_dict(state, require="equivalent")


def test_appends_follow_one_another_within_an_epoch(grown):
    delivered, state = go(grown[0], 2)
    more, state = go(grown[1], 2, state)
    last, after = go(grown[2], 10**6, state)

    assert sorted(delivered + more + last) == everything(grown[2])
    assert after["cursor"]["epoch"] == 1
    assert len(json.dumps(state)) < 64 * 1024


def test_other_settings_may_change_with_it(grown):
    delivered, state = go(grown[0], 3)
    rest, _ = go(grown[1], 10**6, state, max_tokens=300, packer="oldest-first")

    assert sorted(delivered + rest) == everything(grown[1])


def test_what_comes_after_it_is_replayable(grown):
    _, state = go(grown[0], 2)
    with make_loader(grown[1]) as loader:
        loader.load_state_dict(state, require="equivalent")
        batches, states = [], []
        for batch in loader:
            batches.append(batch)
            states.append(loader.state_dict())

    for number in (0, len(batches) // 2):
        with make_loader(grown[1]) as loader:
            assert loader.load_state_dict(json.loads(json.dumps(states[number]))) is Promise.REPLAYABLE
            assert seen(loader) == seen(batches[number + 1 :])


def test_a_source_that_joins_lets_the_others_go_on(grown):
    """By equal shares: what was left of the first source's pass comes before any of it comes again."""
    mixture = {"weights": {"first": 1}}
    delivered, state = go(grown[0], 3, mixture=mixture)
    rest, _ = go(grown[1], 10**6, state, mixture={"weights": {"first": 1, "second": 1}})

    counts = Counter(delivered + rest)
    first, second = (set(everything(path)) for path in grown[:2])
    assert min(counts[one] for one in first) >= 1
    assert max(counts[one] for one in first) - min(counts[one] for one in first) <= 1
    assert all(counts[one] >= 1 for one in second - first), "the new source is drawn whole in this epoch"


def test_more_shards_than_a_state_marks_are_found_by_the_dataset(grown, monkeypatch):
    monkeypatch.setattr(appends, "MAX_SHARDS", 1)
    delivered, state = go(grown[0], 2)
    assert state["shards"]["marks"] is None

    rest, _ = go(grown[1], 10**6, state)

    assert sorted(delivered + rest) == everything(grown[1])


def test_a_split_of_new_data_like_the_old_one_is_an_append_of_each_split(tmp_path):
    """Old data split and tokenized; new data split like it, tokenized, joined."""
    ratios = ["--group-by", "page", "--workers", 1, "--quiet"]
    parts = []
    for seed, name in enumerate(("old", "new"), 41):
        examples = ingest(write_rows(tmp_path / "raw" / name, 40, images=1, seed=seed), tmp_path / name)
        like = ["--ratios", "train=0.6,val=0.4"] if not parts else ["--like", tmp_path / "old-split"]
        shardkit("split", examples, "-o", tmp_path / f"{name}-split", *like, *ratios)
        parts.append(tokenize(tmp_path / f"{name}-split", out=tmp_path / f"{name}-tokens"))
    concat(ConcatConfig(inputs=tuple(parts), output=tmp_path / "both"))

    for split in ("train", "val"):
        delivered, state = go(parts[0], 1, split=split)
        rest, _ = go(tmp_path / "both", 10**6, state, split=split)
        assert sorted(delivered + rest) == everything(tmp_path / "both", split=split)


def test_runs_of_places():
    assert appends.runs_of([]) == []
    assert appends.runs_of([4, 5, 6, 2, 9, 10]) == [[4, 3], [2, 1], [9, 2]]
    assert appends.expand([[4, 3], [2, 1], [9, 2]], 0) == [4, 5, 6, 2, 9, 10]
    assert appends.expand(None, 3) == [0, 1, 2]
