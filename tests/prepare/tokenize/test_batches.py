"""Sequences as columns: what stands in a shard is what was built."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from shardkit.prepare.tokenize.columns import Columns, lengths_of, totals_of
from shardkit.sequence.objectives import spread
from shardkit.sequence.recipes import RECIPES, configure
from shardkit.sequence.sequence import Sequence, Slot
from tests.example_builders import make_example

LENGTHS = [1, 5, 1, 8, 3]


def made(length: int, number: int) -> Sequence:
    random = np.random.default_rng(number)
    objectives = bytearray(random.integers(0, 4, length).astype(np.uint8).tobytes())
    objectives[0] = 0
    return Sequence(
        input_ids=random.integers(0, 60000, length).astype(np.uint32),
        objectives=bytes(objectives),
        window=number,
        documents=(0, 1) if length == 3 else (0,),
        alternative=number % 2,
        alternatives=2,
        prompt='{"text": "a"}' if number == 1 else None,
    )


def test_every_field_of_every_sequence_is_in_the_batch() -> None:
    sequences = [made(length, number) for number, length in enumerate(LENGTHS)]
    columns = Columns()
    columns.add(7, make_example("first"), sequences[:2])
    columns.add(9, make_example("second"), [])
    columns.add(11, make_example("third"), sequences[2:])
    batch = columns.batch(shard=3, fingerprint="f", ids=np.uint16, patch_pixels=196)

    rows = batch.to_pylist()
    assert [row["row"] for row in rows] == [7, 7, 11, 11, 11]
    assert {row["shard"] for row in rows} == {3}
    for row, sequence in zip(rows, sequences, strict=True):
        assert row["input_ids"] == sequence.input_ids.tolist()
        assert spread(row["objectives"]) == sequence.objectives
        assert tuple(row["documents"]) == sequence.documents
        assert (row["alternative"], row["alternatives"], row["prompt"]) == (
            sequence.alternative, sequence.alternatives, sequence.prompt,
        )  # fmt: skip
        assert (row["num_tokens"], row["num_supervised"]) == (sequence.num_tokens, sequence.num_supervised)
        # No two neighbouring runs are of one objective: the shortest form is the only one.
        assert all(
            a["objective"] != b["objective"] for a, b in zip(row["objectives"], row["objectives"][1:], strict=False)
        )
        assert row["cost"] == sequence.num_tokens * (12_288 + sequence.num_tokens)

    recipe = configure(RECIPES["vlm"], {})
    lengths = lengths_of(batch, recipe, shard=2, first=1024, split="train")
    found = lengths.to_pylist()
    assert [row["row"] for row in found] == [1024, 1025, 1026, 1027, 1028]
    for row, sequence in zip(found, sequences, strict=True):
        counts = [row[f"supervised_{name}"] for name in ("text", "caption", "ocr")]
        assert counts == [sequence.objectives.count(byte) for byte in (1, 2, 3)]
    totals = totals_of(batch, lengths)["test"]
    assert (totals["sequences"], totals["tokens"]) == (5, sum(LENGTHS))
    assert totals["supervised"] == sum(sequence.num_supervised for sequence in sequences)


def test_images_keep_what_was_worked_out_for_them() -> None:
    slots = (
        Slot(start=0, count=2, image=0, height=28, width=56, used_height=20, ocr_labels=(5, 6), reading_order=(1, 0)),
        Slot(start=2, count=1, image=0, height=28, width=28),
    )
    sequence = Sequence(input_ids=np.arange(4, dtype=np.uint32), objectives=bytes([0, 0, 0, 2]), slots=slots)
    columns = Columns()
    example = make_example(0, "cat")
    columns.add(0, example, [sequence])
    (row,) = columns.batch(shard=0, fingerprint="f", ids=np.uint16, patch_pixels=196).to_pylist()
    asset = example.images[0].asset_id
    assert [slot.pop("asset_id") for slot in row["slots"]] == [asset, asset]
    first, second = row["slots"]
    assert first == {**dataclasses.asdict(slots[0]), "used_width": 56, "ocr_labels": [5, 6], "reading_order": [1, 0]}
    assert (second["used_height"], second["used_width"], second["ocr_labels"], second["reading_order"]) == (
        28,
        28,
        None,
        None,
    )
    assert (row["num_images"], row["num_pixels"]) == (2, 28 * 56 + 28 * 28)


@pytest.mark.parametrize("ids", [np.uint16, np.uint32])
def test_a_chunk_without_sequences_is_an_empty_batch(ids: type) -> None:
    batch = Columns().batch(shard=0, fingerprint="f", ids=ids, patch_pixels=1)
    assert batch.num_rows == 0
    assert totals_of(batch, lengths_of(batch, configure(RECIPES["vlm"], {}), shard=0, first=0, split="all")) == {}
