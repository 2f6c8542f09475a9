"""Tokenized datasets joined by concat: rows of sequences lead to the pictures of their own dataset."""

import json

import numpy as np
import pytest

from shardkit.cli import run
from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader, unpack
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.store.dataset import Dataset
from tests.loader.conftest import ingest, tokenize, write_rows


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Two tokenized datasets of one recipe, with pictures, of several shards each."""
    work = tmp_path_factory.mktemp("concat")
    found = []
    for seed, name in enumerate(("first", "second"), 11):
        examples = ingest(write_rows(work / "raw" / name, 24, images=2, seed=seed), work / name)
        found.append(tokenize(examples, out=work / f"{name}-tokens"))
    return found


@pytest.fixture(scope="module")
def joined(parts):
    out = parts[0].parent / "joined"
    concat(ConcatConfig(inputs=tuple(parts), output=out))
    return out


def delivered(path):
    """Example id and window -> ids and pixels of its sequence, over an epoch."""
    found = {}
    with StreamingLoader(path, max_tokens=256, global_batch=1, tail="pad") as loader:
        for batch in loader:
            ones = [one for pack in unpack(batch) for one in pack]
            for example, one in zip(batch.example_ids, ones, strict=True):
                key = (example, one.sequence.window)
                assert key not in found
                found[key] = (one.sequence.input_ids.tolist(), [np.asarray(p).tobytes() for p in one.pixels])
    return found


def test_an_epoch_of_the_joined_is_that_of_the_parts_together(parts, joined):
    assert len(Dataset.open(parts[0]).shards) > 1
    together = {**delivered(parts[0]), **delivered(parts[1])}
    assert any(pixels for _, pixels in together.values())
    assert delivered(joined) == together


def test_it_is_an_append_to_each_part(parts, joined):
    held = {shard.entry.xxh3 for shard in Dataset.open(joined).sequence_shards}
    for part in parts:
        assert {shard.entry.xxh3 for shard in Dataset.open(part).sequence_shards} < held
        assert Dataset.open(part).recipe == Dataset.open(joined).recipe
    assert Dataset.open(joined).table("lengths").num_rows == sum(
        Dataset.open(part).table("lengths").num_rows for part in parts
    )
    assert run(["verify", str(joined), "--quiet"]) == 0
    assert run(["plan", str(joined), "--max-tokens", "256", "--quiet"]) == 0


def test_sequences_of_other_recipes_are_refused(parts, tmp_path):
    examples = parts[1].parent / "second"
    short = tokenize(examples, out=tmp_path / "short", max_tokens=96)
    with pytest.raises(ConfigError, match=r"were tokenized in different ways: max_tokens is (96 and 128|128 and 96)"):
        concat(ConcatConfig(inputs=(parts[0], short), output=tmp_path / "c"))
    with pytest.raises(ConfigError, match=r"holds sequences, .*second holds none"):
        concat(ConcatConfig(inputs=(parts[0], examples), output=tmp_path / "c"))


def test_sequences_of_joined_splits_are_audited_and_traced(tmp_path, capsys):
    parts = []
    for seed, name in enumerate(("first", "second"), 21):
        examples = ingest(write_rows(tmp_path / "raw" / name, 24, images=1, seed=seed), tmp_path / name)
        ratios = ["--ratios", "train=0.5,val=0.5", "--workers", "1", "--quiet"]
        assert run(["split", str(examples), "-o", f"{tmp_path}/{name}-split", *ratios]) == 0
        parts.append(tokenize(tmp_path / f"{name}-split", out=tmp_path / f"{name}-tokens"))
    concat(ConcatConfig(inputs=tuple(parts), output=tmp_path / "joined"))
    capsys.readouterr()
    # Splits that were made apart may hold pictures that look alike; what is judged here is where sequences lead.
    run(["audit", f"{tmp_path}/joined", "--json", "--quiet", "--workers", "1"])
    audited = json.loads(capsys.readouterr().out)
    assert (audited["faults"], audited["leaks"]["parent"]) == ([], 0)
    dataset = Dataset.open(tmp_path / "joined")
    for shard in dataset.sequence_shards:
        row = dataset.sequence_reader(shard).table(["sequence_id", "example_id"]).to_pylist()[-1]
        assert run(["trace", f"{tmp_path}/joined", row["sequence_id"], "--json"]) == 0
        out = capsys.readouterr().out
        assert row["example_id"] in out
        assert f'"split":"{shard.split}"' in out.replace(" ", "")
