"""Windows of previews: exact sums, and what a window shows is found in it."""

import itertools
import json

import numpy as np
import pytest
from PIL import Image

from shardkit.media.phash import looks
from shardkit.prepare.dedup import crops
from shardkit.prepare.dedup.hashes import most


def previews(count, seed=0, side=32):
    """Smooth fields: random frequencies that fall off, as those of photographs do."""
    rng = np.random.default_rng(seed)
    place = np.arange(side) + 0.5
    waves = np.cos(np.pi * np.arange(24)[:, None] * place / side)
    fall = np.maximum(np.hypot(*np.ogrid[:24, :24]), 1.0)
    fields = np.einsum("ux,nuv,vy->nxy", waves, rng.normal(size=(count, 24, 24)) / fall, waves)
    fields = (fields - fields.mean((1, 2), keepdims=True)) / fields.std((1, 2), keepdims=True)
    return (fields * 40 + 128).clip(0, 255).astype(np.uint8)


def cut(large, top, left, size):
    """[n, 128, 128] -> the window as a preview of its own, with bilinear weights."""
    at = (np.arange(32) + 0.5) * size / 32 - 0.5
    rows, columns = at + top, at + left
    low, part = np.floor(rows).astype(int), rows % 1
    left_low, left_part = np.floor(columns).astype(int), columns % 1
    down = large[:, low] * (1 - part)[:, None] + large[:, np.minimum(low + 1, 127)] * part[:, None]
    out = down[:, :, left_low] * (1 - left_part) + down[:, :, np.minimum(left_low + 1, 127)] * left_part
    return out.astype(np.uint8)


def fit(queries, others, windows):
    each = np.arange(len(windows))
    return crops.fit(queries, others, each, each, windows)


def test_no_integral_lies_where_rounding_could_go_either_way():
    edges = np.arange(33) * 4
    nearest = 1.0
    for begin, length in crops._SPANS:
        inside = np.clip(edges, begin, begin + length) - begin
        waves = np.arange(1, 16)[:, None] * np.pi
        exact = np.diff(np.sin(waves * inside / length) / waves) * 2**16
        nearest = min(nearest, np.abs(np.abs(exact % 1) - 0.5).min())
    assert nearest > 1e-8


def test_sums_stay_exact():
    weights = np.abs(crops._FINE_OF).sum(2).max()
    assert 255 * weights**2 < 2**53


def test_a_picture_is_itself():
    own = previews(20)
    differ, correlation = fit(own, own, np.zeros(20, np.int64))
    assert differ.tolist() == [0] * 20
    assert correlation == pytest.approx(np.ones(20))


@pytest.mark.parametrize(("top", "left", "size"), [(0, 0, 120), (6, 1, 121), (3, 9, 115), (13, 0, 115), (5, 5, 118)])
def test_what_a_window_shows_is_found_in_it(top, left, size):
    large = previews(30, seed=1, side=128)
    whole, shown = large.reshape(-1, 32, 4, 32, 4).mean((2, 4)).astype(np.uint8), cut(large, top, left, size)
    codes, (wanted, _) = crops.codes_of(whole), crops.margins_of(shown)
    distance = np.array([[int(a ^ b).bit_count() for b in row] for a, row in zip(wanted, codes, strict=True)])
    differ, correlation = fit(shown, whole, distance.argmin(1))
    assert (distance.min(1) <= 10).mean() > 0.9
    assert np.median(differ) <= 30
    assert np.median(correlation) > 0.95


def nearest(queries, others):
    """Where the search begins: the window whose code is nearest."""
    return np.bitwise_count(crops.codes_of(others) ^ crops.margins_of(queries)[0][:, None]).argmin(1)


def plain_fit(queries, others, windows):
    """The same one window after another: no blocks, nothing skipped, medians by their definition."""
    whole, found = crops._FINE_OF[0], []
    for query, other, start in zip(queries.astype(float), others.astype(float), crops._START[windows], strict=True):
        wanted = (whole @ query @ whole.T).reshape(-1)
        best, there, window = crops.FINE_BITS, np.zeros_like(wanted), start
        for step in crops._ROUNDS:
            rows, columns = (crops._around(span[None], step)[0] for span in (window[:2], window[2:]))
            for row, column in itertools.product(rows, columns):
                down, across = (crops._FINE_OF[crops._NUMBER[tuple(span)]] for span in (row, column))
                sums = (down @ other @ across.T).reshape(-1)
                differ = np.count_nonzero((sums > np.median(sums)) != (wanted > np.median(wanted)))
                if differ < best:
                    best, there, window = differ, sums, np.concatenate([row, column])
        found.append((best, crops._correlation(wanted[None, 1:], there[None, 1:])[0]))
    differ, correlation = zip(*found, strict=True)
    return list(differ), list(correlation)


