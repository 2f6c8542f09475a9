"""The rule of mixing against its slow form."""

from fractions import Fraction

import numpy as np
import pytest

from shardkit.sequence.plan.deficit import by_deficit


def slow(weights, amounts, upcoming, count, largest):
    """Of the sources that are not ahead of their share, the one that would be first to fall a whole sequence behind."""
    amounts, whole, chosen = list(amounts), sum(weights), []
    left = [list(one) for one in upcoming]
    for _ in range(count):
        total = sum(amounts)
        places = [p for p in range(len(weights)) if amounts[p] * whole <= weights[p] * total]
        best = min(places, key=lambda p: (Fraction((largest + amounts[p]) * whole, weights[p]), p))
        if not left[best]:
            break
        amounts[best] += left[best].pop(0)
        chosen.append(best)
    return chosen


@pytest.mark.parametrize("seed", range(40))
def test_equals_the_slow_form(seed):
    random = np.random.default_rng(seed)
    number = int(random.integers(1, 8))
    weights = random.choice([1, 2, 3, 7, 50, 1000], number).tolist()
    amounts = random.integers(0, 50, number).tolist()
    upcoming = [random.integers(0, [2, 30, 400][k % 3], int(random.integers(1, 200))).tolist() for k in range(number)]
    largest = max(max(one) for one in upcoming) or 1

    assert by_deficit(weights, amounts, upcoming, 150, largest) == slow(weights, amounts, upcoming, 150, largest)


def test_by_hand():
    assert by_deficit([3, 1], [0, 0], [[5] * 9, [5] * 9], 8, 5) == [0, 1, 0, 0, 0, 1, 0, 0]


def test_a_source_that_runs_out_ends_the_draws():
    assert by_deficit([1, 1], [0, 0], [[5, 5], [5] * 9], 9, 5) == [0, 1, 0, 1]
    assert by_deficit([1], [0], [[5, 5]], 9, 5) == [0, 0]
