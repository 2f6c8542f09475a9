"""Captions of examples that go, moved to the one that stays for them.

    keeper   image 0, "a boat in the bay"          ->  image 0, "a boat in the bay", "a red boat in the bay"
    removed  image 0, "a red boat in the bay"          with a relation for each of the two texts

The images of the two are equal or near one by one, so a caption is of the image in the same place. Other relations do not
move: a document or a dialogue has one order, and a page one reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shardkit.records import Example, Relation, Segment, example_id
from shardkit.text.normalize import normalize

KIND = "caption"


@dataclass(frozen=True, kw_only=True, slots=True)
class Caption:
    images: tuple[int, ...]
    segments: tuple[Segment, ...]
    relation: Relation
    form: str
    """The compared form of its text."""
    example_id: str
    """Of the example that it stood in."""

    @property
    def text(self) -> str:
        return "".join(segment.text or "" for segment in self.segments)


def explicit(relation: Relation, example: Example) -> Relation:
    """The relation with the images and texts that it covers named, where it covers all."""
    texts = tuple(index for index, segment in enumerate(example.segments) if segment.text is not None)
    return replace(
        relation, images=relation.images or tuple(range(len(example.images))), segments=relation.segments or texts
    )


def captions_of(example: Example) -> list[Caption]:
    """The captions that could stand elsewhere: those with a text, of which no part has a role or a name."""
    found = []
    for relation in example.relations:
        if relation.kind != KIND:
            continue
        whole = explicit(relation, example)
        segments = tuple(example.segments[index] for index in whole.segments if example.segments[index].image is None)
        if any(segment.role or segment.name for segment in segments):
            continue
        caption = Caption(
            images=whole.images, segments=segments, relation=relation, form="", example_id=example.example_id
        )
        found.append(replace(caption, form=normalize(caption.text)))
    return [caption for caption in found if caption.form]


def takes(keeper: Example, removed: Example) -> bool:
    """Whether the keeper is an image with captions and nothing else, and has as many images."""
    return {relation.kind for relation in keeper.relations} == {KIND} and len(keeper.images) == len(removed.images)


def missing(keeper: Example, removed: Iterable[Example]) -> list[Caption]:
    """Captions of examples that go whose text the keeper does not have yet, each text of an image once.

    The order of the examples does not matter: captions are ordered by their content.
    """
    known = {(caption.images, caption.form) for caption in captions_of(keeper)}
    found = []
    for caption in sorted((caption for one in removed for caption in captions_of(one)), key=_order):
        if (caption.images, caption.form) not in known:
            known.add((caption.images, caption.form))
            found.append(caption)
    return found


def _order(caption: Caption) -> tuple[str, str, str, float, str]:
    relation = caption.relation
    confidence = -1.0 if relation.confidence is None else relation.confidence
    return caption.form, caption.text, relation.annotator or "", -confidence, caption.example_id


def with_captions(keeper: Example, captions: Iterable[Caption]) -> Example:
    """The keeper with further captions behind its own, under its new id."""
    segments, relations = list(keeper.segments), [explicit(relation, keeper) for relation in keeper.relations]
    for caption in captions:
        places = tuple(range(len(segments), len(segments) + len(caption.segments)))
        segments += caption.segments
        relations.append(replace(caption.relation, images=caption.images, segments=places))
    changed = replace(keeper, segments=tuple(segments), relations=tuple(relations))
    return replace(changed, example_id=example_id(changed))
