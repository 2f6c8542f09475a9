"""The gate to Pillow: its warnings stay inside, what it raises comes out as BadMedia, and sizes are judged before pixels."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import io
import logging
import os
import struct
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageFile, features

from shardkit.errors import ConfigError
from shardkit.media.formats import HEIF, JPEG, WEBP, Format, sniff
from shardkit.media.limits import PILLOW_MAX_PIXELS, MediaLimits
from shardkit.media.reasons import BadMedia

# Pillow reports a few broken files through logging; with no handler of the application's they would go to stderr.
logging.getLogger("PIL").addHandler(logging.NullHandler())

_RAISED = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
    EOFError,
    MemoryError,
    struct.error,
    zlib.error,
)
"""What Pillow's parsers have been seen to raise over hostile files. A MemoryError under the pixel limit is a file's doing."""

_CODECS = {"WEBP": "webp", "AVIF": "avif", "JPEG2000": "jpg_2000", "JPEG": "jpg", "PNG": "zlib"}


@contextmanager
def opened(data: bytes | memoryview, limits: MediaLimits) -> Iterator[tuple[Format, ImageFile.ImageFile]]:
    """The format and the opened picture: header read, size within `limits`, no pixel decoded yet."""
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ConfigError(
            "Pillow is told to fill up truncated pictures, so none could be found",
            hint="set PIL.ImageFile.LOAD_TRUNCATED_IMAGES to False in this process",
        )
    limits.check_bytes(len(data))
    kind = sniff(data)
    if not _has_decoder(kind):
        raise BadMedia("unsupported_format", f"{_spoken(kind)}, no decoder installed")
    if kind is WEBP:
        _check_webp(data, limits)
    with reading(kind, "header"):
        image = Image.open(io.BytesIO(data), formats=[kind.name])
    with _QUIET, image:  # held until the picture is closed: coming and going costs more than the header
        limits.check_size(*image.size)
        yield kind, image


@contextmanager
def reading(kind: Format, part: str) -> Iterator[None]:
    """Around a call into Pillow that reads `part` of the file. Details are our own words: Pillow's change with its version."""
    with _QUIET:
        try:
            yield
        except Image.DecompressionBombError as error:
            claim = f"the {_spoken(kind)} {part} claims more than {PILLOW_MAX_PIXELS} pixels"
            raise BadMedia("too_many_pixels", f"{claim}, the most that the limit max_pixels can be") from error
        except _RAISED as error:
            if isinstance(error, EOFError) or "truncated" in str(error).lower():
                raise BadMedia("truncated", f"the {_spoken(kind)} data ends before the picture does") from error
            raise BadMedia(
                "corrupt", f"the {_spoken(kind)} {part} cannot be read: damaged, or a rare variant"
            ) from error


def count_frames(kind: Format, image: ImageFile.ImageFile) -> int:
    """Frames or pages of the file, up to one whose header cannot be read. Second pictures of a JPEG are no frames."""
    if kind is JPEG:
        return 1
    try:
        with reading(kind, "frame"):
            return int(getattr(image, "n_frames", 1))
    except BadMedia:
        return image.tell() + 1


class _Quiet:
    """No warning of Pillow and no message of libtiff passes while any thread is inside; the filters and the handler of the
    process come back with the last one out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_inside = 0
        self._saved = warnings.catch_warnings()
        self._handler: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._num_inside == 0:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
                self._handler = _handle_tiff_errors(None)
            self._num_inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._num_inside -= 1
            if self._num_inside == 0:
                self._saved.__exit__(None, None, None)
                _handle_tiff_errors(self._handler)


def _handle_tiff_errors(handler: int | None) -> int | None:
    """Have libtiff call `handler` over a damaged file, None for nothing: it writes to stderr by itself, and Pillow raises
    all the same. Returns the handler before; None where the library cannot be reached, and its messages stay."""
    call = _tiff_error_handler()
    return None if call is None else call(handler)


@functools.cache
def _tiff_error_handler() -> Callable[[int | None], int | None] | None:
    """TIFFSetErrorHandler of the libtiff that this process has from Pillow; it is never loaded for this."""
    folder = Path(Image.__file__).parent
    bundled = sorted([*(folder.parent / "pillow.libs").glob("libtiff*"), *(folder / ".dylibs").glob("libtiff*")])
    for name in (*map(str, bundled), "libtiff.so.6", "libtiff.so.5"):
        with contextlib.suppress(OSError, AttributeError):
            call = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY).TIFFSetErrorHandler
            call.argtypes, call.restype = [ctypes.c_void_p], ctypes.c_void_p
            found: Callable[[int | None], int | None] = call
            return found
    return None


_QUIET = _Quiet()


@functools.cache
def _has_decoder(kind: Format) -> bool:
    if kind is HEIF:
        if find_spec("pillow_heif") is None:
            return False
        importlib.import_module("pillow_heif").register_heif_opener()
        return True
    with _QUIET:
        return _CODECS.get(kind.name) in (None, *features.get_supported())


def _spoken(kind: Format) -> str:
    return "HEIC" if kind is HEIF else kind.name


def _check_webp(data: bytes | memoryview, limits: MediaLimits) -> None:
    """libwebp's decoder asks for the canvas when it is made, before Pillow tells us a size: so the size is read here."""
    head = bytes(data[:30]).ljust(30, b"\0")
    if int.from_bytes(head[4:8], "little") + 8 > len(data):
        raise BadMedia("truncated", "the WEBP data ends before the picture does")
    if head[12:16] == b"VP8X":
        width, height = int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    elif head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (max(1, int.from_bytes(head[at : at + 2], "little") & 0x3FFF) for at in (26, 28))
    limits.check_size(width, height)
