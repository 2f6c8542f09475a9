"""mmc4: interleaved documents of the MMC4 form, as JSON lines, a JSON array or Parquet.

    {"url": "...", "text_list": ["...", "..."], "image_info": [{"image_name": "...", "raw_url": "...",
     "matched_text_index": 1, "matched_sim": 0.32}, ...], "similarity_matrix": [[...], ...]}

Each picture stands before the sentence that it was matched with; its similarity is the confidence of a relation between the
two. One without a match stands before the sentence that its row of the matrix, which counts pictures by sentences, likes
best; without such a row it has no place and is dropped, counted. A sentence is a segment; every one but the first begins
with the space that parts it from the one before. Pictures lie where --url-map has their address, or under their name or
address digest below --images.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import Draft, ImageRef, base_name
from shardkit.prepare.ingest.formats.fields import found
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

CONTAINERS = ("jsonl", "parquet", "arrow", "mds", "json")
FIELDS = ("text_list", "image_info", "url")
REQUIRED = (("text_list", ("text_list",)),)


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one document.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the document is a JSON {type(row).__name__}, not an object")
    names = {name: config.fields.get(name, name) for name in FIELDS}
    texts = _texts(row, names["text_list"])
    changes = Counter(record.changes)
    pictures = _pictures(row.get(names["image_info"]))
    changes["image_slots"] += len(pictures)
    pictures = _placed(pictures, row.get("similarity_matrix"), len(texts), config, changes)
    segments: list[Segment] = []
    relations: list[Relation] = []
    of_sentence: dict[int, list[int]] = {}
    for k, picture in enumerate(pictures):
        of_sentence.setdefault(picture["matched_text_index"], []).append(k)
    for place, text in enumerate(texts):
        here = of_sentence.get(place, [])
        segments += [Segment(kind="image", image=k) for k in here]
        relations += [
            Relation(
                kind="interleaved",
                images=(k,),
                segments=(len(segments),),
                scope="image",
                confidence=_similarity(pictures[k]),
            )
            for k in here
        ]
        segments.append(Segment(kind="text", text=f" {text}" if place else text))
    url = row.get(names["url"])
    yield Draft(
        input=record.input,
        position=record.position,
        folder=record.folder,
        segments=tuple(segments),
        images=tuple(_image(picture, record.folder, reader) for picture in pictures),
        relations=(
            Relation(
                kind="interleaved",
                images=tuple(range(len(pictures))),
                segments=tuple(range(len(segments))),
                scope="example",
            ),
            *relations,
        ),
        metadata={key: value for key, value in row.items() if key != names["text_list"]},
        group=url if isinstance(url, str) and url.strip() else None,
        changes=changes,
    )


def _texts(row: Mapping[str, Any], name: str) -> list[str]:
    if name not in row:
        raise Bad("missing_field", f"field {name} is missing (found: {found(row)})")
    value = row[name]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Bad("wrong_type", f"field {name} is no list of texts")
    if not value:
        raise Bad("no_content", "the document has no sentences")
    return value


def _pictures(value: Any) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise Bad("wrong_type", "field image_info is no list of objects")
    return value


def _placed(
    pictures: list[Mapping[str, Any]], matrix: Any, num_texts: int, config: IngestConfig, changes: Counter[str]
) -> list[Mapping[str, Any]]:
    """The pictures with their sentences, in order; those that have none are dropped, unless the policy keeps documents whole.

    MMC4 gives no two pictures of a document the same sentence while there are free ones, so a picture that was left out
    of the matching takes the free sentence most like it.

    Raises:
        Bad: where a match is no sentence, or a picture without a place costs its document.
    """
    indices = [picture.get("matched_text_index") for picture in pictures]
    taken = {index for index in indices if isinstance(index, int)}
    placed: list[Mapping[str, Any]] = []
    for number, (picture, index) in enumerate(zip(pictures, indices, strict=True)):
        if index is None:
            likeness = _likeness(matrix, number, len(pictures), num_texts)
            if likeness is None:
                if config.on_missing_image not in (None, "drop-image"):
                    raise Bad("slot_value", f"image {number} is matched with no sentence")
                changes["image_dropped"] += 1
                changes["image_dropped:no_place"] += 1
                continue
            free = [k for k in range(num_texts) if k not in taken] or range(num_texts)
            best = max(free, key=likeness.__getitem__)
            taken.add(best)
            changes["image_placed_by_similarity"] += 1
            placed.append({**picture, "matched_text_index": best, "matched_sim": likeness[best]})
            continue
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < num_texts:
            raise Bad("slot_value", f"image {number} is matched with sentence {index}, there are {num_texts}")
        placed.append(picture)
    return placed


def _likeness(matrix: Any, number: int, num_pictures: int, num_texts: int) -> list[float] | None:
    """The similarity of a picture to each sentence; None where the matrix is not of the document's shape."""
    if not isinstance(matrix, list) or len(matrix) != num_pictures:
        return None
    row = matrix[number]
    if not isinstance(row, list) or len(row) != num_texts or not all(map(_is_number, row)):
        return None
    return [float(value) for value in row]


def _image(picture: Mapping[str, Any], folder: str, reader: Reader) -> ImageRef:
    names = [picture.get(key) for key in ("raw_url", "image_name")]
    known = [name for name in names if isinstance(name, str) and name.strip()]
    if not known:
        raise Bad("image_value", "an entry of image_info has neither raw_url nor image_name")
    return ImageRef(path=reader.first_of(known, folder), name=base_name(known[-1]), origin=known[0])


def _similarity(picture: Mapping[str, Any]) -> float | None:
    value = picture.get("matched_sim")
    return float(value) if value is not None and _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
