"""The padding report against batches as they are made."""

import numpy as np
import pytest
from torch.utils.data import DataLoader

from shardkit.cli import run as command
from shardkit.loader import StreamingLoader
from shardkit.loader.masks import AttentionLayout
from shardkit.prepare.report.padding import PaddingConfig, run
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.padding import meta_bytes
from tests.loader.builders import make_host_batch, random_packs


def test_bytes_of_the_words_are_those_of_a_batch():
    for seed in range(50):
        random = np.random.default_rng(seed)
        packs = random_packs(random, largest_side=5)
        host, _ = make_host_batch(packs, random)
        sequences = [sequence for pack in packs for sequence in pack]
        assert host.meta.nbytes == meta_bytes(
            tokens=sum(sequence.num_tokens for sequence in sequences),
            documents=sum(len(sequence.documents) for sequence in sequences),
            sequences=len(sequences),
            packs=len(packs),
            images=sum(len(sequence.slots) for sequence in sequences),
            objectives=len(OBJECTIVES),
        )


def test_the_report_of_a_dataset_is_that_of_its_batches(tokens):
    report = run(PaddingConfig(dataset=tokens, batch_size=4, max_tokens=128))
    with StreamingLoader(tokens, max_tokens=128, epochs=1) as loader:
        batches = list(loader)
    packed = report["packed"]
    assert packed["packs"] == len(batches)
    assert packed["bytes"] == sum(batch.num_bytes for batch in hosts(tokens))
    num_tokens = sum(batch.input_ids.shape[1] for batch in batches)
    assert packed["supervised_tokens"] == sum(int((batch.shift_labels != -100).sum()) for batch in batches)
    assert packed["text"] == pytest.approx(1 - num_tokens / (128 * len(batches)))
    assert packed["self_allowed"] == sum(int(AttentionLayout.of(batch).dense().sum()) for batch in batches)
    assert packed["self_blocks"] == sum(
        int((blocks.num_partial + blocks.num_full).sum()) * 128 * 128
        for blocks in (AttentionLayout.of(batch).bounds.blocks() for batch in batches)
    )
    assert [row["name"] for row in report["padded"]] == ["text", "images"]


def hosts(path):
    """Its batches as they cross the bus: what a worker hands over."""
    return list(DataLoader(StreamingLoader(path, max_tokens=128, epochs=1), batch_size=None, num_workers=1))


def test_the_command_prints_the_published_figures(capsys):
    assert command(["padding", "--reference", "--compat"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.splitlines()[2:6]] == ["59.88", "60.94", "68.72", "90.44"]
    assert command(["padding", "--reference"]) == 0
    out = capsys.readouterr().out
    assert "76.17" in out
    # 616.6 MB of float32 tiles, 356.3 MB of mask, 0.35 MB of text; 61 tiles of a byte a value and 45 kB of words.
    assert "bytes to the device 973,249,536" in out
    assert "the same end to end, a byte a pixel: 36,773,748, 26.5 times fewer" in out


def test_what_is_missing_is_named(tokens, tmp_path, capsys):
    assert command(["padding"]) == 2
    assert command(["padding", str(tokens), "--reference"]) == 2
    assert command(["padding", str(tokens), "--split", "none"]) == 3
    assert "none" in capsys.readouterr().err
    assert command(["padding", str(tmp_path)]) == 4
