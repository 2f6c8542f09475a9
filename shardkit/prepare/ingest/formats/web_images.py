"""Where the pictures of a page lie: relative to the page, to the root, or at an address that a map knows."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from urllib.parse import unquote, urljoin, urlsplit

from shardkit.prepare.ingest.draft import ImageRef, base_name
from shardkit.prepare.ingest.formats.web_text import Picture
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.roots import is_address


def image_of(picture: Picture, *, folder: str, base: str, reader: Reader) -> ImageRef:
    """The image that a page in `folder` (relative to the input root) names: the first of its addresses that is there.

    A path is looked for below the page's folder, then below the roots of --images, and as it stands before its escapes
    are decoded and its query is cut off. It never leads out of the roots. Of addresses behind the first one only those
    count that a map knows.
    """
    told: dict[str, tuple[str, str | None]] = {}
    for stated in (picture.src, *picture.others):
        address = _joined(base, stated) if base and not is_address(stated) else stated
        if address.startswith("data:"):
            continue
        if is_address(address):
            full = f"https:{address}" if address.startswith("//") else address
            for place in (full, _bare(full)):
                # Looking for digests of all sizes that a page offers would take longer than reading it.
                if stated == picture.src or reader.is_mapped(place):
                    told.setdefault(place, (full, base_name(full)))
        else:
            for place in _places(address, folder):
                told.setdefault(place, (stated, base_name(place)))
    found = reader.first_there(list(told), "")
    if found is None and (picture.src.startswith("data:") or not told):
        return ImageRef(path=picture.src, name=None)
    path = next(iter(told)) if found is None else found
    origin, name = told[path]
    return ImageRef(path=path, name=name, origin=origin)


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address


def _bare(address: str) -> str:
    """The address without its fragment."""
    return address.split("#", 1)[0]


def _places(src: str, folder: str) -> Sequence[str]:
    """Paths relative to a root that `src` may mean, the likeliest first."""
    try:
        path = urlsplit(src).path
    except ValueError:
        path = src
    spellings = dict.fromkeys((src, unquote(src), path, unquote(path)))
    found: dict[str, None] = {}
    for text in spellings:
        if text.startswith("/"):
            found[text.lstrip("/")] = None
        elif text:
            found[posixpath.normpath(posixpath.join(folder, text))] = None
    found.update(dict.fromkeys(posixpath.normpath(text) for text in spellings if text and not text.startswith("/")))
    return list(found) or [src]
