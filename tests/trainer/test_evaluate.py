"""The right images against permuted ones: a fair exchange, counted by group."""

from __future__ import annotations

import pytest
import torch

from shardkit.trainer.evaluate import (
    GroupLoss,
    by_sequence,
    image_kinds,
    losses_by_group,
    permute,
    rows_of,
    summarise,
)
from tests.trainer.builders import Doc, docs_with_pictures, make_batch, make_model, picture

SQUARE = (56, 56, 4)


def test_each_image_gets_one_of_another_group_and_none_is_taken_twice():
    groups = ["b", "a", "a", "c", "c"]
    partners = permute(groups, [SQUARE] * 5)
    assert sorted(partners) == [0, 1, 2, 3, 4]
    assert all(groups[partner] != groups[image] for image, partner in enumerate(partners))


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (2, 1, 1), (4, 2, 2), (1,) * 9])
def test_the_exchange_is_whole_wherever_no_group_has_more_than_half(sizes):
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    partners = permute(groups, [SQUARE] * len(groups))
    assert sorted(partners) == list(range(len(groups)))
    assert all(groups[partner] != groups[image] for image, partner in enumerate(partners))


def test_images_without_a_partner_are_left_out():
    assert permute(["a", "a", "a"], [SQUARE] * 3) == [None, None, None]
    assert permute(["a", "b"], [SQUARE, (28, 56, 2)]) == [None, None]
    partners = permute(["a", "a", "a", "b"], [SQUARE] * 4)
    assert partners.count(None) == 2
    assert partners[3] is not None


def test_kinds_and_rows_follow_the_slots():
    batch = make_batch(docs_with_pictures())
    assert image_kinds(batch) == [(56, 56, 4), (30, 100, 8), (56, 56, 4), (56, 56, 4), (120, 20, 5)]
    assert rows_of(batch, [2, 1, 3, 0, 4]).tolist() == [
        *range(12, 16),
        *range(4, 12),
        *range(16, 20),
        *range(4),
        *range(20, 25),
    ]


def test_permuted_is_the_loss_that_the_other_picture_would_give():
    model = make_model()
    docs = [Doc(name=str(number), text=(7 + number, 8, 2), images=(picture(number),)) for number in range(3)]
    swapped = [
        Doc(name=doc.name, text=doc.text, images=docs[(number + 1) % 3].images) for number, doc in enumerate(docs)
    ]
    groups = {"0": "a", "1": "b", "2": "c"}
    by_group, num_left_out = losses_by_group(model, [make_batch(docs)], groups)
    assert num_left_out == 0
    with torch.no_grad():
        for right, permuted, group in zip(docs, swapped, "abc", strict=True):
            assert by_group[group].tokens == 3
            assert by_group[group].right == pytest.approx(float(model.losses(make_batch([right])).sum()), abs=1e-4)
            assert by_group[group].permuted == pytest.approx(
                float(model.losses(make_batch([permuted])).sum()), abs=1e-4
            )
            assert by_group[group].permuted != pytest.approx(by_group[group].right, abs=1e-3)


def test_texts_without_images_are_no_witnesses():
    docs = [
        Doc(name="0", text=(7, 2), images=(picture(0),)),
        Doc(name="1", text=(8, 9, 2)),
        Doc(name="2", text=(9, 2), images=(picture(1),)),
    ]
    by_group, _ = losses_by_group(
        make_model(), [make_batch(docs), make_batch(docs[1:2])], {"0": "a", "1": "b", "2": "c"}
    )
    assert sorted(by_group) == ["a", "c"]


def test_groups_weigh_the_same_and_seeds_are_averaged_inside_them():
    runs = [
        {"a": GroupLoss(right=2.0, permuted=4.0, tokens=2), "b": GroupLoss(right=10.0, permuted=20.0, tokens=10)},
        {"a": GroupLoss(right=2.0, permuted=8.0, tokens=2), "b": GroupLoss(right=10.0, permuted=40.0, tokens=10)},
    ]
    figure = summarise(runs, split="val", num_left_out=0)
    # a: 1 against 1.5 and 4 halves -> 3; b: 1 against 3.  Differences 2 and 2.
    assert (figure.right, figure.permuted, figure.difference, figure.standard_error) == (1.0, 3.0, 2.0, 0.0)
    figure = summarise(
        [*runs[:1], {**runs[1], "b": GroupLoss(right=10.0, permuted=60.0, tokens=10)}], split="val", num_left_out=0
    )
    # Differences 2 and 3: mean 2.5, deviation sqrt(1/2), over two groups 0.5.
    assert figure.difference == pytest.approx(2.5)
    assert figure.standard_error == pytest.approx(0.5)


def test_a_figure_that_cannot_be_taken_is_none():
    figure = summarise([{}], split="val", num_left_out=3)
    assert (figure.right, figure.difference, figure.standard_error, figure.num_groups) == (None, None, None, 0)
    one = summarise([{"a": GroupLoss(right=1.0, permuted=2.0, tokens=1)}], split="val", num_left_out=0)
    assert (one.difference, one.standard_error) == (1.0, None)


def test_losses_are_summed_by_sequence():
    model, batch = make_model(), make_batch(docs_with_pictures())
    with torch.no_grad():
        summed, counted = by_sequence(model, batch, model.image_rows(batch))
        assert counted.tolist() == [4, 6, 2, 4, 7]
        assert float(summed.sum()) == pytest.approx(float(model.losses(batch).sum()), rel=1e-5)
