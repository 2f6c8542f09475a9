"""The words of `check`: each is a function that says whether it is broken. The README of the cases defines them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image as Pillow

from shardkit.media.decode import decode_rgb
from shardkit.records import Example, Image
from tests.contract.caserows import Stored, stored

if TYPE_CHECKING:
    from tests.contract.caserunner import Outcome, Place

Tree = dict[str, str]
ORIENTATION = 0x0112


def evaluate(
    place: Place, outcome: Outcome, checks: list[str], before: dict[str, Tree], after: dict[str, Tree]
) -> list[str]:
    """The checks that are broken, in words."""
    rows = stored(outcome.output) if outcome.output is not None else None
    broken = []
    for check in checks:
        name, _, value = check.partition(":")
        if name in OF_RUN:
            found = OF_RUN[name](outcome, value)
        elif name in OF_FILES:
            found = OF_FILES[name](place, outcome, before, after)
        elif name == "opened":
            found = _opened(place, outcome, value)
        elif name in OF_ROWS:
            found = rows is not None and OF_ROWS[name](rows, value)
        else:
            found = name not in OF_PROCEDURES and "there is no such check"
        if found:
            broken.append(f"{check!r} is broken" + (f": {found}" if isinstance(found, str) else ""))
    return broken


# --------------------------------------------------------------------------- the run itself
def _long_message(outcome: Outcome, value: str) -> object:
    rows = stored(outcome.output) if outcome.output is not None else None
    details = [entry["detail"] for entry in rows.exclusions] if rows is not None else []
    return next((text[:60] for text in [*outcome.err.splitlines(), *details] if len(text.encode()) > int(value)), None)


OF_RUN: dict[str, Callable[[Outcome, str], object]] = {
    "traceback": lambda o, _: "Traceback (most recent call last)" in o.out + o.err,
    "exit-0": lambda o, _: o.code == 0,
    "signal": lambda o, _: o.code < 0 and not o.hung,
    "hang": lambda o, _: o.hung,
    "connection": lambda o, _: ", ".join(o.connections),
    "in-message": lambda o, value: value in o.out + o.err,
    "line": lambda o, value: any(line.startswith(value) for line in (o.out + "\n" + o.err).splitlines()),
    "long-message": _long_message,
    "kept": lambda o, value: o.summary.get("kept") == int(value),
    "read": lambda o, value: o.summary.get("read") == int(value),
}


def _opened(place: Place, outcome: Outcome, value: str) -> object:
    path = os.path.realpath(value if os.path.isabs(value) else place.case_copy / value)
    return path in outcome.opened


# --------------------------------------------------------------------------- files
def snapshot(place: Place) -> dict[str, Tree]:
    """Every file of the work folder, of the inputs and of the current folder."""
    return {
        "work": tree(place.work),
        "case": tree(place.case_copy),
        "base": tree(place.base_copy),
        "cwd": tree(place.cwd),
    }


def tree(folder: Path) -> Tree:
    """Absolute path -> digest or link target."""
    state = {}
    for here, folders, names in os.walk(folder):
        for name in [*names, *(f for f in folders if os.path.islink(os.path.join(here, f)))]:
            full = os.path.join(here, name)
            if os.path.islink(full):
                state[full] = "-> " + os.readlink(full)
            elif os.path.isfile(full):
                state[full] = hashlib.sha256(Path(full).read_bytes()).hexdigest()
            else:
                state[full] = "special"
    return state


def _changes(before: Tree, after: Tree, allowed: Path | None = None) -> list[str]:
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    prefix = None if allowed is None else str(allowed)
    return sorted(p for p in changed if prefix is None or not (p == prefix or p.startswith(prefix + os.sep)))


def _written_outside(_place: Place, outcome: Outcome, before: dict[str, Tree], after: dict[str, Tree]) -> object:
    return ", ".join(path for part in before for path in _changes(before[part], after[part], outcome.output))


def _changed_input(_place: Place, _outcome: Outcome, before: dict[str, Tree], after: dict[str, Tree]) -> object:
    return ", ".join(_changes(before["case"], after["case"]) + _changes(before["base"], after["base"]))


def _leftover(_place: Place, outcome: Outcome, _before: object, _after: object) -> object:
    rows = stored(outcome.output)
    if rows is None:
        return None
    manifest = json.loads(rows.manifest_text)
    named = {entry["path"] for entry in [*manifest["shards"], *manifest["sequences"]]}
    named |= {f"{entry['path']}.index.arrow" for entry in manifest["shards"] if entry["index_size"] is not None}
    there = {p.relative_to(rows.path).as_posix() for p in (rows.path / "shards").rglob("*") if p.is_file()}
    return ", ".join(sorted(there - named))


OF_FILES: dict[str, Callable[..., object]] = {
    "written-outside": _written_outside,
    "changed-input": _changed_input,
    "leftover": _leftover,
}


def holds(folder: Path, wanted: bytes) -> str | None:
    """The first file below `folder` that holds these bytes, packed ones unpacked."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".zst":
            data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
        elif path.suffix == ".parquet":
            data += repr(pq.read_table(path).to_pylist()).encode()
        if wanted in data:
            return path.name
    return None