def assert_as_plain(differ, correlation, expected):
    """What is given up is no fit, everything else is what the plain way gives."""
    for found in zip(differ.tolist(), correlation.tolist(), *expected, strict=True):
        if found[0] == crops.FINE_BITS:
            assert found[2] > most(crops.FINE_BITS) or found[3] < 0.95
        else:
            assert found[:2] == found[2:]


def pictures(kind):
    """20 queries and what they are looked for in."""
    large = previews(20, seed=1, side=128)
    whole = large.reshape(-1, 32, 4, 32, 4).mean((2, 4)).astype(np.uint8)
    mirrored = np.minimum(whole, whole[:, :, ::-1])
    flat = np.full_like(whole, 200)
    flat[:10, 10:20, 10:20] = 0
    return {
        "crops": (cut(large, 5, 7, 117), whole),
        "others": (whole, previews(20, seed=3)),
        "equal": (whole, whole),
        "noise": (whole, np.random.default_rng(4).integers(0, 256, whole.shape, np.uint8)),
        "symmetric": (mirrored, np.minimum(mirrored, mirrored[:, ::-1])),
        "flat": (flat, flat[::-1].copy()),
        "four tones": (whole // 64 * 64, np.roll(whole, 1, 0) // 128 * 128),
    }[kind]


@pytest.mark.parametrize("kind", ["crops", "others", "equal", "noise", "symmetric", "flat", "four tones"])
def test_a_fit_is_what_one_window_after_another_gives(kind):
    queries, others = pictures(kind)
    windows = nearest(queries, others)
    differ, correlation = fit(queries, others, windows)
    assert_as_plain(differ, correlation, plain_fit(queries, others, windows))


def test_a_fit_of_photographs_is_what_one_window_after_another_gives(shared):
    folder = shared / "data" / "neardup_photos"
    items = [json.loads(line) for line in (folder / "truth.jsonl").read_text().splitlines()]
    own = {}
    for item in items:
        if item["transform"] in ("none", "crop0.1", "mixed", "turn5", "border"):
            own[item["base"], item["transform"]] = looks(Image.open(folder / item["file"]).convert("RGB")).preview
    whole = np.stack([np.frombuffer(own[base, "none"], np.uint8).reshape(32, 32) for base, _ in own])
    changed = np.stack([np.frombuffer(preview, np.uint8).reshape(32, 32) for preview in own.values()])
    for queries, others in ((changed, whole), (whole, changed), (whole, changed[::-1].copy())):
        windows = nearest(queries, others)
        differ, correlation = fit(queries, others, windows)
        assert_as_plain(differ, correlation, plain_fit(queries, others, windows))


def test_where_no_window_moves_none_is_tried_again():
    own = previews(3)
    differ, correlation = fit(own, own, np.zeros(3, np.int64))
    assert (differ.tolist(), correlation.tolist()) == plain_fit(own, own, np.zeros(3, np.int64))


def test_many_that_look_into_one_picture_get_what_each_alone_would():
    large = previews(3, seed=1, side=128)
    whole = large.reshape(-1, 32, 4, 32, 4).mean((2, 4)).astype(np.uint8)
    shown = np.concatenate([cut(large, top, 5, 117) for top in range(0, 11, 2)])
    query, other = (axis.reshape(-1) for axis in np.mgrid[: len(shown), :3])
    windows = nearest(shown[query], whole[other])
    differ, correlation = crops.fit(shown, whole, query, other, windows)
    assert_as_plain(differ, correlation, plain_fit(shown[query], whole[other], windows))


def test_nothing_is_fitted_to_nothing():
    differ, correlation = fit(previews(3)[:0], previews(3)[:0], np.zeros(0, np.int64))
    assert (differ.tolist(), correlation.tolist()) == ([], [])


def test_other_pictures_are_far():
    one, two = previews(40, seed=2), previews(40, seed=3)
    differ, _ = fit(one, two, np.zeros(40, np.int64))
    assert differ.min() > 50


def test_the_first_code_is_that_of_the_whole():
    own = previews(10)
    assert np.array_equal(crops.codes_of(own)[:, 0], crops.margins_of(own)[0])


def test_a_tilt_and_back_is_nearly_nothing():
    own = previews(10, seed=4)
    back = crops.tilted(crops.tilted(own, 5, 1.0), -5, 1.0)
    inner = slice(6, -6)
    assert np.abs(back[:, inner, inner].astype(int) - own[:, inner, inner]).mean() < 6
    assert np.array_equal(crops.tilted(own, 0, 1.0), own)
