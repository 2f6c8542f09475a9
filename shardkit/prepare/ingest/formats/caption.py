"""caption: an image and what is said of it.

    tables    CSV, TSV, JSON lines or Parquet with a column of image paths (or bytes) and one of texts
    tars      WebDataset samples: KEY.jpg with KEY.txt, or KEY.json with the caption in it
    folders   STEM.jpg with STEM.txt or STEM.json

The text is kept to the character. Several captions inside one record are one example with several relations. Fields that
are not used stay as metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardkit.prepare.ingest.columns import column
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.containers.tar_walk import Member
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES, suffix
from shardkit.prepare.ingest.draft import Draft, ImageRef, base_name
from shardkit.prepare.ingest.formats.fields import found, text_field
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

CONTAINERS = ("tar", "table", "jsonl", "parquet", "files")
FIELDS = ("image", "caption", "text")
"""`text` is another word for caption."""
LABELS = (".txt", ".caption", ".json")

IMAGE_HEADERS = (
    "image", "images", "image_path", "filepath", "file_path", "file_name", "filename", "path", "file", "img", "img_path",
    "image_file", "image_name", "jpg", "png", "url", "image_url", "img_url",
)  # fmt: skip
CAPTION_HEADERS = (
    "caption", "captions", "text", "title", "alt_text", "alt", "description", "top_caption", "sentence", "label", "txt",
)  # fmt: skip
"""Headers in order of preference, without regard to case."""

REQUIRED = (("image", IMAGE_HEADERS), ("caption", CAPTION_HEADERS))

_CONFIDENCES = ("similarity", "clip_similarity", "clip_similarity_vitb32", "clip_score", "score")


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one table row, sample or pair.

    Raises:
        Bad: with the reason.
    """
    changes = Counter(record.changes)
    if isinstance(record.value, Pair):
        name = record.value.image()
        texts = {label: reader.below_root(file) for label, file in record.value.label_files().items()}
        captions, fields = _captions(texts, config, changes)
        image = ImageRef(data=reader.below_root(name), name=base_name(name))
    elif isinstance(record.value, list):
        image, captions, fields = _sample(record.value, config, changes)
    else:
        image, captions, fields = _row(record.value, config)
    yield Draft(
        input=record.value.image() if isinstance(record.value, Pair) else record.input,
        position=record.position,
        folder=record.folder,
        segments=(
            Segment(kind="image", image=0),
            *(Segment(kind="text", text=caption) for caption in captions),
        ),
        images=(image,),
        relations=tuple(_relation(k + 1, fields) for k in range(len(captions))),
        metadata=fields,
        group_by_asset=True,
        changes=changes,
    )


def _relation(segment: int, fields: Mapping[str, Any]) -> Relation:
    value = next((fields[name] for name in _CONFIDENCES if name in fields), None)
    annotator = fields.get("annotator")
    return Relation(
        kind="caption",
        images=(0,),
        segments=(segment,),
        annotator=annotator if isinstance(annotator, str) and annotator.strip() else None,
        confidence=_number(value),
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < 1e300 else None


def _row(row: Any, config: IngestConfig) -> tuple[ImageRef, list[str], dict[str, Any]]:
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the row is a JSON {type(row).__name__}, not an object")
    image_column = column(row, "image", IMAGE_HEADERS, config)
    if image_column is None:
        raise Bad("missing_field", f"no column of images is known here (found: {found(row)})")
    caption_column = column(row, "caption", CAPTION_HEADERS, config)
    if caption_column is None:
        raise Bad("missing_field", f"no column of captions is known here (found: {found(row)})")
    value = row[image_column]
    if isinstance(value, list):
        if len(value) != 1:
            raise Bad("image_value", f"a caption has one image, the row names {len(value)}")
        value = value[0]
    captions = _texts(row[caption_column]) or [text_field(row, caption_column)]
    used = (image_column, caption_column)
    fields = {key: inner for key, inner in row.items() if key not in used}
    ref = image_ref(value)
    if ref.origin is not None:
        fields.setdefault("url", ref.origin)
    return ref, captions, fields


def _texts(value: Any) -> list[str]:
    """The captions of a list, of texts or of objects with one; empty where `value` is no such list."""
    if not isinstance(value, list):
        return []
    texts = []
    for entry in value:
        text = entry
        if isinstance(entry, dict):
            text = next((entry[key] for key in ("caption", "text", "raw") if key in entry), None)
        if isinstance(text, str) and text.strip():
            texts.append(text)
    return list(dict.fromkeys(texts))


def _sample(
    members: list[Member], config: IngestConfig, changes: Counter[str]
) -> tuple[ImageRef, list[str], dict[str, Any]]:
    images = [member for member in members if suffix(member.name) in IMAGE_SUFFIXES]
    names = ", ".join(member.name for member in members)
    if not images:
        raise Bad("no_image", f"the sample has no image (members: {names})")
    if len(images) > 1:
        raise Bad("ambiguous_image", f"the sample has several images: {names}")
    texts = {f".{suffix(member.name)}": member.data or b"" for member in members if member is not images[0]}
    captions, fields = _captions(texts, config, changes)
    url = fields.get("url")
    ref = ImageRef(
        data=images[0].data, name=base_name(images[0].name), origin=url if isinstance(url, str) else images[0].name
    )
    return ref, captions, fields


def _captions(
    texts: Mapping[str, bytes], config: IngestConfig, changes: Counter[str]
) -> tuple[list[str], dict[str, Any]]:
    """The captions of a .txt or .json beside an image, and the other fields of the .json."""
    fields: dict[str, Any] = {}
    named: list[str] = []
    if ".json" in texts:
        fields = _object(texts[".json"], changes)
        several = _texts(fields.get("captions"))
        key = column(fields, "caption", CAPTION_HEADERS, config)
        one = fields.get(key) if key is not None else None
        named = several or ([one] if isinstance(one, str) else [])
        if key is not None and isinstance(one, str):
            del fields[key]
    label = next((name for name in (".txt", ".caption", ".text") if name in texts), None)
    if label is not None:
        text = decoded(texts[label], changes)
        if text.strip():
            named = list(dict.fromkeys([text, *named])) if len(named) > 1 else [text]
    if not named:
        if label is not None:
            raise Bad("empty_text", f"the {label} file has no text")
        raise Bad("missing_label", "there is no caption beside the image")
    if not any(text.strip() for text in named):
        raise Bad("empty_text", "the caption is empty or blank")
    return named, fields


def _object(data: bytes, changes: Counter[str]) -> dict[str, Any]:
    try:
        parsed = parse(data.removeprefix(b"\xef\xbb\xbf"))
    except Bad as bad:
        raise Bad(bad.reason, f".json: {bad.detail}") from None
    if not isinstance(parsed.value, dict):
        raise Bad("not_an_object", f"the .json is a JSON {type(parsed.value).__name__}, not an object")
    changes.update(parsed.changes)
    return parsed.value
