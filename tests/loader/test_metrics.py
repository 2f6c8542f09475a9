"""What a stream counts is what its batches hold; where its sequences come from is what trace finds."""

import json
import time

import numpy as np
import pytest
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError
from shardkit.loader import Meter, StreamingLoader, unpack
from shardkit.loader.trace import trace
from shardkit.prepare.lineage.trace import Tracer
from shardkit.store.dataset import Dataset
from tests.loader.builders import make_host_batch, random_packs


def make_loader(path, **more):
    return StreamingLoader(path, **{"max_tokens": 256, "global_batch": 2, "tail": "pad", **more})


def counted(batches):
    """source -> [examples, sequences, tokens, supervised tokens, pixels], from the unpacked sequences."""
    found = {}
    for batch in batches:
        ids = {}
        for source, example_id, one in zip(
            batch.sources, batch.ids, (one for pack in unpack(batch) for one in pack), strict=True
        ):
            own = found.setdefault(source, [0, 0, 0, 0, 0])
            ids.setdefault(source, set()).add(example_id)
            for place, amount in enumerate(
                (1, one.sequence.num_tokens, one.sequence.num_supervised, sum(p.size // 3 for p in one.pixels)), 1
            ):
                own[place] += amount
        for source, names in ids.items():
            found[source][0] += len(names)
    return found


def test_metrics_count_what_the_batches_hold(tokens):
    with make_loader(tokens) as loader:
        batches = []
        for batch in loader:
            batches.append(batch)
            time.sleep(0.01)
        metrics = loader.metrics()

    by_source = counted(batches)
    sums = [sum(amounts) for amounts in zip(*by_source.values(), strict=True)]
    totals = metrics.totals
    assert sums == [totals.examples, totals.sequences, totals.tokens, totals.supervised_tokens, totals.pixels]
    assert metrics.steps == len(batches)
    for source, amounts in by_source.items():
        assert list(metrics.shares[source].values()) == pytest.approx(
            [amount / whole for amount, whole in zip(amounts, sums, strict=True)]
        )
    assert metrics.tokens_per_second == pytest.approx(totals.tokens / metrics.seconds)
    assert metrics.padding == pytest.approx(1 - totals.tokens / (256 * 2 * len(batches)))
    assert metrics.wait_seconds <= metrics.seconds
    assert metrics.copy_seconds <= metrics.wait_seconds
    assert metrics.pack_seconds > 0
    assert metrics.decode_seconds > 0
    # The consumer slept in every step but the last one that is counted.
    assert metrics.step.p50 >= 0.01
    assert metrics.step.p99 >= metrics.step.p50
    assert metrics.wait.p99 >= metrics.wait.p50


def test_media_bytes_are_those_of_the_stored_pictures(tokens):
    dataset = Dataset.open(tokens)
    with make_loader(tokens) as loader:
        traced = [place for batch in loader for place in batch.trace()]
        counted_bytes = loader.metrics().media_bytes

    names = {shard.name: shard for shard in dataset.shards}
    stored = 0
    for place in traced:
        reader = dataset.reader(names[place["example"]["shard"]])
        stored += sum(len(reader.image_bytes(place["example"]["row"], image)) for image in range(len(place["assets"])))
    assert counted_bytes == stored


def test_counting_can_begin_anew(tokens):
    with make_loader(tokens) as loader:
        stream = iter(loader)
        next(stream)
        next(stream)
        assert loader.metrics(restart=True).steps == 2
        assert loader.metrics().steps == 0
        assert loader.metrics().totals.tokens == 0
        batch = next(stream)
        assert loader.metrics().totals.tokens == batch.input_ids.numel()


def test_before_the_first_batch_there_is_nothing(tokens):
    with make_loader(tokens) as loader:
        metrics = loader.metrics()
    assert (metrics.steps, metrics.totals.tokens, metrics.padding, metrics.step.p99) == (0, 0, 0.0, 0.0)
    assert json.loads(json.dumps(metrics.to_json()))["shares"] == {}


def test_behind_workers_each_batch_is_counted_where_it_arrives(tokens):
    with make_loader(tokens) as loader:
        whole = list(loader)
        own = loader.metrics()
    with make_loader(tokens) as loader:
        meter = Meter()
        for batch in meter.waits(DataLoader(loader, batch_size=None, num_workers=2)):
            with meter.copy():
                batch = batch.to_device("cpu")
            meter.add(batch)
        with pytest.raises(ConfigError, match="does not see them"):
            loader.metrics()
        again = list(loader)
        assert loader.metrics().steps == len(again) == len(whole), "iterated here, it counts anew"

    found = meter.metrics()
    assert (found.steps, found.totals, found.media_bytes) == (len(whole), own.totals, own.media_bytes)
    assert found.shares == own.shares
    assert found.wait_seconds > 0


def test_a_trace_names_what_the_tracer_finds(tokens):
    tracer = Tracer(tokens)
    with make_loader(tokens) as loader:
        for batch in loader:
            places = batch.trace()
            assert [place["example_id"] for place in places] == list(batch.ids)
            for place in places[:3]:
                found = tracer.trace(place["sequence_id"])
                assert found["kind"] == "sequence"
                example = found["examples"][0]
                assert (example["example_id"], example["source"]) == (place["example_id"], place["source"])
                assert [image["asset_id"] for image in example["images"]] == place["assets"]


def test_a_batch_from_a_worker_traces_too(tokens):
    with make_loader(tokens) as loader:
        own = [batch.trace() for batch in loader]
    with make_loader(tokens) as loader:
        assert [batch.trace() for batch in DataLoader(loader, batch_size=None, num_workers=2)] == own


def test_a_batch_that_is_of_no_dataset_cannot_be_traced():
    random_state = np.random.default_rng(0)
    host, _ = make_host_batch(random_packs(random_state), random_state)
    with pytest.raises(ConfigError, match="was read from no dataset"):
        trace(host.info)
