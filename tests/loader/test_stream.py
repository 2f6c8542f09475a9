"""What a loader gives: every sequence, in its packs, with its pixels."""

import json
from collections import Counter

import numpy as np
import pytest
import torch

from shardkit.errors import ConfigError
from shardkit.loader import Batch, unpack
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import Square
from shardkit.sequence.objectives import spread
from shardkit.store.dataset import Dataset
from tests.loader.builders import make_loader, pack_digests, seen


def stored_sequences(path):
    """(shard, row) -> the stored row, read in the plain way."""
    dataset = Dataset.open(path)
    return {
        (shard.index, row): values
        for shard in dataset.sequence_shards
        for row, values in enumerate(dataset.sequence_reader(shard).table().to_pylist())
    }


def test_an_epoch_delivers_every_stored_sequence_once(tokens):
    stored = stored_sequences(tokens)

    with make_loader(tokens, tail="pad") as loader:
        batches = list(loader)

    rows = [row for batch in batches for row in batch.info.rows]
    assert sorted(rows) == sorted(stored)
    assert len(batches) == len(loader)
    for batch in batches:
        found = [one for pack in unpack(batch) for one in pack]
        for row, example_id, source, one in zip(batch.info.rows, batch.example_ids, batch.sources, found, strict=True):
            expected = stored[row]
            assert one.sequence.input_ids.tolist() == expected["input_ids"]
            assert one.sequence.objectives == spread(expected["objectives"])
            assert (example_id, source) == (expected["example_id"], expected["source"])
            assert [slot.start for slot in one.sequence.slots] == [slot["start"] for slot in expected["slots"]]


def test_pixels_are_those_of_the_stored_pictures(tokens):
    dataset, stored, shown = Dataset.open(tokens), stored_sequences(tokens), 0

    with make_loader(tokens) as loader:
        for batch in loader:
            for row, one in zip(batch.info.rows, [one for pack in unpack(batch) for one in pack], strict=True):
                place = stored[row]
                for slot, pixels in zip(one.sequence.slots, one.pixels, strict=True):
                    example = dataset.reader(dataset.shards[place["shard"]]).example(place["row"])
                    image = example.images[slot.image]
                    expected = Square(image_size=56).pixels(decode_rgb(image.data))
                    assert np.array_equal(pixels, expected)
                    shown += 1
    assert shown > 40


def test_every_step_has_its_place_its_targets_and_its_id(tokens):
    with make_loader(tokens) as loader:
        batches = list(loader)

    for number, batch in enumerate(batches):
        assert isinstance(batch, Batch)
        assert batch.position == (0, number)
        plan, epoch, step, rank = batch.batch_id.split("/")
        assert (len(plan), epoch, step, rank) == (32, "0", str(number), "0of1")
        counted = torch.bincount(batch.objective_ids[batch.objective_ids > 0], minlength=7)
        assert counted.tolist() == batch.denominators.long().tolist()
        assert len(batch.pack_starts) == 3
        bounds = batch.cu_seq_lens_q[batch.pack_starts.long()]
        assert int(torch.diff(bounds).max()) <= 256


def test_epochs_follow_one_another_and_differ(tokens):
    with make_loader(tokens) as loader:
        first, second = list(loader), list(loader)
        third = list(loader)
    with make_loader(tokens, epochs=2) as both:
        together = list(both)
        assert list(both) == []

    assert [batch.position[0] for batch in first] == [0] * len(first)
    assert [batch.position[0] for batch in third] == [2] * len(third)
    assert seen(together) == seen([*first, *second])
    assert seen(first) != seen(second)
    assert len(both) == len(together)


def test_leaving_an_iteration_and_beginning_another_goes_on(tokens):
    with make_loader(tokens) as loader:
        whole = seen(loader)
    with make_loader(tokens) as loader:
        parts = []
        for stop in (1, 3, 10**9):
            for batch in loader:
                parts.append(batch)
                if len(parts) == stop:
                    break

    assert seen(parts) == whole


def test_two_iterations_at_once_are_refused(tokens):
    with make_loader(tokens) as loader:
        one = iter(loader)
        next(one)
        other = iter(loader)
        next(other)
        with pytest.raises(ConfigError, match="another iteration of this loader was begun"):
            next(one)
        assert next(other).position == (0, 2)


def test_train_is_the_default_of_a_dataset_that_is_split(split_tokens):
    with make_loader(split_tokens, tail="pad") as train, make_loader(split_tokens, tail="pad", split="val") as val:
        ids = [{example for batch in loader for example in batch.example_ids} for loader in (train, val)]

    assert ids[0].isdisjoint(ids[1])
    assert len(ids[0]) + len(ids[1]) == 40
    assert len(ids[0]) > len(ids[1]) > 0


