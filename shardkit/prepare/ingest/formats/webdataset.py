"""webdataset: samples of captions; and samples whose .json is a row, as `shardkit export` writes them.

KEY.jpg | KEY.0.jpg KEY.1.png ...     the pictures
KEY.json                              {"text": "<image> ...", "images": [names of these members], "_shardkit": {...}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES, RARE_SUFFIXES, suffix
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats import caption, rows
from shardkit.prepare.ingest.formats.exported import OWN
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record
from shardkit.store.tar_walk import Member


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of a sample.

    Raises:
        Bad: with the reason.
    """
    changes: Counter[str] = Counter(record.changes)
    row = _row(record.value, changes)
    if row is None:
        yield from caption.drafts(record, config, reader)
    else:
        value = row if OWN in row else {**record.beside, **row}
        yield from rows.drafts(replace(record, value=value, changes=changes), config, reader)


def _row(members: list[Member], changes: Counter[str]) -> dict[str, Any] | None:
    """The row of a sample, its pictures in `images`; None where it is a picture with what is said of it.

    A row is what has `_shardkit`, or a text with marks for several pictures.
    """
    known = IMAGE_SUFFIXES | RARE_SUFFIXES
    pictures = {member.name.rpartition("/")[2]: member for member in members if suffix(member.name) in known}
    told = next((member for member in members if suffix(member.name) == "json"), None)
    if told is None or told.data is None:
        return None
    try:
        parsed = parse(told.data.removeprefix(b"\xef\xbb\xbf"))
    except Bad:
        return None  # said where it is read as a caption
    fields = parsed.value
    if not isinstance(fields, dict) or not (
        OWN in fields or (len(pictures) > 1 and isinstance(fields.get("text"), str))
    ):
        return None
    changes.update(parsed.changes)
    names = fields.get("images")
    if names is None:
        names = sorted(pictures, key=_number)
    elif not isinstance(names, list):
        names = [names]
    return {**fields, "images": [_picture(name, pictures) for name in names]}


def _picture(name: Any, pictures: dict[str, Member]) -> dict[str, Any]:
    member = pictures.get(name) if isinstance(name, str) else None
    if member is None:
        raise Bad("asset_missing", f"the sample has no picture {plain(str(name), 80)}")
    return {"bytes": member.data, "path": name}


def _number(name: str) -> tuple[int, str]:
    """KEY.2.jpg before KEY.10.jpg."""
    number = name.rpartition(".")[0].rpartition(".")[2]
    return (int(number) if number.isdigit() else -1, name)
