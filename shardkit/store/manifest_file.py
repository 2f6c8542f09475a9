"""manifest.json as it lies in a dataset: read, and compared with the id that it states."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from shardkit.errors import IntegrityError
from shardkit.records.manifest import SCHEMA_VERSION, Manifest

MANIFEST = "manifest.json"
_ID = re.compile(r"[0-9a-f]{64}")


def parse_manifest(data: bytes, where: str, *, check_id: bool) -> tuple[Manifest, str]:
    """The manifest in `data`, the bytes of a manifest.json, and the dataset id that it states.

    Args:
        where: what messages call it.
        check_id: compare the id with the content.

    Raises:
        IntegrityError: where it is damaged, changed after the commit, or of a newer format.
    """
    body = _parse(data, where)
    manifest = _manifest(body, where)
    stated = body.get("dataset_id")
    if check_id and (stated != manifest.dataset_id or manifest.to_json() != data):
        raise IntegrityError(
            f"the manifest gives the dataset id {manifest.dataset_id}, but says {stated}; it was changed after the commit"
            if stated != manifest.dataset_id
            else "the manifest was changed after the commit",
            where=where,
            hint="restore the file, or build the dataset again from its inputs",
        )
    return manifest, str(stated)


def id_of(place: Path) -> str | None:
    """The dataset id that a folder's manifest states; None where there is no readable one."""
    try:
        stated = orjson.loads((place / MANIFEST).read_bytes()).get("dataset_id")
    except (OSError, ValueError, AttributeError):
        return None
    return stated if isinstance(stated, str) else None


def is_dataset(place: Path) -> bool:
    """Whether a dataset was committed in this folder, be it of a newer version or damaged elsewhere.

    Other programs have a manifest.json, too.
    """
    return _ID.fullmatch(id_of(place) or "") is not None


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        body = orjson.loads(data)
    except ValueError as error:
        raise IntegrityError(
            f"the manifest is no JSON ({error})", where=where, hint="restore the file, or build the dataset again"
        ) from error
    if not isinstance(body, dict):
        raise IntegrityError(
            "the manifest is no JSON object", where=where, hint="restore the file, or build the dataset again"
        )
    return body


def _manifest(body: dict[str, Any], where: str) -> Manifest:
    version = body.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise IntegrityError(
            f"the dataset has schema version {version}, this shardkit reads up to {SCHEMA_VERSION}",
            where=where,
            hint="use a newer shardkit",
        )
    try:
        return Manifest.from_json(body)
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(
            f"the manifest has not the form of one ({error})",
            where=where,
            hint="restore the file, or build the dataset again",
        ) from error
