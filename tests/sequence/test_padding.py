"""The padding report, to the digit."""

from __future__ import annotations

import numpy as np
import pytest

from shardkit.sequence.intervals import bounds, in_parts
from shardkit.sequence.padding import (
    Samples,
    compat,
    cross_blocks,
    meta_bytes,
    padded,
    padded_bytes,
    reference,
    self_blocks,
)

LLAMA = {"batch_size": 16, "max_tiles": 4, "tile_tokens": 1025}


def test_the_published_report_to_the_digit() -> None:
    samples = reference()
    assert [int(part.sum()) for part in (samples.tokens, samples.images, samples.tiles)] == [8717, 25, 61]
    assert (len(samples), int(samples.tokens.max()), int(samples.images.max())) == (16, 1358, 4)
    found = compat(samples, **LLAMA)
    assert [(row.name, row.useful, row.total, row.padding, round(100 * row.share, 2)) for row in found] == [
        ("text", 8717, 21728, 13011, 59.88),
        ("images", 25, 64, 39, 60.94),
        ("tiles", 61, 256, 195, 68.72),
        ("cross-attention mask", 545_030_425, 5_701_427_200, 5_156_396_775, 90.44),
    ]


def test_the_published_figures_hang_on_the_sums_alone() -> None:
    """Any sixteen samples with the same sums and maxima give them: every token is counted against every tile."""
    random = np.random.default_rng(0)

    def parts(total: int, most: int, least: int) -> np.ndarray:
        found = np.full(16, least)
        found[0] = most
        while found.sum() < total:
            at = int(random.integers(1, 16))
            found[at] += min(int(random.integers(1, 60)), most - int(found[at]), total - int(found.sum()))
        return random.permutation(found)

    samples = Samples(tokens=parts(8717, 1358, 1), images=parts(25, 4, 0), tiles=parts(61, 16, 0))
    assert samples.tokens.tolist() != reference().tokens.tolist()
    shares = [row.share for row in compat(samples, **LLAMA)]
    assert [round(100 * share, 2) for share in shares] == [59.88, 60.94, 68.72, 90.44]
    assert [row.share for row in padded(samples, **LLAMA)][3] != [row.share for row in padded(reference(), **LLAMA)][3]


def test_the_corrected_report() -> None:
    samples = reference()
    text, images, tiles, mask = padded(samples, **LLAMA)
    assert (round(100 * text.share, 2), round(100 * images.share, 2), round(100 * tiles.share, 2)) == (
        59.88,
        60.94,
        76.17,
    )
    # The tensor has a row for every token of a sample and a column for every key of that sample's tiles, not the batch's.
    assert mask.total == 356_339_200
    assert mask.useful == sum(
        t * n * 1025 for t, n in zip(samples.tokens.tolist(), samples.tiles.tolist(), strict=True)
    )
    # 616.6 MB of pixels, 356.3 MB of mask, 0.35 MB of text.
    assert padded_bytes(samples, tile=448, **LLAMA) == 616_562_688 + 356_339_200 + 347_648


def test_batches_are_padded_each_for_itself() -> None:
    samples = Samples(tokens=np.array([10, 2, 3]), images=np.array([0, 1, 0]), tiles=np.array([0, 3, 0]))
    text, images, tiles, mask = padded(samples, batch_size=2, max_tiles=4, tile_tokens=5)
    assert [(row.useful, row.total) for row in (text, images, tiles, mask)] == [(15, 23), (1, 2), (3, 8), (30, 400)]


def test_nothing_wastes_nothing() -> None:
    none = np.zeros(0, np.int64)
    for form in (padded, compat):
        found = form(Samples(tokens=none, images=none, tiles=none), **LLAMA)
        assert [(row.useful, row.total) for row in found] == [(0, 0)] * 4
        assert all(np.isnan(row.share) for row in found)


@pytest.mark.parametrize("size", [1, 4, 16])
def test_blocks_are_those_of_the_whole_mask(size: int) -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        lengths = random.integers(1, 30, int(random.integers(1, 8)))
        starts = (np.cumsum(lengths) - lengths).tolist()
        total = int(lengths.sum())
        owner = np.repeat(np.arange(len(lengths)), lengths)
        mask = (owner[:, None] == owner) & (np.arange(total)[:, None] >= np.arange(total))
        assert self_blocks(starts, total, size) == (int(mask.sum()), held(mask, size) * size * size)

        images = np.sort(random.choice(total, min(total, 4), replace=False)).tolist()
        low, high = in_parts(*bounds(images, total, None, starts), [3, 1, 2, 5][: len(images)])
        keys = np.arange(int(high.max(initial=0)) + 1)
        seen = (keys >= low[:, None]) & (keys < high[:, None])
        allowed, elements = cross_blocks(low, high, size)
        assert allowed == int(seen.sum())
        assert elements >= held(seen, size) * size * size


def held(mask: np.ndarray, size: int) -> int:
    """Blocks of a dense mask that hold anything."""
    rows, columns = mask.shape
    return sum(
        bool(mask[row : row + size, column : column + size].any())
        for row in range(0, rows, size)
        for column in range(0, columns, size)
    )


def test_words_of_the_reference_batch() -> None:
    found = meta_bytes(tokens=8717, documents=16, sequences=16, packs=3, images=25, objectives=7)
    assert found == 4 * (16 + 17 + 17 + 16 + 4 + 250 + 14 + 8717 + 2180)
    assert found + 61 * 448 * 448 * 3 < padded_bytes(reference(), tile=448, **LLAMA) / 20
