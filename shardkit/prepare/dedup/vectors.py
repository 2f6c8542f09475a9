"""What the level semantic compares: examples by vectors of their own, lists of images by vectors of the images.

files -> vectors of example ids -> near ids -> rows (tuples.py)
files -> vectors of images      -> near images -> near lists of images
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from shardkit.engine import Progress
from shardkit.prepare.dedup import semantic
from shardkit.prepare.dedup.edges import Indices, NearEdges
from shardkit.prepare.dedup.embeddings import ASSET, EXAMPLE, Vectors, read_vectors
from shardkit.prepare.dedup.inputs import Inputs
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.dedup.pictures import Lists, measured_lists, near_lists
from shardkit.prepare.dedup.signatures import Signed

Measure = Callable[[Indices, Indices], NearEdges]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NearVectors:
    examples: NearEdges
    """Pairs of distinct example ids."""
    example_of: Indices
    """[N] the row's example id as `examples` numbers it; -1 where no vector was given for it."""
    lists: NearEdges
    """Pairs of lists of images, numbered as in Lists; the score is the lowest of their images'."""
    report: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Column of ids -> units, with_vector, blocks, crowded, and what `read_vectors` counted."""

    measure_examples: Measure | None = None
    """Pairs of example ids, as `examples` numbers them -> those that are near; None where examples have no vectors."""
    measure_lists: Measure | None = None
    """The same for lists."""

    @classmethod
    def none(cls, num_rows: int) -> NearVectors:
        return cls(examples=NearEdges.none(), example_of=np.full(num_rows, -1), lists=NearEdges.none())


def find_vectors(
    paths: Sequence[Path],
    inputs: Inputs,
    signed: Signed,
    lists: Lists,
    *,
    column: str | None,
    scratch: Path,
    on_progress: Progress,
) -> NearVectors:
    """Near examples and near lists of images, down to semantic.FLOOR.

    Raises:
        ConfigError, SourceError, OutputError: see `read_vectors`.
    """
    ids, of_row = np.unique(_example_keys(inputs), return_inverse=True)
    images, of_image = np.unique(signed.image_keys, return_inverse=True)
    found = read_vectors(paths, column=column, units={EXAMPLE: ids, ASSET: images}, scratch=scratch)
    result, report = NearVectors.none(inputs.num_rows), {}
    examples, example_of, near = result.examples, result.example_of, result.lists
    measure_examples: Measure | None = None
    measure_lists: Measure | None = None
    for done, (kind, vectors) in enumerate(found.items()):
        on_progress(done, len(found), "comparing vectors")
        searched = semantic.search(vectors)
        report[kind] = _counted(vectors, searched)
        if kind == EXAMPLE:
            examples, measure_examples = searched.edges, partial(semantic.measure, vectors)
            example_of = np.where(vectors.have[of_row], of_row, -1).astype(np.int64)
        else:
            shown = _shown(of_image.astype(np.int64), signed, lists)
            near = near_lists(searched.edges, len(images), *shown)
            measure_lists = partial(_measure_lists, vectors, shown)
    return NearVectors(
        examples=examples,
        example_of=example_of,
        lists=near,
        report=report,
        measure_examples=measure_examples,
        measure_lists=measure_lists,
    )


def _example_keys(inputs: Inputs) -> Keys:
    """[N] of the example ids."""
    tables = (dataset.table("examples", ["example_id"]) for dataset in inputs.datasets)
    return np.concatenate([np.empty(0, np.uint64), *(leading(table["example_id"]) for table in tables)])


_Shown = tuple[Indices, Indices, Indices]
"""Images of all rows by number; of each list where its own begin, and how many they are."""


def _shown(of_image: Indices, signed: Signed, lists: Lists) -> _Shown:
    """The images of all rows, and which of them each list has.

    Args:
        of_image: [M] number of each image, in the order of `signed.image_rows`.
    """
    # Images of a row stand together; slices of workers come in any order of rows.
    of_image = of_image[np.argsort(signed.image_rows, kind="stable")]
    lengths = signed.images.astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    rows = np.flatnonzero(lists.of_row >= 0)[::-1]
    first = np.zeros(len(lists), np.int64)
    first[lists.of_row[rows]] = rows
    return of_image, begins[first], lengths[first]


def _measure_lists(vectors: Vectors, shown: _Shown, one: Indices, two: Indices) -> NearEdges:
    return measured_lists(partial(semantic.measure, vectors), *shown, one, two)


def _counted(vectors: Vectors, searched: semantic.Search) -> dict[str, int]:
    return {
        **vectors.counts,
        "units": len(vectors.have),
        "with_vector": searched.num_compared,
        "blocks": searched.num_blocks,
        "crowded": searched.num_crowded,
    }
