"""From a row of a benchmark's table to its texts and images: the headers that benchmarks use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shardkit.prepare.ingest.columns import column
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import ImageRef
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.reasons import Bad, plain

PARTS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "question_id", "questionid", "qid", "uid", "item_id", "index"),
    "question": ("question", "query", "prompt", "problem", "instruction", "input"),
    "answer": (
        "answer", "answers", "label", "target", "output", "response", "solution", "ground_truth", "gt_answer",
        "correct_answer", "multiple_choice_answer",
    ),
    "context": ("context", "passage", "text", "caption", "document", "article", "ocr_text"),
    "choices": ("choices", "options"),
    "image": (
        "image", "images", "img", "image_path", "img_path", "image_file", "image_id_path", "file_name", "filename",
        "picture", "decoded_image",
    ),
}  # fmt: skip
"""Part of an item -> headers that it is known by, the first before the second. --bench-field names another."""

_TEXTS = ("answer", "text", "value", "content", "label")
_ITEM_PARTS = ("question", "answer", "context", "image")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fields:
    label: str | None
    question: str
    answers: tuple[str, ...]
    context: str
    images: tuple[ImageRef, ...]


def columns(names: Iterable[str], config: IngestConfig) -> dict[str, str]:
    """Part -> column of a table with these headers; parts that it lacks are absent.

    Raises:
        Bad: where nothing is left to compare, or a column that the user named is not there.
    """
    names = tuple(names)
    found = {part: column(names, part, known, config) for part, known in PARTS.items()}
    for part, asked in config.fields.items():
        if found[part] is None:
            raise Bad("missing_field", f"no column {asked!r} for {part} (found: {plain(', '.join(names), 120)})")
    have = {part: name for part, name in found.items() if name is not None}
    if not any(part in have for part in _ITEM_PARTS):
        raise Bad(
            "missing_field",
            f"no column is known as question, answer, context or image (found: {plain(', '.join(names), 120)})",
        )
    return have


def fields_of(row: Mapping[str, Any], config: IngestConfig) -> Fields:
    """The parts of one row.

    Raises:
        Bad: where a part holds what it cannot hold, or nothing is there.
    """
    value = {part: row[name] for part, name in columns(row, config).items()}
    label = value.get("id")
    fields = Fields(
        label=str(label) if isinstance(label, str | int) and str(label).strip() else None,
        question=_text(value.get("question"), "question"),
        answers=_answers(value.get("answer"), value.get("choices")),
        context=_text(value.get("context"), "context"),
        images=_images(value.get("image")),
    )
    if not (fields.question or fields.context or fields.images or fields.answers):
        raise Bad("no_content", "neither question, answer, context nor image")
    return fields


def _text(value: Any, part: str) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(piece, str) for piece in value):
        return "\n\n".join(value)
    if not isinstance(value, str):
        raise Bad("wrong_type", f"the {part} is of type {type(value).__name__}, not a text")
    return value


def _answers(value: Any, choices: Any) -> tuple[str, ...]:
    """The accepted answers, each once. An index or letter beside choices stands for the choice."""
    if isinstance(choices, str | Mapping) or not isinstance(choices, list):
        choices = []
    place = _choice(value, len(choices))
    if place is not None:
        value = choices[place]
    return tuple(dict.fromkeys(text for text in _flat(value) if text.strip()))


def _choice(value: Any, count: int) -> int | None:
    if isinstance(value, str) and len(value.strip()) == 1 and "A" <= value.strip().upper() <= "Z":
        value = ord(value.strip().upper()) - ord("A")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count:
        return value
    return None


def _flat(value: Any) -> Iterable[str]:
    if value is None:
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool):
        yield "yes" if value else "no"
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, list):
        for piece in value:
            yield from _flat(piece)
    elif isinstance(value, Mapping):
        yield from _flat(next((value[name] for name in _TEXTS if value.get(name) is not None), None))
    else:
        raise Bad("wrong_type", f"the answer is of type {type(value).__name__}")


def _images(value: Any) -> tuple[ImageRef, ...]:
    if value is None or (isinstance(value, str) and not value.strip()):
        return ()
    entries = value if isinstance(value, list) else [value]
    return tuple(image_ref(entry) for entry in entries if entry is not None)
