"""What padding wastes, and what packing leaves of it: formulas over lengths alone.

N samples in batches of B, padded to the longest of their batch; a tile is `tile_tokens` keys of cross-attention.

    row                     useful                       of
    text                    sum of tokens                B x most tokens
    images                  sum of images                B x most images
    tiles                   sum of tiles                 B x most images x tiles an image may have
    cross-attention mask    sum of tokens x tiles keys   B x most tokens x most images x tiles an image may have, keys

The first program that printed these four rows divided the padding of tiles by itself, and counted every token of a batch
against every tile of it. `compat` has its figures to the digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]

ROWS = ("text", "images", "tiles", "cross-attention mask")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Samples:
    """N samples, each with numbers of tokens, images and tiles."""

    tokens: Numbers
    images: Numbers
    tiles: Numbers
    """[N] tiles of all images of a sample."""

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A row of the report."""

    name: str
    useful: int
    total: int
    share: float
    """Of the total that is padding; in compat form as it was printed. NaN of nothing."""

    @property
    def padding(self) -> int:
        return self.total - self.useful


def padded(samples: Samples, *, batch_size: int, max_tiles: int, tile_tokens: int) -> list[Figure]:
    """The four rows for batches of `batch_size` samples in order; the last batch may be smaller."""
    useful, total = _sums(samples, batch_size, max_tiles, tile_tokens)
    useful["cross-attention mask"] = int((samples.tokens * samples.tiles).sum()) * tile_tokens
    return [
        Figure(name=name, useful=useful[name], total=total[name], share=_share(total[name] - useful[name], total[name]))
        for name in ROWS
    ]


def compat(samples: Samples, *, batch_size: int, max_tiles: int, tile_tokens: int) -> list[Figure]:
    """The four rows as the first program printed them: see the top of this file for what is wrong with two of them."""
    useful, total = _sums(samples, batch_size, max_tiles, tile_tokens)
    name = "cross-attention mask"
    useful[name] = total[name] = 0
    for own in _batches(samples, batch_size):
        rows = len(own) * int(own.tokens.max())
        tiles = len(own) * int(own.images.max()) * max_tiles
        useful[name] += int(own.tiles.sum()) * tile_tokens * int(own.tokens.sum())
        total[name] += tiles * tile_tokens * rows
    found = []
    for row in ROWS:
        padding = total[row] - useful[row]
        share = 1 - useful[row] / padding if row == "tiles" and padding else _share(padding, total[row])
        found.append(Figure(name=row, useful=useful[row], total=total[row], share=share))
    return found


def padded_bytes(samples: Samples, *, batch_size: int, max_tiles: int, tile_tokens: int, tile: int) -> int:
    """What padded batches carry: float32 tiles, a byte an element of the mask, ids and labels of eight bytes."""
    _, total = _sums(samples, batch_size, max_tiles, tile_tokens)
    return total["tiles"] * 3 * tile * tile * 4 + total["cross-attention mask"] + total["text"] * 2 * 8


def meta_bytes(*, tokens: int, documents: int, sequences: int, packs: int, images: int, objectives: int) -> int:
    """Bytes of the words of a packed batch, as shardkit.loader.batch lays them out."""
    words = 16 + (documents + 1) + (sequences + 1) + sequences + (packs + 1) + images * 10 + objectives * 2
    return 4 * (words + tokens + -(-tokens // 4))


def self_blocks(documents: Sequence[int], num_tokens: int, size: int = 128) -> tuple[int, int]:
    """(allowed elements, elements of the blocks that hold any) of causal attention inside the documents of a pack.

    Args:
        documents: first token of each document, ascending from 0.
    """
    starts = np.asarray(documents, np.int64)
    lengths = np.diff(np.append(starts, num_tokens))
    first = starts[np.searchsorted(starts, np.arange(0, num_tokens, size), side="right") - 1]
    blocks = (np.arange(len(first)) - first // size + 1).sum()
    return int((lengths * (lengths + 1) // 2).sum()), int(blocks) * size * size


def cross_blocks(low: Numbers, high: Numbers, size: int = 128) -> tuple[int, int]:
    """The same of cross-attention, where row q attends to the keys low[q] <= k < high[q] and neither bound ever falls."""
    allowed = int((high - low).sum())
    blocks = 0
    for start in range(0, len(low), size):
        own_low, own_high = low[start : start + size], high[start : start + size]
        seen = own_low < own_high
        if seen.any():
            blocks += -(-int(own_high[seen].max()) // size) - int(own_low[seen].min()) // size
    return allowed, blocks * size * size


def reference() -> Samples:
    """Sixteen samples with the sums of the published report: 8,717 tokens (1,358 at most), 25 images (4), 61 tiles."""
    tokens = [1358, 1100, 950, 820, 700, 640, 560, 500, 460, 400, 350, 300, 240, 180, 109, 50]
    images = [4, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    tiles = [16, 8, 6, 5, 4, 4, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]
    return Samples(tokens=np.array(tokens), images=np.array(images), tiles=np.array(tiles))


def _sums(samples: Samples, batch_size: int, max_tiles: int, tile_tokens: int) -> tuple[dict[str, int], dict[str, int]]:
    """(useful, total) of the rows; the useful part of the mask is left to the caller."""
    useful = {
        "text": int(samples.tokens.sum()),
        "images": int(samples.images.sum()),
        "tiles": int(samples.tiles.sum()),
    }
    total = dict.fromkeys(ROWS, 0)
    for own in _batches(samples, batch_size):
        text, images = len(own) * int(own.tokens.max()), len(own) * int(own.images.max())
        total["text"] += text
        total["images"] += images
        total["tiles"] += images * max_tiles
        total["cross-attention mask"] += text * int(own.images.max()) * max_tiles * tile_tokens
    return useful, total


def _batches(samples: Samples, batch_size: int) -> list[Samples]:
    return [
        Samples(**{name: getattr(samples, name)[at : at + batch_size] for name in ("tokens", "images", "tiles")})
        for at in range(0, len(samples), batch_size)
    ]


def _share(padding: int, total: int) -> float:
    return padding / total if total else float("nan")
