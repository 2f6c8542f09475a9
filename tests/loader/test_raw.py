"""Raw rows: what is stored, in the order of plans, on any number of ranks, from any place on."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardkit.errors import ConfigError, IntegrityError, ResumeError
from shardkit.loader import Promise, RawExampleLoader, RawSequenceLoader, StreamingLoader, shards
from shardkit.sequence.plan import Plan, PlanSettings
from shardkit.sequence.plan.source import identity, read_lengths
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from tests.loader import servers
from tests.loader.conftest import ingest

KINDS = [RawSequenceLoader, RawExampleLoader]


def plain(row):
    """A raw row as values that can be compared."""
    example_id, content, images = row
    return example_id, content.tolist() if isinstance(content, np.ndarray) else content, [*map(bytes, images)]


def rows_of(loader):
    return [plain(row) for batch in loader for row in batch]


def epoch_of(kind, path, **more):
    with kind(path, **{"global_batch": 4, **more}) as loader:
        return rows_of(loader)


def slow_examples(path, split=None):
    """Every example of a dataset, read as an object."""
    for shard, row, example in Dataset.open(path).examples(split):
        segments = tuple(one.text if one.kind == "text" else one.image for one in example.segments)
        yield (shard, row), (example.example_id, segments, [image.data for image in example.images])


def slow_sequences(path):
    """Every sequence of a dataset by its place, read as Python values."""
    dataset, examples = Dataset.open(path), dict(slow_examples(path))
    for shard in dataset.sequence_shards:
        for row, stored in enumerate(dataset.sequence_reader(shard).table().to_pylist()):
            images = examples[stored["shard"], stored["row"]][2]
            pictures = [images[slot["image"]] for slot in stored["slots"]]
            yield (shard.index, row), (stored["example_id"], stored["input_ids"], pictures)


def joined(batches):
    """The rows of a global batch in order, from the batches of all ranks."""
    return [plain(row) for rows in zip_longest(*batches) for row in rows if row is not None]


def counted(rows):
    return Counter(map(repr, rows))


def test_rows_come_as_they_were_given(tmp_path):
    (tmp_path / "raw").mkdir()
    Image.new("RGB", (20, 30), (200, 0, 0)).save(tmp_path / "raw" / "red.png")
    Image.new("RGB", (20, 30), (0, 0, 200)).save(tmp_path / "raw" / "blue.png")
    given = [
        {"text": "\u00e4 <image> red, then <image>", "images": ["red.png", "blue.png"]},
        {"text": "no picture", "images": []},
    ]
    file = tmp_path / "raw" / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in given))
    red, blue = ((tmp_path / "raw" / name).read_bytes() for name in ("red.png", "blue.png"))
    for shards_as in ("arrow", "tar"):
        path = ingest(file, tmp_path / shards_as, "--shards", shards_as)
        found = sorted(epoch_of(RawExampleLoader, path), key=lambda row: len(row[1]))
        assert [row[1:] for row in found] == [
            (("no picture",), []),
            (("\u00e4 ", 0, " red, then ", 1), [red, blue]),
        ]
        assert [row[0] for row in found] == [
            example.example_id
            for _, _, example in sorted(Dataset.open(path).examples(), key=lambda one: len(one[2].segments))
        ]


def test_sequences_come_as_the_slow_way_reads_them_in_the_order_that_plans_draw(tokens):
    stored = dict(slow_sequences(tokens))
    dataset = Dataset.open(tokens)
    lengths = read_lengths(dataset, "all")
    plan = Plan(
        lengths, PlanSettings(max_tokens=128, seed=5, block=1, packer="none"), identity=identity(dataset, "all")
    )
    drawn = [
        index for epoch in range(2) for step in plan.steps(plan.start(epoch)) for pack in step.packs for index in pack
    ]
    expected = [stored[int(lengths.shard[index]), int(lengths.row[index])] for index in drawn]

    found = epoch_of(RawSequenceLoader, tokens, seed=5, epochs=2)

    assert found == expected
    assert found[: len(stored)] != found[len(stored) :]
    assert counted(found[: len(stored)]) == counted(stored.values())


@pytest.mark.parametrize("name", ["web", "notes", "tokens", "split"])
def test_examples_come_as_the_slow_way_reads_them(work, tokens, split_tokens, name):
    for split in Dataset.open(work / name).splits:
        expected = [row for _, row in slow_examples(work / name, split)]
        found = epoch_of(RawExampleLoader, work / name, split=split)
        assert counted(found) == counted(expected)
        assert len(expected) < 6 or found != expected


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_share_every_batch_and_nothing_comes_twice(tokens, kind):
    whole = epoch_of(kind, tokens, epochs=2)
    for world_size, global_batch in [(1, 7), (2, 6), (3, 6), (8, 8), (16, 48)]:
        loaders = [
            kind(tokens, global_batch=global_batch, rank=rank, world_size=world_size, epochs=2)
            for rank in range(world_size)
        ]
        ranks = [list(loader) for loader in loaders]
        assert len({len(batches) for batches in ranks}) == 1
        assert [row for step in zip(*ranks, strict=True) for row in joined(step)] == whole
        assert [len(one) for one in loaders] == [len(batches) for batches in ranks]
        assert len(kind(tokens, global_batch=global_batch)) * 2 == len(ranks[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_on_from_every_place_with_other_ranks_and_batches(tokens, kind):
    whole = epoch_of(kind, tokens, epochs=2)
    with kind(tokens, global_batch=12, epochs=2) as loader:
        states = [json.dumps(loader.state_dict())] + [json.dumps(loader.state_dict()) for _ in loader]
    done = [json.loads(state)["place"] for state in states]
    size = len(whole) // 2
    for state, place in zip(states, done, strict=True):
        ranks = [kind(tokens, global_batch=6, rank=rank, world_size=2, epochs=2) for rank in range(2)]
        assert {loader.load_state_dict(json.loads(state)) for loader in ranks} == {Promise.REPLAYABLE}
        found = [row for step in zip(*ranks, strict=True) for row in joined(step)]
        assert found == whole[place["epoch"] * size + place["position"] :]
    assert done[0] == {"epoch": 0, "position": 0}
    assert done[1] == {"epoch": 0, "position": 12}
    assert done[-1] == {"epoch": 2, "position": 0}


def test_a_place_may_be_set_in_the_middle_of_an_iteration(tokens):
    with RawExampleLoader(tokens, global_batch=10) as loader:
        stream = iter(loader)
        first = [plain(row) for row in next(stream)]
        start = RawExampleLoader(tokens, global_batch=10).state_dict()
        loader.load_state_dict(start)
        assert [plain(row) for row in next(stream)] == first


def test_iterating_again_is_the_next_epoch(tokens):
    with RawSequenceLoader(tokens, global_batch=5) as loader:
        found = [rows_of(loader), rows_of(loader)]
    assert found[0] + found[1] == epoch_of(RawSequenceLoader, tokens, epochs=2)


def test_what_would_come_in_another_order_is_refused_with_both_sides(tokens, split_tokens):
    state = RawSequenceLoader(tokens, global_batch=4, seed=1).state_dict()
    for path, kind, more, text in [
        (tokens, RawSequenceLoader, {"seed": 2}, "seed is 1 there, 2 here"),
        (tokens, RawExampleLoader, {"seed": 1}, 'rows is "sequences" there, "examples" here'),
        (split_tokens, RawSequenceLoader, {"seed": 1}, 'split is "all" there, "train" here'),
    ]:
        with pytest.raises(ResumeError) as caught:
            kind(path, global_batch=4, **more).load_state_dict(state)
        assert text in str(caught.value)
    with StreamingLoader(tokens, max_tokens=128) as loader:
        of_packs = loader.state_dict()
    for broken in [{}, [], {**state, "version": 2}, {**state, "place": 3}, of_packs]:
        with pytest.raises(ResumeError, match="no state of a loader of raw rows"):
            RawSequenceLoader(tokens, global_batch=4, seed=1).load_state_dict(broken)
    with pytest.raises(ResumeError, match="the state was changed since it was saved"):
        RawSequenceLoader(tokens, global_batch=4, seed=1).load_state_dict(
            {**state, "place": {"epoch": 0, "position": 4}}
        )


def test_settings_that_do_not_fit_are_named(tokens, work, examples):
    for more, text in [
        ({"global_batch": 0}, "global_batch is 0, not a whole number above 0"),
        ({"global_batch": 3, "rank": 0, "world_size": 2}, "3"),
        ({"split": "val"}, r"there is no split 'val' \(splits: all\)"),
        ({"epochs": -1}, "epochs is -1, not a whole number from 0 on"),
        ({"verify": "yes"}, "verify is 'yes', none of read, open, off"),
    ]:
        with pytest.raises(ConfigError, match=text):
            RawExampleLoader(tokens, **{"global_batch": 4, **more})
    with pytest.raises(ConfigError, match="a dataset of stage ingest holds no sequences"):
        RawSequenceLoader(work / "web", global_batch=4)


def test_pictures_outlive_their_shard(tokens, monkeypatch):
    whole = epoch_of(RawSequenceLoader, tokens)
    monkeypatch.setattr(shards, "OPEN_SHARDS", 1)
    loader = RawSequenceLoader(tokens, global_batch=4)
    kept = [row for batch in loader for row in batch]
    loader.close()
    assert [plain(row) for row in kept] == whole
    assert any(images for _, _, images in kept)
    with pytest.raises(ConfigError, match="the loader was closed"):
        next(iter(loader))


@pytest.mark.parametrize("verify", ["read", "open"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_is_never_delivered(copied, tokens, kind, verify):
    whole = epoch_of(kind, tokens, global_batch=1)
    dataset = Dataset.open(copied)
    damaged = [shard for shard in dataset.shards if shard.path.suffix == ".tar" or kind is RawExampleLoader][::3]
    damaged += dataset.sequence_shards if kind is RawSequenceLoader else ()
    for shard in damaged:
        content = shard.path.read_bytes()
        block = [
            one for one in shard.holder.table("rows").to_pylist() if one["shard"] == shard.name and one["num_rows"]
        ][-1]
        changed = bytearray(content)
        changed[block["offset"] + block["size"] // 2] ^= 0xFF
        shard.path.write_bytes(changed)
        found = []
        with kind(copied, global_batch=1, verify=verify) as loader, pytest.raises(IntegrityError) as caught:
            found.extend(plain(row) for batch in loader for row in batch)
        assert shard.path.name in str(caught.value)
        assert "digest is xxh3:" in str(caught.value)
        assert found == whole[: len(found)]
        shard.path.write_bytes(content)
    assert len(damaged) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_url_gives_what_the_folder_gives(work, tokens, tmp_path, kind):
    pytest.importorskip("aiohttp")
    remote = RemoteSettings(cache=tmp_path / "cache", patience=3.0)
    with servers.http(work) as server:
        found = epoch_of(kind, f"{server.url}/tokens", remote=remote, copy=True)
    assert found == epoch_of(kind, tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_bytes_and_views_are_not(tokens, kind):
    for copy, expected in [(False, memoryview), (True, bytes)]:
        with kind(tokens, global_batch=4, copy=copy) as loader:
            kinds = {type(image) for batch in loader for _, _, images in batch for image in images}
        assert kinds == {expected}


def test_what_is_kept_of_older_shards_goes_where_there_are_many_rows(tokens, monkeypatch):
    whole = epoch_of(RawSequenceLoader, tokens, seed=3, epochs=2)
    monkeypatch.setattr(shards, "OPEN_ROWS", 1)
    assert epoch_of(RawSequenceLoader, tokens, seed=3, epochs=2) == whole
    reader = shards.Shards(Dataset.open(tokens), verify="read")
    for shard in range(len(Dataset.open(tokens).sequence_shards)):
        reader.raw_sequences([shard], [0])
    assert [len(one._blocks) for one in reader._sequences.values()][:-1] == [0] * (len(reader._sequences) - 1)
    assert len(reader._sequences) > 1
    reader.close()


def test_the_page_runs_as_it_is_written(work, tokens, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "loader.md").read_text()
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "RawExampleLoader" in block]
    (tmp_path / "work").symlink_to(work)
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    sequences, examples = (len([*rows]) for rows in (slow_sequences(tokens), slow_examples(work / "web")))
    assert len(capsys.readouterr().out.splitlines()) == 2 * sequences + examples
