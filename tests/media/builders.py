"""Small pictures in every format, and the pieces of containers that are put around them."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image

from shardkit.media.decode import decode
from shardkit.media.limits import MediaLimits

SECRET = b"SN-0000-1111 Person Example"


def picture(width=24, height=16, seed=0):
    """An RGB picture without two equal corners: a slope with a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    slope = np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) * 7 % 256], axis=-1)
    return Image.fromarray((slope * 0.9 + rng.integers(0, 24, slope.shape)).astype(np.uint8))


def encode(image, fmt, **options):
    out = io.BytesIO()
    image.save(out, fmt, **options)
    return out.getvalue()


def opened(data):
    """What Pillow alone makes of `data`."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def same(image, other):
    return image.size == other.size and image.mode == other.mode and image.tobytes() == other.tobytes()


def changes(data):
    """What canonical decoding of `data` changes, by name."""
    return decode(data, frame=0, limits=MediaLimits()).changes


def exif(orientation=None, maker=SECRET):
    """An EXIF block with a maker's name, and an orientation where one is given."""
    entries = [(0x010F, 2, len(maker) + 1, maker + b"\0")]
    if orientation is not None:
        entries.append((0x0112, 3, 1, struct.pack("<HH", orientation, 0)))
    spill_at = 8 + 2 + 12 * len(entries) + 4
    table, spill = b"", b""
    for tag, kind, count, value in entries:
        inline = len(value) <= 4
        table += struct.pack("<HHI", tag, kind, count) + (value if inline else struct.pack("<I", spill_at + len(spill)))
        spill += b"" if inline else value
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(entries)) + table + b"\0\0\0\0" + spill


def xmp(orientation=None):
    turn = f' tiff:Orientation="{orientation}"' if orientation else ""
    return f"<x:xmpmeta{turn}>".encode() + SECRET + b"</x:xmpmeta>"


def jpeg_segment(code, body):
    return bytes([0xFF, code]) + struct.pack(">H", len(body) + 2) + body


def with_segments(jpeg, *segments):
    """`jpeg` with segments behind its JFIF segment."""
    at = 2 + 2 + int.from_bytes(jpeg[4:6], "big") if jpeg[2:4] == b"\xff\xe0" else 2
    return jpeg[:at] + b"".join(segments) + jpeg[at:]


def png_chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def with_chunks(png, *chunks):
    """`png` with chunks behind IHDR."""
    return png[:33] + b"".join(chunks) + png[33:]


def raw_png(width, height, depth, colour, rows, *chunks):
    """A PNG from rows of packed samples, with chunks before its data."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = [png_chunk(b"IHDR", header), *chunks, png_chunk(b"IDAT", data), png_chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def riff_chunk(name, body):
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def with_riff_chunks(webp, *chunks):
    """`webp` with chunks at its end; the size in the header follows."""
    body = webp[8:] + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif_extension(label, *blocks):
    return bytes([0x21, label]) + b"".join(bytes([len(block)]) + block for block in blocks) + b"\0"


def split_gif(gif):
    """Screen and colour table; all that follows, without the trailer."""
    at = 13 + (3 << (gif[10] & 7) + 1 if gif[10] & 0x80 else 0)
    return gif[:at], gif[at:-1]


def with_extensions(gif, *extensions):
    """`gif` with extensions between its screen and its first frame."""
    screen, frames = split_gif(gif)
    return screen + b"".join(extensions) + frames + b";"


def swapped_profile(space=b"RGB "):
    """A small ICC profile whose red and green primaries have changed places: stored red means green."""

    def xyz(*values):
        return b"XYZ \0\0\0\0" + struct.pack(">iii", *(round(value * 65536) for value in values))

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, 0x0233) + b"\0\0"
    tags = [
        (b"wtpt", xyz(0.9642, 1.0, 0.8249)),
        (b"rXYZ", xyz(0.3851, 0.7169, 0.0971)),
        (b"gXYZ", xyz(0.4360, 0.2225, 0.0139)),
        (b"bXYZ", xyz(0.1431, 0.0606, 0.7141)),
        *((name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")),
    ]
    table, data, at = b"", b"", 128 + 4 + 12 * len(tags)
    for name, body in tags:
        table += name + struct.pack(">II", at + len(data), len(body))
        data += body
    size = 128 + 4 + len(table) + len(data)
    head = struct.pack(">I4sI4s4s4s", size, b"none", 0x02100000, b"mntr", space, b"XYZ ")
    head += struct.pack(">6H", 2001, 1, 1, 0, 0, 0) + b"acsp" + b"none" + b"\0" * 4
    head = head.ljust(68, b"\0") + struct.pack(">iii", *(round(value * 65536) for value in (0.9642, 1.0, 0.8249)))
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + data
