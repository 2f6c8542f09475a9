"""FUNSD: a form as entities of words, and links between them.

    {"form": [{"id": 0, "label": "question", "text": "...", "box": [x0, y0, x1, y1], "words": [{"text", "box"}],
               "linking": [[0, 1]]}]}

beside the picture, or in annotations/ID.json with images/ID.png. An entity is a region, its words are parted by spaces,
and the page text is the entities in the order of the file, one a line. Labels and links (pairs of places in the order of
entities, each once) are metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shardkit.prepare.ingest.containers.naming import Naming
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats.label import Label, Read, loose_polygon, text_of
from shardkit.prepare.ingest.formats.text_file import json_of
from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem

NAMING = Naming(folders=("images", "annotations"))


def is_form(value: Any) -> bool:
    """Whether a JSON value is a FUNSD annotation."""
    return isinstance(value, dict) and isinstance(value.get("form"), list)


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in a FUNSD file.

    Raises:
        Bad: where it is none.
    """
    parsed = parse(json_of(data, changes))
    changes.update(parsed.changes)
    if not is_form(parsed.value):
        raise Bad("bad_label", "the .json has no list named form")
    return form(parsed.value, changes)


READERS: dict[str, Read] = {".json": read}


def form(value: Mapping[str, Any], changes: Counter[str]) -> Label:
    """The layout, text, labels and links of a form.

    Raises:
        Bad: where an entity is not what it must be.
    """
    items: list[LayoutItem] = []
    texts: list[str] = []
    labels: list[str | None] = []
    places: dict[Any, int] = {}
    words = 0
    for place, entity in enumerate(value["form"]):
        if not isinstance(entity, dict):
            raise Bad("bad_label", f"entity {place} is no object")
        number = entity.get("id", place)
        if not isinstance(number, int | str) or number in places:
            raise Bad("bad_label", f"entity {place} has no id of its own")
        places[number] = place
        labels.append(entity.get("label") if isinstance(entity.get("label"), str) else None)
        region = len(items)
        text, inner = _words(entity, place, region, words, changes)
        items.append(
            LayoutItem(
                level="region", text=text or None, polygon=loose_polygon(entity.get("box"), changes), order=place
            )
        )
        items += inner
        words += len(inner)
        if text:
            texts.append(text)
        else:
            changes["entity_without_text"] += 1
    return Label(
        text="\n".join(texts),
        layout=tuple(items),
        fields={
            **{key: inner for key, inner in value.items() if key != "form"},
            "entity_labels": labels,
            "links": _links(value["form"], places, changes),
        },
    )


def _words(
    entity: Mapping[str, Any], place: int, region: int, first: int, changes: Counter[str]
) -> tuple[str, list[LayoutItem]]:
    """The text of an entity, and its words: blank ones, which mark empty fields, are left out and counted."""
    words = entity.get("words") or []
    if not isinstance(words, list) or not all(isinstance(word, dict) for word in words):
        raise Bad("bad_label", f"the words of entity {place} are no list of objects")
    items: list[LayoutItem] = []
    for word in words:
        text = text_of(word.get("text"), f"a word of entity {place}")
        if not text.strip():
            changes["word_blank"] += 1
            continue
        points = loose_polygon(word.get("box"), changes)
        items.append(LayoutItem(level="word", text=text, polygon=points, parent=region, order=first + len(items)))
    joined = " ".join(item.text or "" for item in items)
    stated = entity.get("text")
    if stated is None:
        return joined, items
    text = text_of(stated, f"the text of entity {place}")
    if items and text.split() != joined.split():
        changes["entity_text_differs"] += 1
    return text if text.strip() else joined, items


def _links(entities: list[Mapping[str, Any]], places: Mapping[Any, int], changes: Counter[str]) -> list[list[int]]:
    """Links as pairs of places; each stands at both of its ends and is taken once. One to an entity
    that is not there is left out, counted."""
    links: dict[tuple[int, int], None] = {}
    for place, entity in enumerate(entities):
        linking = entity.get("linking") or []
        if not isinstance(linking, list):
            raise Bad("bad_label", f"linking of entity {place} is no list")
        for link in linking:
            if not (isinstance(link, list) and len(link) == 2 and all(isinstance(end, int | str) for end in link)):
                raise Bad("bad_label", f"a link of entity {place} is no pair of ids")
            if link[0] not in places or link[1] not in places:
                changes["link_of_nothing"] += 1
                continue
            links[places[link[0]], places[link[1]]] = None
    return [list(link) for link in links]
