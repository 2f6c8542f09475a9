"""What every packer promises."""

from itertools import pairwise

import numpy as np
import pytest

from shardkit.sequence.packers import PACKERS
from shardkit.sequence.part import Part


@pytest.fixture(params=PACKERS)
def packer(request):
    return PACKERS[request.param]


def some_sizes(seed, number):
    random = np.random.default_rng(seed)
    return np.stack([random.integers(1, 101, number), random.integers(0, 9, number)], axis=1)


def size_of(member, sizes):
    """What a member takes of each limit; of a part its share, of tokens exactly."""
    size = sizes[int(member)]
    if not isinstance(member, Part):
        return size
    return np.array([member.num_tokens, *(-(-size[1:] * member.num_tokens // size[0]))])


def ranges_of(packs, sizes):
    """Index -> (start, stop) of its members, in order."""
    found = {}
    for member in (member for pack in packs for member in pack):
        whole = (0, int(sizes[int(member)][0]))
        found.setdefault(int(member), []).append((member.start, member.stop) if isinstance(member, Part) else whole)
    return {index: sorted(ranges) for index, ranges in found.items()}


@pytest.mark.parametrize("seed", range(5))
def test_no_sequence_is_lost_repeated_or_over_a_limit(packer, seed):
    sizes = some_sizes(seed, 500)

    packs = packer.pack(sizes, (100, 8))

    ranges = ranges_of(packs, sizes)
    assert sorted(ranges) == list(range(500))
    for index, parts in ranges.items():
        # Parts overlap by one token, which is context of the second: each other token is in one of them.
        assert (parts[0][0], parts[-1][1]) == (0, sizes[index][0])
        assert all(stop - 1 == start for (_, stop), (start, _) in pairwise(parts))
    assert all((sum(size_of(member, sizes) for member in pack) <= (100, 8)).all() for pack in packs)
    assert packer.cuts == any(len(parts) > 1 for parts in ranges.values())


def test_what_must_stay_whole_is_not_cut(packer):
    sizes = some_sizes(7, 300)
    whole = sizes[:, 1] > 2

    packs = packer.pack(sizes, (100, 8), whole) if packer.cuts else packer.pack(sizes, (100, 8))

    ranges = ranges_of(packs, sizes)
    assert all(len(ranges[index]) == 1 for index in np.flatnonzero(whole).tolist())


@pytest.mark.parametrize("capacities", [(100, 1), (101, 8)])
def test_a_sequence_above_a_capacity_is_refused_where_it_is_whole(packer, capacities):
    sizes = np.array([[90, 2], [102, 1]])
    if packer is PACKERS["none"]:
        return
    with pytest.raises(ValueError, match="above a capacity"):
        packer.pack(sizes, capacities, np.array([True, True])) if packer.cuts else packer.pack(sizes, capacities)


def test_members_of_a_pack_stand_in_draw_order(packer):
    packs = packer.pack(some_sizes(0, 500), (100, 8))

    assert all(pack and [int(m) for m in pack] == sorted({int(m) for m in pack}) for pack in packs)


def test_the_type_of_the_sizes_changes_nothing(packer):
    sizes = some_sizes(1, 200)

    assert packer.pack(sizes.astype(np.int32), (100, 8)) == packer.pack(sizes, (100, 8))


def test_an_empty_block_gives_no_pack(packer):
    assert packer.pack(np.zeros((0, 2), np.int64), (100, 8)) == []


def test_a_version_stands_beside_every_packer(packer):
    assert packer.version >= 1
