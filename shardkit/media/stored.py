"""What lies in a shard for a picture, and the one rule for all who read it.

**Stored bytes hold the picture of their row as their first picture.** Whoever decodes them decodes frame 0. `frame` is a
part of the name of an image, (asset_id, frame), and is no place in the stored bytes.

    a file of one picture       stripped (`shardkit.media.strip`)
    an animation                stripped, with all its frames; the row is of the first one
    a TIFF of several pages     the page as a TIFF of its own, so that pages share no bytes and a long file is stored once

With `keep_metadata` bytes stay as they came. A page behind the first one keeps all its tags then, and is still stored
alone: the file as it came lies with its first page.

Every page is decoded again from what would be stored. Where that gives other pixels, or the page is too strange to be cut,
the whole file is stored, its header leading to the page (`page_not_cut`). What is stored of the pages of one file, taken
together, has a limit of `_MOST_COPIES` times the limit on its bytes: pages that share their pixels must not grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shardkit.media.decode import ANYTHING, Picture, decode
from shardkit.media.formats import TIFF
from shardkit.media.limits import MediaLimits
from shardkit.media.pixels import pixel_id
from shardkit.media.reasons import BadMedia
from shardkit.media.strip import Stripped, strip
from shardkit.media.strip.tiff_page import StrangePageError, cut_page, open_at, page_places

_MOST_COPIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    stripped: Stripped
    changes: tuple[str, ...] = ()
    """`metadata_left`, `page_not_cut`: see `Media.changes`."""


class Pages:
    """What is stored of the pictures of one file."""

    def __init__(self, data: bytes | memoryview, limits: MediaLimits, *, keep_metadata: bool) -> None:
        self._data = data
        self._most_bytes = _MOST_COPIES * limits.max_bytes
        self._keep_metadata = keep_metadata
        self._places: tuple[int, ...] | None = None
        self._num_bytes = 0

    def stored(self, picture: Picture, frame: int) -> Stored:
        """What is stored of `picture`, decoded from frame `frame` of the file.

        Raises:
            BadMedia: for a frame of an animation behind the first, and where the page cannot be stored.
        """
        stored = self._form_of(picture, frame)
        self._num_bytes += len(stored.stripped.data)
        if frame and self._num_bytes > self._most_bytes:
            raise BadMedia("too_many_bytes", f"what is stored of the pages grows over {self._most_bytes} bytes")
        return stored if stored.stripped.is_sure else replace(stored, changes=(*stored.changes, "metadata_left"))

    def _form_of(self, picture: Picture, frame: int) -> Stored:
        if frame == 0 and self._keep_metadata:
            return Stored(stripped=Stripped(data=bytes(self._data), removed={}))
        if picture.kind is TIFF and picture.num_frames > 1:
            return self._page(picture, frame)
        if frame:
            raise BadMedia("no_such_frame", f"frame {frame} of an animation, of which the first one is stored")
        return Stored(stripped=strip(picture.kind, self._data, picture.orientation))

    def _page(self, picture: Picture, frame: int) -> Stored:
        if self._places is None:
            self._places = tuple(page_places(self._data))
        if frame >= len(self._places):
            raise BadMedia("corrupt", f"the directory of page {frame + 1} is not found")
        place = self._places[frame]
        try:
            page = cut_page(self._data, place, keep_metadata=self._keep_metadata)
        except StrangePageError:
            page = None
        if page is not None and _shows(page.data, picture):
            return Stored(stripped=page)
        whole = open_at(self._data, place) if frame else bytes(self._data)
        stripped = Stripped(data=whole, removed={}) if self._keep_metadata else strip(TIFF, whole, picture.orientation)
        if frame:
            # What lies before the page is still in the file, and no directory leads to it now.
            stripped = replace(stripped, removed={**stripped.removed, "second_picture": 0}, is_sure=False)
            if not _shows(stripped.data, picture):
                raise BadMedia("corrupt", f"page {frame + 1} cannot be read without the pages before it")
        return Stored(stripped=stripped, changes=("page_not_cut",))


def _shows(data: bytes, picture: Picture) -> bool:
    """Whether the first picture of `data` is `picture`."""
    try:
        found = decode(data, frame=0, limits=ANYTHING)
    except BadMedia:
        return False
    return pixel_id(found.image) == pixel_id(picture.image) and found.orientation == picture.orientation
