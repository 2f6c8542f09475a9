"""The packers beside best fit: their examples, and their rules against slow forms."""

from itertools import pairwise

import numpy as np
import pytest

from shardkit.sequence.packers import PACKERS
from shardkit.sequence.packers.concat_and_split import concat_and_split
from shardkit.sequence.packers.first_fit import first_fit
from shardkit.sequence.packers.next_fit import next_fit
from shardkit.sequence.packers.oldest_first import WINDOW, oldest_first
from shardkit.sequence.part import Part

SIZES = np.array([[7], [6], [4], [3], [3], [2]])


def random_sizes(seed, number=300, limits=2):
    random = np.random.default_rng([seed, limits])
    capacities = tuple(int(c) for c in random.integers(40, 400, limits))
    sizes = np.stack([random.integers(k == 0, c + 1, number) for k, c in enumerate(capacities)], axis=1)
    small = random.random(number) < 0.7
    sizes[small] = np.maximum(sizes[small] // 8, [1] + [0] * (limits - 1))
    return sizes, capacities


def fits(size, room):
    return all(need <= free for need, free in zip(size, room, strict=True))


def less(room, size):
    return [free - need for free, need in zip(room, size, strict=True)]


@pytest.mark.parametrize(
    ("packer", "packs"),
    [
        ("best-fit", [[0, 3], [1, 2], [4, 5]]),
        ("oldest-first", [[0, 3], [1, 2], [4, 5]]),
        ("first-fit", [[0, 3], [1, 2], [4, 5]]),
        ("next-fit", [[0], [1, 2], [3, 4, 5]]),
        ("concat-and-split", [[0, Part(1, 0, 3)], [Part(1, 2, 6), 2, Part(3, 0, 2)], [Part(3, 1, 3), 4, 5]]),
        ("none", [[0], [1], [2], [3], [4], [5]]),
    ],
)
def test_the_examples_of_the_modules(packer, packs):
    assert PACKERS[packer].pack(SIZES, (10,)) == packs


@pytest.mark.parametrize("limits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_first_fit_is_the_first_pack_with_room(seed, limits):
    sizes, capacities = random_sizes(seed, limits=limits)
    packs, rooms = [], []
    for index, size in enumerate(sizes.tolist()):
        place = next((place for place, room in enumerate(rooms) if fits(size, room)), len(packs))
        if place == len(packs):
            packs.append([])
            rooms.append(list(capacities))
        packs[place].append(index)
        rooms[place] = less(rooms[place], size)

    assert first_fit(sizes, capacities) == packs


@pytest.mark.parametrize("limits", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_oldest_first_takes_the_oldest_and_then_the_largest_that_fit(seed, limits):
    sizes, capacities = random_sizes(seed, 700, limits)
    coming = list(range(len(sizes)))
    waiting, packs = [], []

    def share(index):
        return max(size / capacity for size, capacity in zip(sizes[index].tolist(), capacities, strict=True))

    while coming or waiting:
        while coming and len(waiting) < WINDOW:
            waiting.append(coming.pop(0))
        pack, room = [waiting.pop(0)], None
        room = less(list(capacities), sizes[pack[0]].tolist())
        while fitting := [index for index in waiting if fits(sizes[index].tolist(), room)]:
            best = max(fitting, key=lambda index: (share(index), -index))
            waiting.remove(best)
            pack.append(best)
            room = less(room, sizes[best].tolist())
        packs.append(sorted(pack))

    assert oldest_first(sizes, capacities) == packs


def test_oldest_first_lets_no_sequence_wait_for_as_many_packs_as_its_window():
    tokens = np.clip(np.random.default_rng(0).lognormal(5, 1, 4096), 1, 2048).astype(np.int64)
    packs = oldest_first(tokens[:, None], (2048,))

    oldest = [pack[0] for pack in packs]
    assert oldest == sorted(oldest)
    packed = np.cumsum([0, *map(len, packs)])
    pack_of = {index: number for number, pack in enumerate(packs) for index in pack}
    waits = [pack_of[index] - int(np.searchsorted(packed, index - WINDOW, side="right")) for index in range(4096)]
    assert 20 < max(waits) < WINDOW


@pytest.mark.parametrize("seed", range(6))
def test_concat_and_split_fills_every_pack_where_all_may_be_cut(seed):
    tokens = np.random.default_rng(seed).integers(2, 200, 400)

    packs = concat_and_split(tokens[:, None], (64,))

    held = [sum(m.num_tokens if isinstance(m, Part) else int(tokens[m]) for m in pack) for pack in packs]
    # One token short where a part of one token would be left, which has no target.
    assert all(63 <= size <= 64 for size in held[:-1])


def test_a_hole_before_what_must_stay_whole_is_filled_with_the_next_text():
    sizes = np.array([[6], [8], [9], [3]])
    whole = np.array([False, True, False, True])

    assert concat_and_split(sizes, (10,), whole) == [[0, Part(2, 0, 4)], [1, Part(2, 3, 5)], [Part(2, 4, 9), 3]]


def test_a_part_takes_its_share_of_the_other_limits():
    # Attention: 8 x 8 = 64; of 40 a part of 5 tokens may take 8 x 5 = 40.
    assert concat_and_split(np.array([[8, 64]]), (100, 40)) == [[Part(0, 0, 5)], [Part(0, 4, 8)]]


def test_next_fit_keeps_the_order():
    sizes, capacities = random_sizes(1)

    packs = next_fit(sizes, capacities)

    assert [index for pack in packs for index in pack] == list(range(300))
    for pack, following in pairwise(packs):
        assert not fits(sizes[following[0]].tolist(), less(list(capacities), sizes[pack].sum(axis=0).tolist()))
