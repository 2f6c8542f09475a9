"""Sums first, division last."""

from __future__ import annotations

import pytest
import torch

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.trainer.objective import NUM_OBJECTIVES, by_name, combine, numerators, objective_weights
from tests.trainer.builders import docs_with_pictures, make_batch, make_model


def sums_and_counts(losses, objectives):
    ids = torch.tensor(objectives)
    return numerators(torch.tensor(losses), ids), torch.bincount(ids, minlength=NUM_OBJECTIVES).double()


ONES = torch.ones(NUM_OBJECTIVES, dtype=torch.float64)


def test_each_objective_counts_the_same_however_many_tokens_it_has():
    sums, counts = sums_and_counts([1.0, 3.0, 10.0, 10.0, 10.0], [1, 1, 2, 2, 2])
    assert combine(sums, counts, ONES) == 12.0
    sums, counts = sums_and_counts([1.0, 3.0] + [10.0] * 6, [1, 1] + [2] * 6)
    assert combine(sums, counts, ONES) == 12.0
    assert by_name(OBJECTIVES, sums, counts) == {"text": 2.0, "caption": 10.0}


def test_two_ranks_are_summed_before_the_division():
    first, counts_first = sums_and_counts([1.0, 3.0], [1, 1])
    second, counts_second = sums_and_counts([5.0, 10.0, 10.0, 10.0], [1, 2, 2, 2])
    counts = counts_first + counts_second
    assert combine(first + second, counts, ONES) == 13.0
    # What each rank contributes adds up to it; a mean of the ranks' own means would be 8.5.
    assert combine(first, counts, ONES) + combine(second, counts, ONES) == 13.0
    assert (combine(first, counts_first, ONES) + combine(second, counts_second, ONES)) / 2 == 8.5


def test_weights_are_stated_and_tokens_of_no_objective_count_for_nothing():
    sums, counts = sums_and_counts([7.0, 1.0, 3.0, 10.0], [0, 1, 1, 2])
    weights = objective_weights(["caption", "text"], {"text": 0.5, "caption": 2.0})
    assert combine(sums, counts, weights) == 0.5 * 2.0 + 2.0 * 10.0


def test_a_batch_without_an_objective_gives_it_no_gradient_and_no_nan():
    losses = torch.tensor([1.0, 3.0], requires_grad=True)
    loss = combine(numerators(losses, torch.tensor([1, 1])), torch.tensor([0.0, 2, 0, 0, 0, 0, 0]).double(), ONES)
    loss.backward()
    assert loss == 2.0
    assert losses.grad.tolist() == [0.5, 0.5]


def test_all_weights_are_one_where_none_is_chosen():
    weights = objective_weights(["ocr", "text"], {})
    assert [name for name, number in OBJECTIVES.items() if weights[number]] == ["text", "ocr"]
    assert weights.sum() == 2.0


def test_a_missing_weight_is_refused():
    with pytest.raises(ConfigError, match="objective caption of the dataset has no weight") as error:
        objective_weights(["ocr", "caption"], {"ocr": 1.0})
    assert "--objective-weight caption=1.0" in error.value.hint


def test_a_weight_for_what_never_occurs_is_refused():
    with pytest.raises(ConfigError, match=r"no target of objective answer \(it has ocr\)"):
        objective_weights(["ocr"], {"ocr": 1.0, "answer": 1.0})


@pytest.mark.parametrize("parts", [2, 4])
def test_micro_steps_give_the_gradients_of_one_step(parts):
    docs = docs_with_pictures()
    whole = make_batch(docs)
    weights = objective_weights(["text", "caption", "ocr"], {})

    def run(batches):
        model = make_model()
        total = torch.zeros(NUM_OBJECTIVES, dtype=torch.float64)
        for batch in batches:
            sums = numerators(model.losses(batch), batch.objective_ids[0])
            combine(sums, whole.denominators, weights).backward()
            total += sums.detach()
        return combine(total, whole.denominators, weights), [p.grad for p in model.parameters()]

    loss, gradients = run([whole])
    share_loss, share_gradients = run([make_batch(docs[part::parts]) for part in range(parts)])
    assert abs(loss - share_loss) < 1e-6
    for one, other in zip(gradients, share_gradients, strict=True):
        assert (one - other).abs().max() < 1e-6
    assert max(one.abs().max() for one in gradients) > 0.1
