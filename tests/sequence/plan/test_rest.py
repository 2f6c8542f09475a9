"""What is left of an epoch."""

from itertools import pairwise

import numpy as np
import pytest

from shardkit.sequence.plan.rest import missing_ranges


def test_what_lacks_of_a_cut_sequence():
    assert missing_ranges(10, [(0, 4)], None) == (0, ((3, 10),))
    assert missing_ranges(10, [(0, 4), (3, 10)], None) == (1, ())
    assert missing_ranges(10, [(3, 7)], None) == (0, ((0, 4), (6, 10)))
    assert missing_ranges(10, [(3, 7)], ((3, 10),)) == (0, ((6, 10),))
    assert missing_ranges(10, [(3, 10)], ((3, 10),)) == (1, ())
    assert missing_ranges(10, [(0, 4), (3, 10), (0, 4)], None) == (1, ((3, 10),))


@pytest.mark.parametrize("seed", range(20))
def test_equals_counting_each_target(seed):
    random = np.random.default_rng(seed)
    tokens = int(random.integers(3, 30))
    cuts = [0, *sorted(set(random.integers(1, tokens - 1, 4).tolist())), tokens - 1]
    parts = [(start, stop + 1) for start, stop in pairwise(cuts)]
    delivered = [part for part in parts if random.random() < 0.6]
    times = [sum(start < target < stop for start, stop in delivered) for target in range(1, tokens)]

    least, left = missing_ranges(tokens, delivered, None)

    assert least == min(times)
    expected = {t for t in range(1, tokens) if times[t - 1] == least} if max(times) > least else set()
    assert {t for start, stop in left for t in range(start + 1, stop)} == expected
