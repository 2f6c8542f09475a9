"""Which directories of a TIFF are pages, and how many, from the directories alone."""

from __future__ import annotations

import mmap
from itertools import islice

from shardkit.media.strip.tiff_page import is_of_another, page_places

_MOST = 10_000


def page_frames(data: bytes | mmap.mmap, num_said: int | None = None) -> list[int]:
    """Places in the chain of the directories that are pages: all but previews, levels of pyramids and masks. The first
    for what is no TIFF or breaks off, which the decoder will judge.

    Args:
        num_said: how many pages a label has. Where that is all directories, all of them are pages.
    """
    if len(data) < 16 or bytes(data[:4]) not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return [0]
    places = list(islice(page_places(data), _MOST)) or [0]
    everything = list(range(len(places)))
    if num_said == len(places):
        return everything
    return [k for k, place in enumerate(places) if not is_of_another(data, place)] or everything


def tiff_pages(data: bytes | mmap.mmap) -> int:
    """The number of pages, at least 1."""
    return len(page_frames(data))
