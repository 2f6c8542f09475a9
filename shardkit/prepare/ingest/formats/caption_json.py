"""JSON documents of captions: COCO, Karpathy's splits of it, SBU, and plain lists of rows.

    COCO      {"images": [{"id", "file_name", ...}], "annotations": [{"image_id", "caption", ...}], "licenses": [...]}
    Karpathy  {"images": [{"filename", "filepath", "sentences": [{"raw"}], ...}]}
    SBU       {"image_urls": [...], "captions": [...], "user_ids": [...]}: columns
    map       {"a.jpg": "caption" or ["caption", ...] or {"caption": ...}, ...}
    rows      [{"image": ..., "caption": ...}, ...]

Of COCO and Karpathy one image entry is a record, of the others one row.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardkit.prepare.ingest.containers.documents import Entries, Entry
from shardkit.prepare.ingest.containers.json_parts import Items
from shardkit.prepare.ingest.formats.fields import found
from shardkit.prepare.ingest.formats.paddleocr import names_image
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record

ANNOTATIONS = "annotation_ids"
"""Field of a record that was made of COCO's images and annotations."""

_ADDRESSES = ("image_urls", "image_url", "urls", "url", "images", "image")
_TEXTS = ("captions", "caption", "texts", "text")


IMAGE_FIELDS = ("image", "file_name", "path")
"""Fields by which an entry of a map may name its picture again."""
_PICTURE_FIRST = re.compile(rb'\{\s*"[^"\n]+\.(?:jpe?g|png|webp|gif|bmp|tiff?)"\s*:', re.IGNORECASE)
_PICTURE_KEY = re.compile(rb'"(?:image|img|url|file|path)[a-z_]*"\s*:', re.IGNORECASE)


