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
    """The image that a page in `folder` (relative to the input root) names.

    A path is looked for below the page's folder, then below the roots of --images, and as it stands before its escapes
    are decoded and its query is cut off. It never leads out of the roots.
    """
    address = picture.src
    if address.startswith("data:"):
        return ImageRef(path=address, name=None)
    if base and not is_address(address):
        address = _joined(base, address)
    if is_address(address):
        full = f"https:{address}" if address.startswith("//") else address
        return ImageRef(path=reader.first_of((full, _bare(full)), ""), name=base_name(full), origin=full)
    path = reader.first_of(_places(address, folder), "")
    return ImageRef(path=path, name=base_name(path), origin=picture.src)


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
