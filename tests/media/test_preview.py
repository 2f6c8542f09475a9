"""Previews: a border goes, a picture without one is the mean of its cells."""

import numpy as np
import pytest

from shardkit.media.preview import SIDE, previews_of


def cells(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (128, 128), dtype=np.uint8)


def small(greys):
    return np.frombuffer(previews_of(greys[None])[0], np.uint8).reshape(SIDE, SIDE)


def test_without_a_border_each_grey_is_the_mean_of_sixteen():
    greys = cells()
    assert np.array_equal(small(greys), greys.reshape(32, 4, 32, 4).astype(int).sum((1, 3)) // 16)


@pytest.mark.parametrize("grey", [0, 128, 255])
def test_a_border_of_one_grey_is_taken_off(grey):
    rng = np.random.default_rng(1)
    picture = np.kron(rng.integers(0, 256, (8, 8)), np.ones((13, 14), int)).astype(np.uint8)  # 104 x 112
    framed = np.full((128, 128), grey, np.uint8)
    framed[12:116, 8:120] = picture
    shown = small(framed).astype(int)
    inside = np.kron(picture[::13, ::14].astype(int), np.ones((4, 4), int))
    assert np.median(np.abs(shown - inside)) <= 2


def test_a_side_that_is_not_of_one_grey_stays():
    greys = cells()
    greys[:20] = 255
    greys[:20, 5::9] = 0  # a row of them has two greys
    assert np.array_equal(small(greys), greys.reshape(32, 4, 32, 4).astype(int).sum((1, 3)) // 16)


def test_a_picture_of_one_grey_stays_whole():
    assert previews_of(np.full((1, 128, 128), 77, np.uint8)) == [bytes([77]) * SIDE * SIDE]


def test_many_at_once_are_as_each_alone():
    greys = np.stack([cells(seed) for seed in range(9)])
    greys[2, :20] = 255
    greys[5] = 3
    greys[7, :, 100:] = 0
    assert previews_of(greys) == [preview for one in greys for preview in previews_of(one[None])]
    assert len(set(previews_of(greys))) == 9
