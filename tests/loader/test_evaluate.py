"""Evaluation: every sequence once, in one order, with what its loss is reported by."""

import json
import pickle

import pytest
import torch
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError, SourceError
from shardkit.loader import EvaluationLoader, StreamingLoader, sums_by_sequence, targets_by_sequence, unpack
from shardkit.media.reasons import BadMedia
from shardkit.sequence.plan.source import read_lengths
from shardkit.store.dataset import Dataset
from tests.loader.builders import seen


def stored(path, split):
    """(shard, row) of a split's sequences, in the order they are stored."""
    return [
        (shard.index, row)
        for shard in Dataset.open(path).sequence_shards
        if shard.split == split
        for row in range(shard.num_rows)
    ]


def test_one_sequence_a_row_comes_in_the_order_it_is_stored(split_tokens):
    with EvaluationLoader(split_tokens, packed=False) as loader:
        batches = list(loader)

    assert [row for batch in batches for row in batch.info.rows] == stored(split_tokens, "val")
    assert all(len(batch.ids) == 1 and len(pack) == 1 for batch in batches for pack in unpack(batch))
    assert len(batches) == len(loader)


def test_packed_batches_hold_each_sequence_once(split_tokens):
    with EvaluationLoader(split_tokens, max_tokens=256, global_batch=2) as loader:
        batches = list(loader)

    assert sorted(row for batch in batches for row in batch.info.rows) == stored(split_tokens, "val")
    assert len(batches) == len(loader)
    assert len(batches) < len(stored(split_tokens, "val"))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("packed", [True, False])
def test_each_iteration_is_the_same_also_in_a_copy_and_in_workers(split_tokens, packed):
    with EvaluationLoader(split_tokens, split="train", packed=packed, global_batch=4) as loader:
        whole = seen(loader)

        assert seen(loader) == whole
        assert seen(pickle.loads(pickle.dumps(loader))) == whole
        for workers in (1, 3):
            assert seen(DataLoader(loader, batch_size=None, num_workers=workers)) == whole
            with pytest.raises(ConfigError, match="does not see them"):
                loader.metrics()
        for _ in range(2):
            assert seen(loader) == whole
        assert loader.metrics().steps == 2 * len(whole), "since it is iterated here again"


def test_all_limits_hold(split_tokens):
    lengths = read_lengths(Dataset.open(split_tokens), "val")
    limits = {f"max_{name}": int(getattr(lengths, name).max()) for name in ("images", "patches", "attention")}
    found, digests = {}, set()
    for name, limit in ({"max_tokens": 256} | limits).items():
        with EvaluationLoader(split_tokens, **{"max_tokens": 256, name: limit}) as loader:
            batches = list(loader)
        assert sorted(row for batch in batches for row in batch.info.rows) == stored(split_tokens, "val")
        digests.add(batches[0].batch_id.split("/")[0])
        found[name] = [[one.sequence for one in pack] for batch in batches for pack in unpack(batch)]
    assert max(sum(one.num_images for one in pack) for pack in found["max_images"]) <= limits["max_images"]
    assert max(sum(one.num_tokens**2 for one in pack) for pack in found["max_attention"]) <= limits["max_attention"]
    assert len(digests) == 4
    assert all(len(found[name]) > len(found["max_tokens"]) for name in limits), "each of them binds"


def test_ranks_share_the_batches_and_take_equally_many_steps(split_tokens):
    ranks = []
    for rank in range(4):
        with EvaluationLoader(split_tokens, packed=False, global_batch=4, rank=rank, world_size=4) as loader:
            ranks.append([batch.info.rows for batch in loader])
            assert len(ranks[-1]) == len(loader)

    assert len({len(one) for one in ranks}) == 1
    for number, rows in enumerate(zip(*ranks, strict=True)):
        every = stored(split_tokens, "val")[number * 4 : number * 4 + 4]
        assert sorted(row for own in rows for row in own) == every


def test_a_batch_says_what_the_source_said_of_its_examples(split_tokens):
    metadata = {
        example.example_id: json.loads(example.metadata) for _, _, example in Dataset.open(split_tokens).examples("val")
    }
    with EvaluationLoader(split_tokens, max_tokens=256) as loader:
        for batch in loader:
            assert list(batch.metadata) == [metadata[one] for one in batch.ids]
            assert all("page" in about for about in batch.metadata)


def test_metadata_is_read_for_evaluation_only(split_tokens):
    with StreamingLoader(split_tokens, max_tokens=256) as loader, pytest.raises(ValueError, match="in evaluation only"):
        _ = next(iter(loader)).metadata


def test_losses_are_summed_by_sequence(split_tokens):
    with EvaluationLoader(split_tokens, max_tokens=256) as loader:
        for batch in loader:
            # A loss that tells its token: what stands where there is no target must not count.
            losses = torch.where(batch.shift_labels >= 0, batch.input_ids.double(), float("nan"))
            sums, targets = sums_by_sequence(batch, losses), targets_by_sequence(batch)
            for number, one in enumerate(one for pack in unpack(batch) for one in pack):
                counted = [place for place, byte in enumerate(one.sequence.objectives) if byte]
                assert targets[number] == len(counted)
                assert sums[number] == sum(int(one.sequence.input_ids[place - 1]) for place in counted)


def test_losses_by_source_are_those_of_a_loop_over_sequences(tokens):
    by_source = {"web": [0.0, 0], "notes": [0.0, 0]}
    alone = {"web": 0.0, "notes": 0.0}
    with EvaluationLoader(tokens) as loader:
        for batch in loader:
            losses = torch.where(batch.shift_labels >= 0, batch.position_ids.double(), 0.0)
            for source, sum_, number in zip(
                batch.sources, sums_by_sequence(batch, losses), targets_by_sequence(batch), strict=True
            ):
                by_source[source][0] += float(sum_)
                by_source[source][1] += int(number)
    with EvaluationLoader(tokens, packed=False) as loader:
        for batch in loader:
            alone[batch.sources[0]] += float(batch.position_ids[batch.shift_labels >= 0].sum())

    assert {source: sum_ for source, (sum_, _) in by_source.items()} == alone
    assert all(number for _, number in by_source.values())


def test_too_many_pictures_that_cannot_be_read_stop_an_evaluation(tokens, monkeypatch):
    def failing(_data):
        raise BadMedia("corrupt", "it cannot be decoded")

    monkeypatch.setattr("shardkit.loader.pictures.decode_rgb", failing)
    monkeypatch.setattr("shardkit.loader.packed.MAX_QUARANTINED", 5)
    with (
        EvaluationLoader(tokens, on_bad="quarantine") as loader,
        pytest.raises(SourceError, match="a rank masks 5 at most"),
    ):
        list(loader)


def test_what_does_not_fit_is_said(split_tokens, tokens):
    with pytest.raises(ConfigError, match="there is no split 'test'"):
        EvaluationLoader(split_tokens, split="test")
    with pytest.raises(ConfigError, match="max_tokens is 3, but the longest sequence has"):
        EvaluationLoader(tokens, max_tokens=3)
    with pytest.raises(ConfigError, match="verify is 'maybe'"):
        EvaluationLoader(tokens, verify="maybe")
    with EvaluationLoader(tokens) as loader:
        pass
    with pytest.raises(ConfigError, match="the loader was closed"):
        iter(loader)