@pytest.mark.parametrize(("fixture", "splits"), [("tokens", "all"), ("split_tokens", "train, val")])
def test_a_split_that_is_not_there_is_refused_with_those_that_are(fixture, splits, request):
    with pytest.raises(ConfigError) as caught:
        make_loader(request.getfixturevalue(fixture), split="test")

    assert str(caught.value).endswith(f"there is no split 'test' (splits: {splits})")


def test_a_dataset_without_sequences_is_refused(examples):
    with pytest.raises(ConfigError, match="a dataset of stage ingest holds no sequences"):
        make_loader(examples[0])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_tokens": 16}, "max_tokens is 16, but the longest sequence has"),
        ({"rank": 1}, "rank is given, world_size is not"),
        ({"world_size": 2}, "world_size is given, rank is not"),
        ({"rank": 2, "world_size": 2}, "rank 2 is not one of 2 ranks"),
        ({"rank": 0, "world_size": 3}, "(world sizes that fit: 1, 2)"),
        ({"verify": "sometimes"}, "verify is 'sometimes', none of read, open, off"),
        ({"on_bad": "skip"}, "on_bad is 'skip', none of raise, quarantine"),
        ({"epochs": 1.5}, "epochs is 1.5, not a whole number"),
        ({"mixture": {"weights": {"web": 1}}}, "the mixture gives the source 'notes' no weight"),
    ],
)
def test_settings_that_cannot_be(tokens, settings, words):
    with pytest.raises(ConfigError) as caught:
        make_loader(tokens, **settings)

    assert words in str(caught.value)
    assert caught.value.hint


def test_ranks_come_from_the_environment_of_torchrun(tokens, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with make_loader(tokens) as loader:
        assert next(iter(loader)).batch_id.endswith("/0/0/1of2")
    with make_loader(tokens, rank=0, world_size=1) as loader:
        assert next(iter(loader)).batch_id.endswith("/0/0/0of1")
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ConfigError, match="RANK in the environment is 'one'"):
        make_loader(tokens)


@pytest.mark.parametrize("verify", ["read", "open", "off"])
def test_every_way_of_checking_gives_the_same(tokens, verify):
    with make_loader(tokens, verify=verify) as loader:
        found = [pack_digests(batch) for batch in loader]
    with make_loader(tokens) as loader:
        assert found == [pack_digests(batch) for batch in loader]


def test_a_mixture_gives_shares_of_tokens(tokens):
    mixture = {"by": "token", "weights": {"web": 3, "notes": 1}}
    with make_loader(tokens, mixture=mixture, tail="pad", epochs=2) as loader:
        counts = {"web": 0, "notes": 0}
        for batch in loader:
            lengths = torch.diff(batch.cu_seq_lens_q).tolist()
            for source, length in zip(batch.sources, lengths, strict=True):
                counts[source] += length

    share = counts["web"] / sum(counts.values())
    assert abs(share - 0.75) * sum(counts.values()) <= 128


def test_a_closed_loader_gives_nothing_more_but_keeps_its_place(tokens):
    with make_loader(tokens) as loader:
        whole = seen(loader)
    loader = make_loader(tokens)
    next(iter(loader))
    loader.close()
    loader.close()

    with pytest.raises(ConfigError, match="the loader was closed"):
        iter(loader)
    other = make_loader(tokens)
    other.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert seen(other) == whole[1:]
    other.close()


def test_too_few_packs_give_no_batch_and_say_so(tokens, caplog):
    with make_loader(tokens, global_batch=500, epochs=3) as loader:
        assert list(loader) == []
        assert len(loader) == 0

    assert "epoch 0 has fewer packs than a global batch of 500: no batch (tail: drop)" in caplog.text


def test_a_mixture_that_comes_to_its_end_says_so(tokens, caplog):
    mixture = {"weights": {"notes": 1, "web": 1}, "repeat": {"notes": 1, "web": 2}}
    with make_loader(tokens, mixture=mixture, tail="pad", epochs=9) as loader:
        batches = list(loader)

    assert {batch.position[0] for batch in batches} == {0, 1}
    assert "epoch 2 has nothing: all sources were drawn as often as the mixture lets them be" in caplog.text
    times = Counter(row for batch in batches for row in batch.info.rows)
    assert sorted(set(times.values())) == [1, 2]


def test_pad_fills_up_with_packs_that_hold_nothing(tokens):
    with make_loader(tokens, global_batch=500, tail="pad") as loader:
        (batch,) = list(loader)

    assert len(batch.pack_starts) == 501
    assert int(batch.pack_starts[-1]) == len(batch.example_ids)
    assert 0 < sum(int(n == 0) for n in torch.diff(batch.pack_starts)) < 500