# --------------------------------------------------------------------------- stored rows
def pixel(image: Image, y: int, x: int) -> tuple[int, ...]:
    """A pixel of the canonical decode of the stored bytes."""
    return decode_rgb(image.data, frame=image.frame).getpixel((x, y))


def covered(example: Example) -> list[float] | None:
    """x0, y0, x1, y1 of what the stored words cover; lines where there are no words."""
    items = [item for image in example.images for item in image.layout or () if item.polygon]
    items = [item for item in items if item.level == "word"] or items
    points = [item.polygon for item in items]
    if not points:
        return None
    xs, ys = [v for p in points for v in p[0::2]], [v for p in points for v in p[1::2]]
    return [min(xs), min(ys), max(xs), max(ys)]


def content(example: Example | None) -> str:
    """What two equal rows have in common; names and places do not count."""
    assert example is not None, "the row is not kept"
    images = [
        (
            i.asset_id,
            i.frame,
            i.stored_xxh3,
            i.pixel_id,
            i.media_type,
            i.width,
            i.height,
            i.ocr_labels,
            i.reading_order,
            i.layout,
        )
        for i in example.images
    ]
    return repr((example.segments, images, example.relations, example.metadata))


def _texts(rows: Stored) -> list[str]:
    return [example.text for example in rows.examples]


def _images(rows: Stored) -> list[Image]:
    return [image for example in rows.examples for image in example.images]


def _nan(rows: Stored, _: str) -> object:
    # Strings are taken out first: the word NaN in a text is no number.
    documents = [rows.manifest_text, *(e.metadata for e in rows.examples), *map(json.dumps, rows.exclusions)]
    bare = [re.sub(r'"(?:[^"\\]|\\.)*"', '""', text) for text in documents]
    return any(re.search(r"NaN|Infinity", text) for text in bare)


def _utf8(rows: Stored, _: str) -> object:
    for shard in rows.dataset.shards:
        with pa.memory_map(str(shard.path)) as file:
            table = pa.ipc.open_file(file).read_all()
        try:
            table.validate(full=True)
        except pa.ArrowInvalid as error:
            return str(error)
    return None


def _size(rows: Stored, _: str) -> object:
    for image in _images(rows):
        if decode_rgb(image.data, frame=image.frame).size != (image.width, image.height):
            return f"{image.path} is not {image.width} x {image.height}"
    return None


def _box_outside(rows: Stored, _: str) -> object:
    for image in _images(rows):
        for item in image.layout or ():
            xs, ys = item.polygon[0::2], item.polygon[1::2]
            if xs and (min(xs) < 0 or min(ys) < 0 or max(xs) > image.width or max(ys) > image.height):
                return str(item.polygon)
    return None


