"""The packer against the slow form of its own rule."""

import numpy as np
import pytest

from shardkit.sequence.packers.best_fit import best_fit


def slow_best_fit(sizes, capacities):
    """The rule word for word: begin with the largest that is left, add the largest that fits, until none does."""

    def rank(index):
        shares = [size * 2**20 // capacity for size, capacity in zip(sizes[index], capacities, strict=True)]
        return (-max(shares), *(-size for size in sizes[index]), index)

    left = sorted(range(len(sizes)), key=rank)
    packs = []
    while left:
        pack, room = [], list(capacities)
        for index in list(left):
            if all(size <= free for size, free in zip(sizes[index], room, strict=True)):
                pack.append(index)
                left.remove(index)
                room = [free - size for free, size in zip(room, sizes[index], strict=True)]
        packs.append(sorted(pack))
    return packs


def packed(rows, *capacities):
    return best_fit(np.array(rows, np.int64).reshape(len(rows), len(capacities)), capacities)


def test_the_example_of_the_module():
    packs = packed([[7], [6], [4], [3], [3], [2]], 10)

    assert packs == [[0, 3], [1, 2], [4, 5]]


def test_nothing_gives_no_pack():
    assert packed([], 10) == []
    assert packed([], 10, 3) == []


def test_equal_sequences_go_in_by_index():
    assert packed([[5], [5], [5], [5]], 10) == [[0, 1], [2, 3]]


def test_a_second_limit_holds_where_the_first_has_room():
    # Tokens alone would put all four into one pack of 10.
    assert packed([[1, 3], [1, 3], [1, 0], [1, 0]], 10, 4) == [[0, 2, 3], [1]]


def test_a_sequence_that_needs_nothing_of_a_used_up_limit_still_fits():
    assert packed([[4, 6], [6, 0]], 10, 6) == [[0, 1]]


def test_a_sequence_above_a_capacity_is_refused():
    with pytest.raises(ValueError, match="above a capacity"):
        packed([[11]], 10)


@pytest.mark.parametrize("limits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_equals_the_slow_form(limits, seed):
    random = np.random.default_rng([seed, limits])
    capacities = tuple(int(c) for c in random.integers(20, 400, limits))
    number = int(random.integers(1, 300))
    sizes = np.stack([random.integers(k == 0, c + 1, number) for k, c in enumerate(capacities)], axis=1)
    small = random.random(number) < 0.7
    sizes[small] = np.maximum(sizes[small] // 8, [1] + [0] * (limits - 1))

    packs = best_fit(sizes, capacities)

    assert packs == slow_best_fit(sizes.tolist(), capacities)
    assert max(map(len, packs)) > 1, "vacuous: nothing shared a pack"


def test_fill_of_documents_with_two_limits():
    random = np.random.default_rng(0)
    tokens = np.clip(random.lognormal(np.log(545), 1.1, 4096), 1, 4096).astype(np.int64)
    patches = np.where(random.random(4096) < 0.6, random.integers(64, 1037, 4096), 0)
    capacities = (4096, 4096)

    packs = best_fit(np.stack([tokens, patches], axis=1), capacities)

    least = max(
        -(-int(column.sum()) // capacity) for column, capacity in zip((tokens, patches), capacities, strict=True)
    )
    assert least / len(packs) > 0.985
