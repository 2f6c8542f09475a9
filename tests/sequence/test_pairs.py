"""Pairs as six arrays: what the model reads, what it is to say, and where that counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.pairs import six_arrays
from shardkit.sequence.sequence import Sequence, Slot


def sequence(ids: list[int], objectives: list[int], documents: tuple[int, ...]) -> Sequence:
    return Sequence(input_ids=np.array(ids, np.uint16), objectives=bytes(objectives), documents=documents)


PAIR = sequence([1, 7, 8, 9, 2, 1, 7, 5, 2], [0, 0, 5, 5, 5, 0, 0, 6, 6], (0, 5))


def test_x_is_all_but_the_last_y_all_but_the_first_and_the_mask_belongs_to_y() -> None:
    found = {name: array.tolist() for name, array in six_arrays([PAIR]).items()}
    assert found == {
        "x_chosen": [[1, 7, 8, 9]],
        "y_chosen": [[7, 8, 9, 2]],
        "mask_chosen": [[0, 1, 1, 1]],
        "x_rejected": [[1, 7, 5, 0]],
        "y_rejected": [[7, 5, 2, 0]],
        "mask_rejected": [[0, 1, 1, 0]],
    }


def test_all_six_have_the_asked_width() -> None:
    other = sequence([1, 2, 1, 3], [0, 5, 0, 6], (0, 2))
    found = six_arrays([PAIR, other], max_tokens=8, pad=99)
    assert {array.shape for array in found.values()} == {(2, 7)}
    assert found["x_rejected"].tolist() == [[1, 7, 5, 99, 99, 99, 99], [1, 99, 99, 99, 99, 99, 99]]
    assert found["mask_chosen"].sum(axis=1).tolist() == [3, 1]
    assert six_arrays([], max_tokens=8)["x_chosen"].shape == (0, 7)


def test_the_loss_of_the_worked_example() -> None:
    """Sums of log probabilities over the mask: (pc - pr) - (rc - rr) = 2 - 1, beta = 0.1."""
    found = six_arrays([PAIR])
    policy = {"chosen": np.array([[9.0, -1.0, -1.0, -1.0]]), "rejected": np.array([[9.0, -2.5, -2.5, 9.0]])}
    reference = {"chosen": np.array([[9.0, -1.0, -1.0, -2.0]]), "rejected": np.array([[9.0, -2.0, -3.0, 9.0]])}

    def margin(model: dict[str, np.ndarray]) -> float:
        one, other = ((model[side] * found[f"mask_{side}"]).sum() for side in ("chosen", "rejected"))
        return float(one - other)

    assert (margin(policy), margin(reference)) == (2.0, 1.0)
    loss = -np.log(1 / (1 + np.exp(-0.1 * (margin(policy) - margin(reference)))))
    assert round(float(loss), 6) == 0.644397


@pytest.mark.parametrize(
    ("pairs", "options", "says"),
    [
        ([sequence([1, 2], [0, 4], (0,))], {}, "the sequence has 1 documents, a preference pair has two"),
        ([PAIR], {"max_tokens": 4}, "a document has 5 tokens, max_tokens is 4"),
    ],
)
def test_what_is_no_pair_or_too_long_is_refused(pairs: list[Sequence], options: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        six_arrays(pairs, **options)
    assert caught.value.what == says


def test_pairs_with_images_are_refused() -> None:
    shown = replace(PAIR, slots=(Slot(start=1, count=1, image=0, height=28, width=28),))
    with pytest.raises(ConfigError, match="shows images, which the six arrays do not hold"):
        six_arrays([shown])
