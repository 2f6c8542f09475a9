"""What every packer promises."""

import numpy as np
import pytest

from shardkit.sequence.packers import PACKERS


@pytest.fixture(params=PACKERS)
def packer(request):
    return PACKERS[request.param]


def some_sizes(seed, number):
    random = np.random.default_rng(seed)
    return np.stack([random.integers(1, 101, number), random.integers(0, 9, number)], axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_no_sequence_is_lost_repeated_or_over_a_limit(packer, seed):
    sizes = some_sizes(seed, 500)

    packs = packer.pack(sizes, (100, 8))

    assert sorted(index for pack in packs for index in pack) == list(range(500))
    assert all((sizes[pack].sum(axis=0) <= (100, 8)).all() for pack in packs)


def test_members_of_a_pack_stand_in_draw_order(packer):
    packs = packer.pack(some_sizes(0, 500), (100, 8))

    assert all(pack == sorted(pack) and pack for pack in packs)


def test_the_type_of_the_sizes_changes_nothing(packer):
    sizes = some_sizes(1, 200)

    assert packer.pack(sizes.astype(np.int32), (100, 8)) == packer.pack(sizes, (100, 8))


def test_an_empty_block_gives_no_pack(packer):
    assert packer.pack(np.zeros((0, 2), np.int64), (100, 8)) == []


def test_a_version_stands_beside_every_packer(packer):
    assert packer.version >= 1
