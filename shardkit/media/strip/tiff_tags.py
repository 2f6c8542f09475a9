"""What the tags of a TIFF are: metadata, places in the file, directories of their own."""

from __future__ import annotations

_TEXTS = (269, 270, 271, 272, 285, 305, 306, 315, 316)
"""DocumentName, ImageDescription, Make, Model, PageName, Software, DateTime, Artist, HostComputer."""
_FIRST_EXTENSION = 700
"""From here on tags are extensions, of which two belong to the picture: the ICC profile and the parameters of LERC."""
_KEPT_EXTENSIONS = (34675, 50674)
_NAMES = {700: "xmp", 33723: "iptc", 34377: "iptc", 34665: "exif", 34853: "exif", 40965: "exif"}

WIDTH, HEIGHT, BITS, COMPRESSION, ROWS_PER_STRIP, TILE_WIDTH, TILE_HEIGHT = 256, 257, 258, 259, 278, 322, 323
XMP, ORIENTATION, SUB_DIRECTORIES = 700, 274, 330
POINTERS = (34665, 34853, 40965)
"""EXIF, GPS and interoperability directories: metadata from end to end."""
PLACES = {273: 279, 324: 325, 513: 514}
"""Tag that holds places -> tag that holds their byte counts: strips, tiles, an old JPEG stream."""
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""Type of a value -> bytes of one."""
INTEGERS = {1: "B", 3: "H", 4: "I", 13: "I"}


def is_metadata(tag: int, value: bytes | memoryview, *, orientation_told: bool) -> bool:
    """Whether the strip rules take the tag out.

    Args:
        value: its bytes; looked into where it is XMP.
        orientation_told: a tag says which way up the page is. Where none does, its decoder looks into the XMP.
    """
    if tag == XMP and not orientation_told:
        return b"tiff:Orientation" not in bytes(value)
    return tag in _TEXTS or (tag >= _FIRST_EXTENSION and tag not in _KEPT_EXTENSIONS)


def name_of(tag: int, kind: int) -> str:
    """Under which name a metadata tag of type `kind` is counted."""
    return _NAMES.get(tag, "text" if kind == 2 else "tag")
