"""Sizes of a sequence, and the type its ids are stored in."""

from __future__ import annotations

import numpy as np
import pytest

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.sequence import Sequence, Slot, id_type


def test_a_sequence_knows_its_sizes() -> None:
    slots = tuple(Slot(start=2 + 6 * n, count=4, image=n, height=56, width=28) for n in range(2))
    sequence = Sequence(
        input_ids=np.arange(16, dtype=np.uint32), objectives=bytes([0] * 12 + [2, 0, 3, 3]), slots=slots
    )
    sizes = (sequence.num_tokens, sequence.num_supervised, sequence.num_images, sequence.num_pixels)
    assert sizes == (16, 3, 2, 2 * 56 * 28)


@pytest.mark.parametrize(("vocab_size", "kind"), [(2, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_ids_take_the_smallest_type(vocab_size: int, kind: str) -> None:
    assert id_type(vocab_size) == np.dtype(kind)
    assert np.iinfo(id_type(vocab_size)).max >= vocab_size - 1


def test_objective_bytes_are_part_of_the_format() -> None:
    assert OBJECTIVES == {"none": 0, "text": 1, "caption": 2, "ocr": 3, "answer": 4, "chosen": 5, "rejected": 6}
