"""caption: an image and what is said of it.

    tables     CSV, TSV, JSON lines or Parquet with a column of image paths, addresses or bytes and one of texts; also such
               tables called .txt, and lists of IMAGE#NUMBER TAB text, as Flickr8k and Flickr30k are published
    documents  JSON of COCO, Karpathy's splits, SBU, or a list of rows
    texts      NAME_captions.txt with NAME_urls.txt, line by line, as SBU was first published
    tars       WebDataset samples: KEY.jpg with KEY.txt, or KEY.json with the caption in it
    folders    STEM.jpg with STEM.txt or STEM.json

The text is kept to the character. Several captions inside one record are one example with several relations. Fields that
are not used stay as metadata.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardkit.prepare.ingest.columns import column
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.containers.tables import is_numbered
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES, suffix
from shardkit.prepare.ingest.draft import Draft, ImageRef, base_name
from shardkit.prepare.ingest.formats import caption_json
from shardkit.prepare.ingest.formats.caption_json import ANNOTATIONS, places
from shardkit.prepare.ingest.formats.captions import Caption, distinct, listed, name, number, relations
from shardkit.prepare.ingest.formats.fields import found, text_field
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.formats.text_file import decoded, json_of
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.prepare.ingest.roots import is_address
from shardkit.records import Segment
from shardkit.store.tar_walk import Member

CONTAINERS = ("tar", "table", "jsonl", "parquet", "arrow", "mds", "line_pairs", "json", "files")
FIELDS = ("image", "caption", "text", "confidence", "annotator")
"""`text` is another word for caption."""
LABELS = (".txt", ".caption", ".json")

IMAGE_HEADERS = (
    "image", "images", "image_path", "image_bytes", "filepath", "file_path", "file_name", "filename", "path", "file", "img",
    "img_path", "image_file", "image_name", "jpg", "jpeg", "png", "webp", "url", "image_url", "img_url", "urls", "image_urls",
    "coco_url", "flickr_url",
)  # fmt: skip
CAPTION_HEADERS = (
    "caption", "captions", "top_caption", "all_captions", "text", "texts", "title", "alt_text", "alttext", "alt",
    "description", "sentence", "sentences", "recaption", "label", "txt", "comment",
)  # fmt: skip
CONFIDENCE_HEADERS = (
    "confidence", "similarity", "similarities", "all_similarities", "clip_similarity", "clip_similarity_vitb32", "clip_score",
    "score",
)  # fmt: skip
"""Headers in order of preference, without regard to case."""

REQUIRED = (("image", IMAGE_HEADERS), ("caption", CAPTION_HEADERS))
ADDRESSES = ("url", "image_url", "coco_url", "flickr_url")
"""Fields that say where a picture came from."""


def is_list(name: str, head: bytes) -> bool:
    """Whether a file in a folder, by its name and first bytes, lists captions: a JSON document, or a table called .txt."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith((b"{", b"[")):
        return caption_json.is_list(name, head)
    first, *others = [line for line in head.split(b"\n", 20) if line.strip()] or [b""]
    if is_numbered(first):
        return True
    delimiter = next((sign for sign in (b",", b";", b"\t", b"|") if sign in first), b"\n")
    if others and delimiter not in others[0]:
        return False  # prose that begins like a table
    names = {one.strip().strip('"').casefold() for one in re.split(r"[,;\t|]", first.decode("utf-8", "replace"))}
    return not names.isdisjoint(IMAGE_HEADERS) and not names.isdisjoint(CAPTION_HEADERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """What a record has."""

    image: ImageRef
    captions: list[Caption]
    fields: dict[str, Any]
    """What is kept as metadata."""
    confidence: float | None = None
    """Of captions that have none of their own."""


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one table row, document entry, sample or pair.

    Raises:
        Bad: with the reason.
    """
    changes = Counter(record.changes)
    if isinstance(record.value, Pair):
        path = record.value.image()
        texts = {label: reader.below_root(file) for label, file in record.value.label_files().items()}
        captions, fields = _captions(texts, {}, config, changes)
        image = ImageRef(data=reader.below_root(path), name=base_name(path))
        one = _scored(image, captions, fields, config)
    elif isinstance(record.value, list) and record.value and isinstance(record.value[0], Member):
        one = _sample(record, config, changes)
    else:
        one = _row(record.value, config, changes)
    folder = record.folder
    if ANNOTATIONS in one.fields and one.image.data is None and not is_address(one.image.path):
        folder, paths = places(record, one.image.path)
        one = replace(one, image=replace(one.image, path=reader.first_of(paths, folder)))
    captions = distinct(one.captions, changes)
    annotator_column = column(one.fields, "annotator", ("annotator",), config)
    yield Draft(
        input=record.value.image() if isinstance(record.value, Pair) else record.input,
        position=record.position,
        folder=folder,
        segments=(
            Segment(kind="image", image=0),
            *(Segment(kind="text", text=caption.text) for caption in captions),
        ),
        images=(one.image,),
        relations=relations(
            captions,
            confidence=one.confidence,
            annotator=name(one.fields[annotator_column]) if annotator_column is not None else None,
        ),
        metadata=one.fields,
        group_by_asset=True,
        changes=+changes,
    )


def _scored(image: ImageRef, captions: list[Caption], fields: dict[str, Any], config: IngestConfig) -> _Found:
    score = column(fields, "confidence", CONFIDENCE_HEADERS, config)
    confidence = number(fields[score]) if score is not None else None
    return _Found(image=image, captions=captions, fields=fields, confidence=confidence)


def _row(row: Any, config: IngestConfig, changes: Counter[str]) -> _Found:
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the row is a JSON {type(row).__name__}, not an object")
    image_column = column(row, "image", IMAGE_HEADERS, config)
    if image_column is None:
        raise Bad("missing_field", f"no column of images is known here (found: {found(row)})")
    caption_column = column(row, "caption", CAPTION_HEADERS, config)
    if caption_column is None:
        raise Bad("missing_field", f"no column of captions is known here (found: {found(row)})")
    image = row[image_column]
    if isinstance(image, list):
        if len(image) != 1:
            raise Bad("image_value", f"a caption has one image, the row names {len(image)}")
        image = image[0]
    value = row[caption_column]
    score_column = column(row, "confidence", CONFIDENCE_HEADERS, config)
    captions = listed(value, row[score_column] if score_column is not None else None, changes)
    if isinstance(value, list) and not captions:
        raise Bad("empty_text" if value else "missing_label", f"field {caption_column} lists no caption with a text")
    captions = captions or [Caption(text=text_field(row, caption_column))]
    used = {image_column, caption_column}
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        used.remove(caption_column)  # its entries say more than their texts
    fields = {key: inner for key, inner in row.items() if key not in used}
    ref = image_ref(image)
    if ref.origin is not None:
        fields.setdefault("url", ref.origin)
    elif (address := column(fields, "", ADDRESSES, config)) is not None and isinstance(fields[address], str):
        ref = replace(ref, origin=fields[address])
    return _scored(ref, captions, fields, config)


def _sample(record: Record, config: IngestConfig, changes: Counter[str]) -> _Found:
    members: list[Member] = record.value
    images = [member for member in members if suffix(member.name) in IMAGE_SUFFIXES]
    names = ", ".join(member.name for member in members)
    if not images:
        raise Bad("no_image", f"the sample has no image (members: {names})")
    if len(images) > 1:
        raise Bad("ambiguous_image", f"the sample has several images: {names}")
    texts = {f".{suffix(member.name)}": member.data or b"" for member in members if member is not images[0]}
    captions, fields = _captions(texts, record.beside, config, changes)
    url = fields.get("url")
    ref = ImageRef(
        data=images[0].data, name=base_name(images[0].name), origin=url if isinstance(url, str) else images[0].name
    )
    return _scored(ref, captions, fields, config)


def _captions(
    texts: Mapping[str, bytes], beside: Mapping[str, Any], config: IngestConfig, changes: Counter[str]
) -> tuple[list[Caption], dict[str, Any]]:
    """The captions of a .txt or .json beside an image, and the other fields of the .json.

    Args:
        beside: the row of a table beside the archive; it says what the .json does not.
    """
    fields = {**beside, **(_object(texts[".json"], changes) if ".json" in texts else {})}
    named: list[Caption] = []
    if fields:
        score = column(fields, "confidence", CONFIDENCE_HEADERS, config)
        scores = fields[score] if score is not None else None
        key = column(fields, "caption", CAPTION_HEADERS, config)
        one = fields.get(key) if key is not None else None
        named = listed(fields.get("captions"), scores, changes) or listed(one, scores, changes)
        if key is not None and isinstance(one, str):
            named = named or [Caption(text=one)]
            del fields[key]
    label = next((name for name in (".txt", ".caption", ".text") if name in texts), None)
    if label is not None:
        text = decoded(texts[label], changes)
        if text.strip():
            same = [caption for caption in named if caption.text == text]
            others = [caption for caption in named if caption.text != text] if len(named) > 1 else []
            named = [*(same or [Caption(text=text)]), *others]
    if not named:
        if label is not None:
            raise Bad("empty_text", f"the {label} file has no text")
        raise Bad("missing_label", "there is no caption beside the image")
    if not any(caption.text.strip() for caption in named):
        raise Bad("empty_text", "the caption is empty or blank")
    return named, fields


def _object(data: bytes, changes: Counter[str]) -> dict[str, Any]:
    try:
        parsed = parse(json_of(data, changes))
    except Bad as bad:
        raise Bad(bad.reason, f".json: {bad.detail}") from None
    if not isinstance(parsed.value, dict):
        raise Bad("not_an_object", f"the .json is a JSON {type(parsed.value).__name__}, not an object")
    changes.update(parsed.changes)
    return parsed.value
