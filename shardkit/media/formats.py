"""What the first bytes of a file say it is. The name and extension it came with decide nothing.

Only formats of `FORMATS` are ever handed to a decoder. Everything else is refused by name (`OTHERS`), so that an
exclusion says what the file really is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shardkit.media.reasons import BadMedia


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    name: str
    """The decoder's name for it."""
    media_type: str
    extension: str


JPEG = Format(name="JPEG", media_type="image/jpeg", extension=".jpg")
PNG = Format(name="PNG", media_type="image/png", extension=".png")
GIF = Format(name="GIF", media_type="image/gif", extension=".gif")
WEBP = Format(name="WEBP", media_type="image/webp", extension=".webp")
BMP = Format(name="BMP", media_type="image/bmp", extension=".bmp")
TIFF = Format(name="TIFF", media_type="image/tiff", extension=".tif")
PNM = Format(name="PPM", media_type="image/x-portable-anymap", extension=".pnm")
JP2 = Format(name="JPEG2000", media_type="image/jp2", extension=".jp2")
J2C = Format(name="JPEG2000", media_type="image/j2c", extension=".j2c")
AVIF = Format(name="AVIF", media_type="image/avif", extension=".avif")
HEIF = Format(name="HEIF", media_type="image/heic", extension=".heic")

EXTENSIONS = {kind.media_type: kind.extension for kind in (JPEG, PNG, GIF, WEBP, BMP, TIFF, PNM, JP2, J2C, AVIF, HEIF)}
"""Media type -> the extension of a file of it, with the dot."""

FORMATS: tuple[tuple[bytes, Format], ...] = (
    (rb"\xff\xd8\xff", JPEG),
    (rb"\x89PNG\r\n\x1a\n....IHDR", PNG),
    (rb"GIF8[79]a", GIF),
    (rb"RIFF....WEBP", WEBP),
    (rb"BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\x00\x00\x00", BMP),
    (rb"II[*+]\x00|MM\x00[*+]", TIFF),
    (rb"P[1-6]\s", PNM),
    (rb"\x00\x00\x00\x0cjP  \r\n\x87\n", JP2),
    (rb"\xff\x4f\xff\x51", J2C),
)
"""Pattern at the start of the file -> format that is taken."""

OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (rb"\x89PNG\r\n\x1a\n....CgBI", "unsupported_format", "a PNG in Apple's private form"),
    (rb"\x89PNG\r\n\x1a\n", "corrupt", "a PNG that does not begin with its header"),
    (rb"8BPS", "unsupported_format", "PSD"),
    (rb"BM.{4}\x00\x00\x00\x00", "unsupported_format", "a BMP whose header has an unknown size"),
    (rb"\x00\x00\x01\x00", "unsupported_format", "ICO"),
    (rb"\x00\x00\x02\x00[^\x00]", "unsupported_format", "CUR"),
    (rb"\xd7\xcd\xc6\x9a|\x01\x00\x09\x00\x00", "unsupported_format", "WMF"),
    (rb"\x01\x00\x00\x00.{36} EMF", "unsupported_format", "EMF"),
    (rb"\x00\x00\x00\x0cJXL \r\n|\xff\x0a", "unsupported_format", "JPEG XL"),
    (rb"II\xbc[\x00\x01]", "unsupported_format", "JPEG XR"),
    (rb"%!PS|\xc5\xd0\xd3\xc6", "unsupported_format", "EPS"),
    (rb"%PDF", "unsupported_format", "PDF"),
    (rb"AT&TFORM", "unsupported_format", "DjVu"),
    (rb"DDS ", "unsupported_format", "DDS"),
    (rb"qoif", "unsupported_format", "QOI"),
    (rb"\x0a[\x00-\x05][\x00\x01][\x01\x02\x04\x08]", "unsupported_format", "PCX"),
    (rb"\xb1\x68\xde\x3a", "unsupported_format", "DCX"),
    (rb"\x01\xda[\x00\x01][\x01\x02]", "unsupported_format", "SGI"),
    (rb"\x59\xa6\x6a\x95", "unsupported_format", "Sun raster"),
    (rb"icns", "unsupported_format", "ICNS"),
    (rb"BLP[12]", "unsupported_format", "BLP"),
    (rb"FTC\x00|FTU\x00", "unsupported_format", "FTEX"),
    (rb"DanM|LinS", "unsupported_format", "MSP"),
    (rb"....[\x11\x12]\xaf", "unsupported_format", "FLI"),
    (rb"\x00\x00\x00[\x14-\xff]\x00\x00\x00[\x01\x02]", "unsupported_format", "GIMP brush"),
    (rb"\x80\xe8\x00\x00", "unsupported_format", "PIXAR"),
    (rb"Image type:|Name: |Lut: ", "unsupported_format", "IFUNC image"),
    (rb"P7[ \r\n]", "unsupported_format", "PAM"),
    (rb"P[Ff0y]", "unsupported_format", "PNM of floats, CMYK or alpha"),
    (rb"gimp xcf", "unsupported_format", "XCF"),
    (rb"v/1\x01", "unsupported_format", "OpenEXR"),
    (rb"#\?RADIANCE|#\?RGBE", "unsupported_format", "Radiance"),
    (rb"SIMPLE  =", "unsupported_format", "FITS"),
    (rb"\x89HDF\r\n\x1a\n", "unsupported_format", "HDF5"),
    (rb"GRIB", "unsupported_format", "GRIB"),
    (rb"BUFR", "unsupported_format", "BUFR"),
    (rb".{128}DICM", "unsupported_format", "DICOM"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "unsupported_format", "OLE document (FlashPix, MIC, Office)"),
    (rb"\x00\x00\x01[\xb3\xba]", "unsupported_format", "MPEG"),
    (rb"\x1aE\xdf\xa3", "unsupported_format", "Matroska or WebM video"),
    (rb"RIFF....AVI ", "unsupported_format", "AVI"),
    (rb"....ftyp(mif1|msf1)", "unsupported_format", "HEIF of an unknown coding"),
    (rb"....ftyp|....moov", "unsupported_format", "MP4 or QuickTime video"),
    (rb"\s*/\* XPM", "unsupported_format", "XPM"),
    (rb"\s*#define\s+\S+_width\s", "unsupported_format", "XBM"),
    (rb"PK\x03\x04", "not_an_image", "a ZIP archive"),
    (rb"\x1f\x8b", "not_an_image", "a gzip file"),
    (rb"Rar!|7z\xbc\xaf|\xfd7zXZ|BZh|\x28\xb5\x2f\xfd", "not_an_image", "an archive"),
    (rb"version https://git-lfs", "not_an_image", "a Git LFS pointer; the picture itself was not fetched"),
)
"""Pattern at the start -> reason and name of what is refused."""