def _tail(rows: Stored, _: str) -> object:
    return next((image.path for image in _images(rows) if _end(image.data) != len(image.data)), None)


def _end(data: bytes) -> int:
    """Where the picture ends by its own structure; the whole length for kinds that are not looked into."""
    if data.startswith(b"\x89PNG"):
        at = 8
        while at + 8 <= len(data):
            kind, at = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
            if kind == b"IEND":
                break
        return at
    if data.startswith(b"\xff\xd8"):
        return _jpeg_end(data)
    if data[:4] == b"RIFF":
        size = int.from_bytes(data[4:8], "little")
        return 8 + size + size % 2
    return len(data)


def _jpeg_end(data: bytes) -> int:
    at = 2
    while at + 4 <= len(data):
        marker = data[at + 1]
        if marker == 0xD9:
            return at + 2
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xDA:
            # Entropy-coded data: an 0xff is followed by 0 or by a restart mark; anything else is the next segment.
            while at + 1 < len(data) and not (data[at] == 0xFF and data[at + 1] not in (0, *range(0xD0, 0xD8))):
                at += 1
    return len(data)


def _exif(rows: Stored, _: str) -> object:
    for image in _images(rows):
        exif = Pillow.open(io.BytesIO(image.data)).getexif()
        if set(exif) - {ORIENTATION} or exif.get_ifd(0x8769) or exif.get_ifd(0x8825):
            return f"{image.path}: {sorted(exif)}"
    return None


def _icc(rows: Stored, value: str) -> object:
    example = rows.find(value)
    return example is not None and not Pillow.open(io.BytesIO(example.images[0].data)).info.get("icc_profile")


def _leak(rows: Stored, value: str) -> object:
    seen: dict[str, set[str]] = {}
    for example, place in zip(rows.examples, rows.places, strict=True):
        if value == "asset":
            values = [image.asset_id for image in example.images]
        else:
            one = json.loads(example.metadata).get(value)
            values = [one] if isinstance(one, str) and one.strip() else []
        for one in values:
            seen.setdefault(one, set()).add(place["split"])
    return ", ".join(f"{one} in {sorted(splits)}" for one, splits in seen.items() if len(splits) > 1)


def _far_removed(rows: Stored, value: str) -> object:
    parent = stored(next(iter(rows.dataset.shards)).holder.path) if rows.dataset.shards else None
    kept = [_shingles(text) for text in _texts(rows)]
    for example in parent.examples if parent is not None else ():
        mine = _shingles(example.text)
        if all(len(mine & other) < float(value) * len(mine | other) for other in kept):
            return example.text[:60]
    return None


def _shingles(text: str) -> set[str]:
    words = text.split()
    return {" ".join(words[k : k + 5]) for k in range(max(1, len(words) - 4))}


OF_ROWS: dict[str, Callable[[Stored, str], object]] = {
    "mojibake": lambda rows, value: any(value in text for text in _texts(rows)),
    "in-text": lambda rows, value: any(value in text for text in _texts(rows)),
    "in-output": lambda rows, value: holds(rows.path, value.encode()),
    "nan": _nan,
    "utf8": _utf8,
    "size": _size,
    "no-picture": lambda rows, _: any(not e.images or not all(i.data for i in e.images) for e in rows.examples),
    "box-outside": _box_outside,
    "tail": _tail,
    "exif": _exif,
    "icc": _icc,
    "leak": _leak,
    "group-named": lambda rows, value: any(example.group == value for example in rows.examples),
    "far-removed": _far_removed,
}

OF_PROCEDURES = frozenset(
    [
        "altered-row",
        "lost-row",
        "duplicate-row",
        "order",
        "differs",
        "slots",
        "control-id",
        "supervised-user",
        "supervised-none",
        "manifest-lies",
        "verify-blind",
        "orphans",
        "restart",
        "mixed",
    ]
)
"""Looked at by the procedures, not by command lines."""