def is_list(name: str, head: bytes) -> bool:
    """Whether a JSON file in a folder lists captions. Of COCO's files only those do that are called so."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"["):
        return b'"caption' in start or (b'"text"' in start and _PICTURE_KEY.search(start) is not None)
    if b'"image_urls"' in start or b'"sentences"' in start:
        return True
    if _PICTURE_FIRST.match(start) is not None:
        return True
    return b'"images"' in start and "caption" in name.rpartition("/")[2].lower()


def entries(value: Any) -> Entries:
    """The records of a document.

    Raises:
        Bad: where its layout is none of these.
    """
    if isinstance(value, list | Items):
        return Entries(entries=(Entry(position=str(k), value=row) for k, row in enumerate(value, 1)))
    if isinstance(value, dict):
        if isinstance(value.get("images"), list | Items) and isinstance(value.get("annotations"), list | Items):
            return _coco(value)
        if isinstance(value.get("images"), list | Items) and any(
            isinstance(e, dict) and "sentences" in e for e in value["images"]
        ):
            return _karpathy(value["images"])
        if value and all(map(names_image, value)):
            return Entries(entries=(Entry(position=name, value=_of_map(name, said)) for name, said in value.items()))
        columns = _columns(value)
        if columns is not None:
            return columns
    what = found(value) if isinstance(value, dict) else type(value).__name__
    raise Bad(
        "wrong_type",
        f"the document is neither a list of rows nor a map of pictures nor COCO nor columns of equal length (found: {what})",
    )


def _of_map(name: str, said: Any) -> Any:
    """The row of a picture that a map names."""
    if isinstance(said, dict):
        return {key: inner for key, inner in said.items() if key not in IMAGE_FIELDS} | {"file_name": name}
    return {"file_name": name, "captions" if isinstance(said, list) else "caption": said}


def _coco(document: Mapping[str, Any]) -> Entries:
    """Image entries with the captions of their annotations; what each annotation has besides goes with them."""
    images, annotations = document["images"], document["annotations"]
    # Places and not the annotations: a large document gives them again when their image comes.
    of_image: dict[Any, array[int]] = {}
    for place, annotation in enumerate(annotations):
        if isinstance(annotation, dict):
            of_image.setdefault(_key(annotation.get("image_id")), array("Q")).append(place)
    licences = {
        _key(entry.get("id")): entry
        for entry in document.get("licenses") or ()
        if isinstance(entry, dict) and entry.get("id") is not None
    }
    used: set[Any] = set()
    counts: Counter[Any] = Counter()
    for image in images:
        used.update([_key(image.get("id"))] if isinstance(image, dict) else [])
        counts[_name(image)] += 1
    num_used = sum(len(held) for key, held in of_image.items() if key in used)

    def row(image: Any) -> Any:
        if not isinstance(image, dict):
            return image
        return _with_captions(image, [annotations[k] for k in of_image.get(_key(image.get("id")), ())], licences)

    return Entries(
        entries=_named(images, row, counts),
        changes=+Counter(annotation_without_image=len(annotations) - num_used),
    )


def _with_captions(image: Mapping[str, Any], annotations: list[Any], licences: Mapping[Any, Any]) -> Any:
    fields = {key: value for key, value in image.items() if key not in ("id", "license")}
    licence = licences.get(_key(image.get("license")))
    if licence is not None:
        fields["licence"] = licence.get("name") or licence.get("url")
    elif image.get("license") is not None:
        fields["license"] = image["license"]
    ids = [annotation.get("id") for annotation in annotations]
    return {
        **fields,
        "image_id": image.get("id"),
        "captions": [annotation.get("caption") for annotation in annotations],
        ANNOTATIONS: ids,
    }


def _karpathy(images: Sequence[Any]) -> Entries:
    return Entries(entries=_named(images, _with_sentences, Counter(map(_name, images))))


def _with_sentences(image: Any) -> Any:
    if not isinstance(image, dict) or not isinstance(image.get("filename"), str):
        return image
    folder = image.get("filepath")
    name = f"{folder}/{image['filename']}" if isinstance(folder, str) and folder else image["filename"]
    sentences = image.get("sentences")
    texts = [s.get("raw") if isinstance(s, dict) else s for s in sentences] if isinstance(sentences, list) else None
    rest = {k: v for k, v in image.items() if k not in ("filename", "filepath", "sentences")}
    return {**rest, "file_name": name, "captions": texts}


def _named(images: Sequence[Any], row: Callable[[Any], Any], counts: Mapping[Any, int]) -> Iterator[Entry]:
    """Each row under the file name of its image, or its number where there is none or it is not the only one."""
    for number, image in enumerate(images, 1):
        name = _name(image)
        yield Entry(position=name if name is not None and counts[name] == 1 else str(number), value=row(image))


def _name(image: Any) -> str | None:
    name = image.get("file_name") or image.get("filename") if isinstance(image, dict) else None
    return name if isinstance(name, str) else None


def _key(value: Any) -> Any:
    """An id as it can be looked up: dumps write the same one as number and as text."""
    return str(value) if isinstance(value, int | str) and not isinstance(value, bool) else None


def places(record: Record, path: str) -> tuple[str, tuple[str, ...]]:
    """Where a picture of COCO may lie: (folder that paths begin in, paths in order of preference).

    The published layout has annotations/captions_val2014.json and val2014/NAME.jpg side by side.
    """
    stem = record.input.rpartition("/")[2].partition(".")[0]
    split = stem.rpartition("_")[2]
    above, _, last = record.folder.rpartition("/")
    folder = above if last == "annotations" else record.folder
    return folder, (path, f"{split}/{path}", f"images/{path}", f"images/{split}/{path}")


def _columns(document: Mapping[str, Any]) -> Entries | None:
    """The rows of a document of columns; fields that are no column of its length are left out, counted."""
    addresses = next((key for key in _ADDRESSES if isinstance(document.get(key), list | Items)), None)
    texts = next((key for key in _TEXTS if isinstance(document.get(key), list | Items)), None)
    if addresses is None or texts is None or len(document[addresses]) != len(document[texts]):
        return None
    length = len(document[texts])
    columns = {
        key: value for key, value in document.items() if isinstance(value, list | Items) and len(value) == length
    }
    names = {addresses: "url" if "url" in addresses else "image", texts: "caption"}
    rows = zip(*columns.values(), strict=True)
    keys = [names.get(key, key) for key in columns]
    return Entries(
        entries=(
            Entry(position=str(number), value=dict(zip(keys, row, strict=True))) for number, row in enumerate(rows, 1)
        ),
        changes=+Counter(document_field_left_out=len(document) - len(columns)),
    )
