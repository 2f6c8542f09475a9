"""Several captions of one image: which of them a sequence shows, and in which pass over the data.

all      a sequence for each caption, in every pass
one      one caption a pass: each is an alternative, in an order drawn from (seed, example)
joined   one sequence with all of them
first    the first one, in every pass
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardkit.digest import mix64

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardkit.records import Example, Relation

CAPTIONS = ("all", "one", "joined", "first")

Alternative = list[list[int]]
"""The segments of each of its sequences, as indices in order."""


def alternatives(example: Example, captions: str, seed: int = 0) -> list[Alternative]:
    """What the passes over the data see of an example; without an image that has several captions, all see all of it.

    `all` adds to the first sequence, which leaves out the captions behind an image's first, one for each further
    caption, of its images and its own text only, so that no text is a target twice. With `one` there are as many
    alternatives as the image with most captions has; an image with fewer begins anew.
    """
    everything = list(range(len(example.segments)))
    groups = [relations for relations in _by_images(example) if len(relations) > 1]
    if captions == "joined" or not groups:
        return [[everything]]
    if captions == "one":
        drawn = [sorted(relations, key=lambda one: _place(example, one, seed)) for relations in groups]
        number = max(map(len, groups))
        return [[_shown(everything, groups, [ones[k % len(ones)] for ones in drawn])] for k in range(number)]
    first = _shown(everything, groups, [relations[0] for relations in groups])
    if captions == "first":
        return [[first]]
    return [[first, *(_one_caption(example, one) for relations in groups for one in relations[1:])]]


def single_images(example: Example, indices: Sequence[int]) -> Iterator[list[int]]:
    """`indices` cut before each image behind the first, for models that take one image a sequence.

    Text before the first image goes with it.
    """
    row: list[int] = []
    has_image = False
    for index in indices:
        is_image = example.segments[index].image is not None
        if is_image and has_image:
            yield row
            row = []
        has_image |= is_image
        row.append(index)
    yield row


def _by_images(example: Example) -> list[list[Relation]]:
    """Captions of the same images, in the example's order."""
    by_images: dict[tuple[int, ...], list[Relation]] = {}
    for relation in example.relations:
        if relation.kind == "caption" and relation.segments:
            by_images.setdefault(relation.images, []).append(relation)
    return list(by_images.values())


def _place(example: Example, caption: Relation, seed: int) -> int:
    return mix64(seed, example.example_id, caption.segments[0], "caption")


def _shown(everything: list[int], groups: list[list[Relation]], chosen: list[Relation]) -> list[int]:
    """All segments but the captions of `groups` that are not chosen."""
    hidden = {index for relations in groups for one in relations for index in one.segments}
    hidden -= {index for one in chosen for index in one.segments}
    return [index for index in everything if index not in hidden]


def _one_caption(example: Example, relation: Relation) -> list[int]:
    """The relation's images (all of them, where it names none) and its text, in the example's order."""
    return [
        index
        for index, segment in enumerate(example.segments)
        if index in relation.segments
        or (segment.image is not None and (not relation.images or segment.image in relation.images))
    ]
