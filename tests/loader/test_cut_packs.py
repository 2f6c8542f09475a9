"""Packs of concat-and-split, as a loader gives them: parts end to end are the stored sequences."""

import json
from collections import defaultdict

import numpy as np
import pytest
import torch

from shardkit.loader import Promise, StreamingLoader, unpack
from shardkit.store.dataset import Dataset
from tests.loader.builders import seen
from tests.loader.conftest import TOKENIZER, ingest, shardkit, write_rows


def make_loader(path, **more):
    return StreamingLoader(
        path, **{"max_tokens": 64, "global_batch": 2, "packer": "concat-and-split", "tail": "pad", **more}
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Sequences of plain text, some longer than a pack."""
    work = tmp_path_factory.mktemp("cut")
    examples = ingest(write_rows(work / "raw" / "texts", 60, images=0, seed=3), work / "texts")
    options = ["--tokenizer", TOKENIZER, "--recipe", "vlm", "--set", "image_size=56", "--max-tokens", 128]
    shardkit("tokenize", examples, "-o", work / "tokens", *options, "--workers", 1, "--quiet")
    return work / "tokens"


def stored(path):
    dataset = Dataset.open(path)
    return {
        (shard.index, row): values["input_ids"]
        for shard in dataset.sequence_shards
        for row, values in enumerate(dataset.sequence_reader(shard).table().to_pylist())
    }


def parts_of(batches):
    """(shard, row) -> (ids, objectives) of what was delivered of it."""
    found = defaultdict(list)
    for batch in batches:
        ones = [one.sequence for pack in unpack(batch) for one in pack]
        for row, one in zip(batch.info.rows, ones, strict=True):
            found[row].append((one.input_ids.tolist(), list(one.objectives)))
    return found


def joined(parts, whole):
    """The parts in the order in which they stand in the whole, without the tokens that are context."""
    by_start = sorted(parts, key=lambda part: start_of(part[0], whole))
    ids = by_start[0][0]
    for part, _ in by_start[1:]:
        assert part[0] == ids[-1]
        ids = ids + part[1:]
    return ids


def start_of(part, whole):
    return next(at for at in range(len(whole)) if whole[at : at + len(part)] == part)


def test_parts_are_the_stored_sequences_and_their_targets_come_once(texts):
    whole = stored(texts)
    with make_loader(texts) as loader:
        batches = list(loader)

    parts = parts_of(batches)
    assert sorted(parts) == sorted(whole)
    assert max(map(len, parts.values())) > 1, "vacuous: nothing was cut"
    for row, ids in whole.items():
        assert joined(parts[row], ids) == ids
        assert sum(sum(map(bool, objectives)) for _, objectives in parts[row]) == len(ids) - 1
        assert all(objectives[0] == 0 for _, objectives in parts[row])


def test_packs_are_full_and_denominators_are_those_of_the_parts(texts):
    with make_loader(texts) as loader:
        batches = list(loader)

    sizes = [sum(one.sequence.num_tokens for one in pack) for batch in batches for pack in unpack(batch)]
    assert max(sizes) == 64
    assert np.mean(np.array(sizes[:-2]) == 64) > 0.9
    for batch in batches:
        counted = torch.bincount(batch.objective_ids[batch.objective_ids > 0], minlength=7)
        assert counted.tolist() == batch.denominators.long().tolist()


def test_images_are_never_cut(tokens):
    with make_loader(tokens, max_tokens=128) as loader:
        batches = list(loader)

    dataset = Dataset.open(tokens)
    with_images = {
        (shard.index, row): len(values["slots"])
        for shard in dataset.sequence_shards
        for row, values in enumerate(dataset.sequence_reader(shard).table().to_pylist())
        if values["slots"]
    }
    found = defaultdict(list)
    for batch in batches:
        for row, one in zip(batch.info.rows, [one for pack in unpack(batch) for one in pack], strict=True):
            found[row].append(len(one.sequence.slots))
    assert {row: found[row] for row in with_images} == {row: [count] for row, count in with_images.items()}
    assert any(len(parts) > 1 for parts in found.values()), "vacuous: nothing was cut"


@pytest.mark.parametrize("stop", [0, 3, 7])
def test_it_goes_on_exactly(texts, stop):
    with make_loader(texts) as loader:
        batches = list(loader)
    with make_loader(texts) as loader:
        for _ in zip(range(stop), loader, strict=False):
            pass
        state = json.loads(json.dumps(loader.state_dict()))

    with make_loader(texts) as loader:
        assert loader.load_state_dict(state) is Promise.REPLAYABLE
        assert seen(loader) == seen(batches[stop:])


@pytest.mark.parametrize("after", [{"max_tokens": 128, "packer": "best-fit"}, {"max_tokens": 70}], ids=str)
@pytest.mark.parametrize("stop", [1, 6])
def test_with_other_settings_the_rest_of_a_cut_sequence_comes_and_no_target_twice(texts, stop, after):
    whole = stored(texts)
    with make_loader(texts) as loader:
        before = [batch for _, batch in zip(range(stop), loader, strict=False)]
        state = json.loads(json.dumps(loader.state_dict()))
    begun = {row for row, parts in parts_of(before).items() if joined_length(parts) < len(whole[row])}
    assert begun, "vacuous: every sequence was delivered whole"

    with make_loader(texts, **after) as loader:
        assert loader.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
        rest = list(loader)

    parts = parts_of([*before, *rest])
    for row, ids in whole.items():
        assert joined(parts[row], ids) == ids
        assert joined_length(parts[row]) == len(ids)


def joined_length(parts):
    return sum(len(ids) - 1 for ids, _ in parts) + 1
