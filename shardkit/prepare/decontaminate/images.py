"""Pictures of benchmarks among the images of the inputs, from tables/assets alone: no image is opened.

Equal pixels are found by id, others by the perceptual matcher of dedup. Blank pictures are left out: there are many
equal ones, and they show nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.media.phash import CLASSES
from shardkit.prepare.decontaminate.index import Indices
from shardkit.prepare.decontaminate.items import Bench, Picture
from shardkit.prepare.decontaminate.passages import as_ragged
from shardkit.prepare.decontaminate.vectors import Embeddings, alike
from shardkit.prepare.dedup import perceptual
from shardkit.prepare.dedup.keys import asset_keys

COLUMNS = ("asset_id", "frame", "pixel_id", "phash", "phash_fine", "preview", "class")
MEASURES = ("pixels", "perceptual", "embedding")
"""How a picture is found, from the surest."""
_PAGE = CLASSES.index("page")
_LOOKS = pa.schema([("asset_id", pa.string()), ("frame", pa.int32()), ("pixel_id", pa.string()),
                    ("phash", pa.string()), ("phash_fine", pa.string()), ("preview", pa.binary()),
                    ("class", pa.string())])  # fmt: skip


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
    rows = [
        (one.asset_id, one.frame, one.pixel_id, one.phash, one.phash_fine, one.preview, one.picture_class)
        for one in pictures
    ]
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], schema=_LOOKS)


def match(
    found: Gallery, assets: Sequence[pa.Table], embeddings: Embeddings | None = None, *, scratch: Path | None = None
) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of the index that say which images are pictures of a benchmark.

    Args:
        assets: rows of tables/assets of the inputs.
        embeddings: vectors of both sides, where there are some.
        scratch: a folder for them.
    """
    images = pa.concat_tables([_LOOKS.empty_table(), *(table.select(COLUMNS).cast(_LOOKS) for table in assets)])
    parts = [_equal(found, images), _alike(found, images)]
    if embeddings is not None:
        parts.append(_near(found, images, embeddings, scratch))
    at, picture, score, measure, page = (np.concatenate(column) for column in zip(*parts, strict=True))
    keys = asset_keys(images)[at]
    order = np.lexsort((-score, measure, page, picture, keys))
    new = np.ones(len(order), np.bool_)  # the same asset stands in several inputs, and is found in several ways
    new[1:] = (np.diff(keys[order]) != 0) | (np.diff(picture[order]) != 0)
    order = order[new]
    lists = as_ragged([np.array(numbers, np.uint64) for numbers in found.items])
    return {
        "image_keys": keys[order],
        "image_pictures": picture[order],
        "image_scores": score[order],
        "image_measures": measure[order],
        "image_pages": page[order],
        "picture_items-values": lists.values,
        "picture_items-starts": lists.starts,
    }


_Matches = tuple[Indices, Indices, npt.NDArray[np.float64], npt.NDArray[np.int8], npt.NDArray[np.bool_]]
"""(image, picture, score, place in MEASURES, whether one of both is a page and their texts have to agree)"""


def _equal(found: Gallery, images: pa.Table) -> _Matches:
    pixels = pa.array([picture.pixel_id for picture in found.pictures], pa.string())
    place = pc.index_in(images["pixel_id"], pixels)
    at = np.flatnonzero(np.asarray(pc.is_valid(place)))
    picture = np.asarray(place.take(pa.array(at)).to_numpy(), np.int64)
    return at, picture, np.ones(len(at)), *_measured("pixels", np.zeros(len(at), np.bool_))


def _alike(found: Gallery, images: pa.Table) -> _Matches:
    known = np.flatnonzero(np.asarray(pc.is_valid(images["phash_fine"])))
    both = perceptual.joined(
        [
            perceptual.read_hashes(table_of(found.pictures)),
            perceptual.read_hashes(images.take(pa.array(known))),
        ]
    )
    # Pictures of benchmarks with images of the inputs, never images among themselves: a thousand copies of one cannot
    # hide it from each other.
    size = len(found.pictures)
    edges = perceptual.search(both, first=size).edges.above(perceptual.THRESHOLD)
    page = (both.classes[edges.one] == _PAGE) | (both.classes[edges.two] == _PAGE)
    return known[edges.two - size], edges.one, edges.score, *_measured("perceptual", page)


def _near(found: Gallery, images: pa.Table, embeddings: Embeddings, scratch: Path | None) -> _Matches:
    pictures = table_of(found.pictures)
    image, picture, score = alike(asset_keys(pictures), asset_keys(images), embeddings, scratch=scratch)
    pages, own_pages = (
        np.asarray(pc.fill_null(pc.equal(table["class"], "page"), False)) for table in (images, pictures)
    )
    return image, picture, score, *_measured("embedding", pages[image] | own_pages[picture])


def _measured(name: str, page: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    return np.full(len(page), MEASURES.index(name), np.int8), page