_TEXTS: tuple[tuple[bytes, str, str], ...] = (
    (rb"<!doctype\s+html|<html|<head|<body|<script", "not_an_image", "HTML, a web page"),
    (rb"<svg|<!doctype\s+svg|<\?xml.*<svg", "unsupported_format", "SVG, a vector drawing"),
    (rb"<\?xml", "not_an_image", "XML"),
    (rb"[\[{]", "not_an_image", "JSON"),
)
"""As `OTHERS`, in any case and behind white space and a byte order mark."""

_BRANDS: dict[bytes, Format] = {
    **dict.fromkeys((b"avif", b"avis"), AVIF),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), HEIF),
}
"""Brand of an ISO media file -> format. The file's own brand stands before the list of those it is compatible with."""

_HEAD = 1024
_TARGA_TYPES = (1, 2, 3, 9, 10, 11)
_TARGA_DEPTHS = (8, 15, 16, 24, 32)


def sniff(data: bytes | memoryview) -> Format:
    """The format of `data`, of those that are taken.

    Raises:
        BadMedia: `not_an_image` or `unsupported_format`, with what the bytes look like.
    """
    head = bytes(data[:_HEAD])
    for pattern, known in FORMATS:
        if re.match(pattern, head, re.DOTALL):
            return known
    if head[4:8] == b"ftyp":
        brands = head[8 : min(int.from_bytes(head[:4], "big"), _HEAD)]
        for at in range(0, len(brands), 4):
            if brands[at : at + 4] in _BRANDS:
                return _BRANDS[brands[at : at + 4]]
    for pattern, reason, name in OTHERS:
        if re.match(pattern, head, re.DOTALL):
            raise BadMedia(reason, f"the bytes are {name}")
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for pattern, reason, name in _TEXTS:
        if re.match(pattern, text, re.DOTALL):
            raise BadMedia(reason, f"the bytes are {name}")
    if _is_targa(head, bytes(data[-18:])):
        raise BadMedia("unsupported_format", "the bytes are TGA")
    raise BadMedia("not_an_image", "unknown: the bytes begin like no format of pictures")


def _is_targa(head: bytes, end: bytes) -> bool:
    """Whether this is a TGA file: the footer of its second version, or a header that fits the first one (it has no mark)."""
    if end == b"TRUEVISION-XFILE.\x00":
        return True
    if len(head) < 18 or head[1] > 1:
        return False
    return head[2] in _TARGA_TYPES and head[16] in _TARGA_DEPTHS and any(head[12:16])
