"""What is said of one picture: the captions of a record, who said them and how sure it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardkit.prepare.ingest.formats.fields import annotator_of
from shardkit.records import Relation

_TEXTS = ("caption", "text", "raw", "value")
_SCORES = ("similarity", "clip_similarity", "confidence", "score")


@dataclass(frozen=True, kw_only=True, slots=True)
class Caption:
    text: str
    confidence: float | None = None
    annotator: str | None = None


def listed(value: Any, scores: Any, changes: Counter[str]) -> list[Caption]:
    """The captions of a list of texts, or of objects with one each; none where `value` is no list.

    Args:
        scores: a list of numbers, one for each entry of `value`; anything else says nothing of single entries.
        changes: counts entries without a text.
    """
    if not isinstance(value, list):
        return []
    parallel = scores if isinstance(scores, list) and len(scores) == len(value) else [None] * len(value)
    found = []
    for entry, score in zip(value, parallel, strict=True):
        caption = _caption(entry, number(score))
        if caption is None:
            changes["caption_without_text"] += 1
        else:
            found.append(caption)
    return found


def _caption(entry: Any, score: float | None) -> Caption | None:
    text, annotator = entry, None
    if isinstance(entry, Mapping):
        text = first(entry, _TEXTS)
        own = number(first(entry, _SCORES))
        score = score if own is None else own
        annotator = annotator_of(entry)
    if not isinstance(text, str) or not text.strip():
        return None
    return Caption(text=text, confidence=score, annotator=annotator)


def distinct(captions: Sequence[Caption], changes: Counter[str]) -> list[Caption]:
    """`captions` with each text once, the first time it comes. All are counted as num_captions."""
    by_text: dict[str, Caption] = {}
    for caption in captions:
        by_text.setdefault(caption.text, caption)
    changes["num_captions"] += len(captions)
    changes["caption_repeated"] += len(captions) - len(by_text)
    return list(by_text.values())


def relations(captions: Sequence[Caption], *, confidence: float | None, annotator: str | None) -> tuple[Relation, ...]:
    """A relation for each caption, which is the text segment behind the image; the arguments hold where it says nothing."""
    return tuple(
        Relation(
            kind="caption",
            images=(0,),
            segments=(place,),
            annotator=caption.annotator or annotator,
            confidence=confidence if caption.confidence is None else caption.confidence,
        )
        for place, caption in enumerate(captions, 1)
    )


def first(fields: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The value of the first of `names` that is there."""
    return next((fields[key] for key in names if fields.get(key) is not None), None)


def number(value: Any) -> float | None:
    """`value` as a finite number, also where a table gives it as text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def name(value: Any) -> str | None:
    """`value` where it is a text that says something."""
    return value if isinstance(value, str) and value.strip() else None
