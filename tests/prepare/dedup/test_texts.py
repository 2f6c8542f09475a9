"""Texts of rows, beside the facts of the same rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardkit.prepare.dedup import texts as module
from shardkit.prepare.dedup.inputs import facts_of, open_inputs
from shardkit.prepare.dedup.texts import texts_of
from tests.prepare.builders import example, png, write


@pytest.mark.parametrize("shards", ["arrow", "tar"])
@pytest.mark.parametrize("chosen", [None, [0, 1, 2, 3], [1, 70, 71, 199], [3]])
def test_texts_are_those_of_the_facts(shards: str, chosen: list[int] | None, tmp_path: Path):
    rows = [example("plain \u6211"), example(None, png(1)), example("after", png(2), turns=[("user", "a"), ("x", "b")])]
    rows += [example(f"text {k}") for k in range(200)]
    write(tmp_path / "data", rows, shards=shards, unit_rows=150)
    inputs = open_inputs([tmp_path / "data"])
    pieces = list(inputs.slices(None if chosen is None else np.array(chosen)))
    found = [text for piece in pieces for batch in texts_of(piece) for text in batch]
    assert found == [facts.raw_text for piece in pieces for facts in facts_of(piece)]
    assert len(found) == len(chosen or rows)


def test_batches_are_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 1000)
    write(tmp_path / "data", [example(f"{k:010}") for k in range(300)])
    [piece] = open_inputs([tmp_path / "data"]).slices()
    sizes = [len(batch) for batch in texts_of(piece)]
    # Whole blocks of 64 rows.
    assert sizes == [128, 128, 44]
