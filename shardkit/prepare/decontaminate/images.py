"""Pictures of benchmarks among the images of the inputs, from tables/assets alone: no image is opened.

Equal pixels are found by id, others by the perceptual matcher of dedup. Blank pictures are left out: there are many
equal ones, and they show nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.media.phash import CLASSES
from shardkit.prepare.decontaminate.index import Indices
from shardkit.prepare.decontaminate.items import Bench, Picture
from shardkit.prepare.decontaminate.passages import as_ragged
from shardkit.prepare.dedup import perceptual
from shardkit.prepare.dedup.keys import asset_keys

COLUMNS = ("asset_id", "frame", "pixel_id", "phash", "phash_fine", "class")
_PAGE = CLASSES.index("page")
_LOOKS = pa.schema([("asset_id", pa.string()), ("frame", pa.int32()), ("pixel_id", pa.string()),
                    ("phash", pa.string()), ("phash_fine", pa.string()), ("class", pa.string())])  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Gallery:
    """The pictures of all benchmarks, each once by its pixels, without blank ones."""

    pictures: tuple[Picture, ...]
    items: tuple[tuple[int, ...], ...]
    """Numbers of the items that show each."""


def gallery(benches: Sequence[Bench]) -> Gallery:
    first: dict[str, Picture] = {}
    items: dict[str, dict[int, None]] = defaultdict(dict)
    number = 0
    for bench in benches:
        for item in bench.items:
            for picture in item.pictures:
                if picture.picture_class != "blank":
                    first.setdefault(picture.pixel_id, picture)
                    items[picture.pixel_id][number] = None
            number += 1
    ordered = sorted(first)
    return Gallery(
        pictures=tuple(first[pixel] for pixel in ordered), items=tuple(tuple(items[pixel]) for pixel in ordered)
    )


def table_of(pictures: Iterable[Picture]) -> pa.Table:
    """Pictures as rows of tables/assets."""
    rows = [(one.asset_id, one.frame, one.pixel_id, one.phash, one.phash_fine, one.picture_class) for one in pictures]
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema=_LOOKS)


def match(found: Gallery, assets: Sequence[pa.Table]) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of the index that say which images are pictures of a benchmark.

    Args:
        assets: rows of tables/assets of the inputs.
    """
    images = pa.concat_tables([_LOOKS.empty_table(), *(table.select(COLUMNS).cast(_LOOKS) for table in assets)])
    parts = [_equal(found, images), _alike(found, images)]
    at, picture, score, page = (np.concatenate(column) for column in zip(*parts, strict=True))
    keys = asset_keys(images)[at]
    order = np.lexsort((-score, picture, keys))
    keys, picture, score, page = keys[order], picture[order], score[order], page[order]
    new = np.ones(len(order), np.bool_)  # the same asset stands in several inputs
    new[1:] = (keys[1:] != keys[:-1]) | (picture[1:] != picture[:-1])
    lists = as_ragged([np.array(numbers, np.uint64) for numbers in found.items])
    return {
        "image_keys": keys[new],
        "image_pictures": picture[new],
        "image_scores": score[new],
        "image_pages": page[new],
        "picture_items-values": lists.values,
        "picture_items-starts": lists.starts,
    }


_Matches = tuple[Indices, Indices, npt.NDArray[np.float64], npt.NDArray[np.bool_]]
"""(image, picture, score, whether both only look alike and one is a page)"""


def _equal(found: Gallery, images: pa.Table) -> _Matches:
    pixels = pa.array([picture.pixel_id for picture in found.pictures], pa.string())
    place = pc.index_in(images["pixel_id"], pixels)
    at = np.flatnonzero(np.asarray(pc.is_valid(place)))
    picture = np.asarray(place.take(pa.array(at)).to_numpy(), np.int64)
    return at, picture, np.ones(len(at)), np.zeros(len(at), np.bool_)


def _alike(found: Gallery, images: pa.Table) -> _Matches:
    known = np.flatnonzero(np.asarray(pc.is_valid(images["phash_fine"])))
    both = perceptual.joined(
        [
            perceptual.read_hashes(table_of(found.pictures)),
            perceptual.read_hashes(images.take(pa.array(known))),
        ]
    )
    edges = perceptual.find(both).above(perceptual.THRESHOLD)
    size = len(found.pictures)
    across = np.flatnonzero((edges.one < size) & (edges.two >= size))
    one, two = edges.one[across], edges.two[across]
    page = (both.classes[one] == _PAGE) | (both.classes[two] == _PAGE)
    return known[two - size], one, edges.score[across], page
