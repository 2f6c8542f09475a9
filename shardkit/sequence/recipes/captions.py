"""Several captions of one image: which of them a sequence shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardkit.records import Example, Relation

CAPTIONS = ("all", "first", "joined")


def alternatives(example: Example, captions: str) -> list[Sequence[int]]:
    """The segments of each sequence to build, as indices in order.

    Without an image that has several captions, and with `joined`, that is one sequence of all segments. `first` leaves
    out the captions behind an image's first. `all` then adds a sequence for each further caption, of its images and its
    own text only, so that no text is a target twice.
    """
    everything = range(len(example.segments))
    by_images: dict[tuple[int, ...], list[Relation]] = {}
    for relation in example.relations:
        if relation.kind == "caption" and relation.segments:
            by_images.setdefault(relation.images, []).append(relation)
    further = [relation for relations in by_images.values() for relation in relations[1:]]
    if captions == "joined" or not further:
        return [everything]
    hidden = {index for relation in further for index in relation.segments}
    first = [index for index in everything if index not in hidden]
    if captions == "first":
        return [first]
    return [first, *(_one_caption(example, relation) for relation in further)]


def _one_caption(example: Example, relation: Relation) -> list[int]:
    """The relation's images (all of them, where it names none) and its text, in the example's order."""
    return [
        index
        for index, segment in enumerate(example.segments)
        if index in relation.segments
        or (segment.image is not None and (not relation.images or segment.image in relation.images))
    ]
