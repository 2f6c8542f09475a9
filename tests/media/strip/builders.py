"""One file of each format that holds all that has to go; what is secret in it is SECRET."""

from __future__ import annotations

import io
import struct

from PIL import Image

from tests.media.builders import (
    SECRET,
    encode,
    exif,
    gif_extension,
    jpeg_segment,
    picture,
    png_chunk,
    riff_chunk,
    swapped_profile,
    with_chunks,
    with_extensions,
    with_riff_chunks,
    with_segments,
    xmp,
)

COMMENT = SECRET + b"<script>"


def jpeg(orientation=6, **options):
    plain = encode(picture(), "JPEG", icc_profile=swapped_profile(), **options)
    return (
        with_segments(
            plain,
            jpeg_segment(0xE0, b"JFXX\0\x10" + SECRET),
            jpeg_segment(0xE1, b"Exif\0\0" + exif(orientation)),
            jpeg_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(3)),
            jpeg_segment(0xE1, b"http://ns.adobe.com/xmp/extension/\0" + SECRET),
            jpeg_segment(0xE2, b"FPXR\0" + SECRET),
            jpeg_segment(0xE4, SECRET),
            jpeg_segment(0xED, b"Photoshop 3.0\x008BIM" + SECRET),
            jpeg_segment(0xEE, b"other" + SECRET),
            jpeg_segment(0xFE, COMMENT),
        )
        + SECRET
    )


def png(orientation=6, plain=None):
    plain = plain or encode(picture(), "PNG", icc_profile=swapped_profile(), dpi=(300, 300))
    rich = with_chunks(
        plain,
        png_chunk(b"gAMA", struct.pack(">I", 45455)),
        png_chunk(b"eXIf", exif(orientation)),
        png_chunk(b"tEXt", b"Author\0" + SECRET),
        png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(3)),
        png_chunk(b"tIME", b"\x07\xd1\1\1\0\0\0"),
        png_chunk(b"bKGD", b"\0\0\0\0\0\0"),
        png_chunk(b"prVt", SECRET),
    )
    return rich[:-12] + png_chunk(b"tEXt", b"Late\0" + SECRET) + rich[-12:] + SECRET


def webp(orientation=6, **options):
    plain = encode(picture(), "WEBP", icc_profile=swapped_profile(), exif=exif(orientation), xmp=xmp(3), **options)
    return with_riff_chunks(plain, riff_chunk(b"meta", SECRET)) + SECRET


def gif(plain=None):
    plain = plain or encode(picture().quantize(16), "GIF")
    return (
        with_extensions(
            plain,
            gif_extension(0xFE, COMMENT, SECRET),
            gif_extension(0xFF, b"NETSCAPE2.0", b"\1\0\0"),
            gif_extension(0xFF, b"XMP DataXMP", xmp(3)),
            gif_extension(0xFF, b"ICCRGBG1012", b"profile"),
            gif_extension(0xFF, b"MAKERNOTE10", SECRET),
            gif_extension(0x01, b"\0" * 12, SECRET),
        )
        + SECRET
    )


def tiff():
    tags = Image.Exif()
    tags[0x0112] = 6
    tags[0x010F] = SECRET.decode()
    tags.get_ifd(0x8825)[29] = SECRET.decode()
    tags.get_ifd(0x8769)[0xA431] = SECRET.decode()
    tags.get_ifd(0x8769)[0x927C] = SECRET
    texts = {270: SECRET.decode(), 305: "x", 700: xmp(3), 33723: SECRET, 34377: SECRET, 50000: SECRET}
    for tag, value in texts.items():
        tags[tag] = value
    return encode(picture(), "TIFF", exif=tags.tobytes(), icc_profile=swapped_profile())


def pages():
    """A TIFF of three pages, each with a description."""
    images = [picture(seed=seed) for seed in range(3)]
    return encode(images[0], "TIFF", save_all=True, append_images=images[1:], tiffinfo={270: SECRET.decode()})


def box(name, body):
    return struct.pack(">I", len(body) + 8) + name + body


def jp2():
    plain = encode(picture(), "JPEG2000")
    head = 12 + int.from_bytes(plain[12:16], "big")
    return plain[:head] + box(b"uuid", bytes(16) + SECRET) + box(b"xml ", xmp()) + box(b"Pvt ", SECRET) + plain[head:]


def mpo():
    return encode(picture(), "MPO", save_all=True, append_images=[picture(seed=1)])


def avif():
    return encode(picture(), "AVIF", exif=b"Exif\0\0" + exif(6), xmp=xmp(3))


def ppm():
    data = encode(picture(), "PPM")
    return data[:3] + b"#" + SECRET + b"\n" + data[3:] + SECRET


def big_endian():
    out = io.BytesIO()
    image = Image.frombytes("I;16B", (12, 8), bytes(range(192)))
    image.save(out, "TIFF", tiffinfo={270: SECRET.decode()})
    assert out.getvalue()[:2] == b"MM"
    return out.getvalue()


def plain_tiff(tags, pixels, order="<", link=0):
    """A TIFF of one directory at 8. `tags`: tag -> (type, bytes); the text PIXELS in a value stands for the pixels' place."""
    spill_at = 8 + 2 + 12 * len(tags) + 4
    spilled = [value for _, value in tags.values() if len(value) > 4 and value != b"PIXELS"]
    pixels_at = spill_at + sum(len(value) + len(value) % 2 for value in spilled)
    sizes = {1: 1, 2: 1, 3: 2, 4: 4, 7: 1}
    table, spill = b"", b""
    for tag, (kind, value) in sorted(tags.items()):
        if value == b"PIXELS":
            value = struct.pack(order + "I", pixels_at)
        table += struct.pack(order + "HHI", tag, kind, len(value) // sizes[kind])
        table += value.ljust(4, b"\0") if len(value) <= 4 else struct.pack(order + "I", spill_at + len(spill))
        spill += b"" if len(value) <= 4 else value + b"\0" * (len(value) % 2)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, len(tags))
    return head + table + struct.pack(order + "I", link) + spill + pixels


def grey_tags(width, height):
    """Tags of a raw 8-bit grey picture in one strip."""
    return {
        256: (3, struct.pack("<H", width)),
        257: (3, struct.pack("<H", height)),
        258: (3, struct.pack("<H", 8)),
        259: (3, struct.pack("<H", 1)),
        262: (3, struct.pack("<H", 1)),
        273: (4, b"PIXELS"),
        277: (3, struct.pack("<H", 1)),
        278: (3, struct.pack("<H", height)),
        279: (4, struct.pack("<I", width * height)),
    }


def tiled_tiff():
    tags = grey_tags(32, 32)
    for tag in (273, 278, 279):
        del tags[tag]
    tags[315] = (2, SECRET)
    tags[322] = tags[323] = (3, struct.pack("<H", 16))
    tags[325] = (4, struct.pack("<4I", *[256] * 4))
    at = len(plain_tiff({**tags, 324: (4, bytes(16))}, b""))
    tags[324] = (4, struct.pack("<4I", *(at + 256 * tile for tile in range(4))))
    return plain_tiff(tags, bytes(range(256)) * 4)


RICH = {
    "JPEG": jpeg,
    "JPEG progressive": lambda: jpeg(progressive=True),
    "JPEG CMYK": lambda: encode(picture().convert("CMYK"), "JPEG", comment=COMMENT) + SECRET,
    "MPO": lambda: mpo() + SECRET,
    "PNG": png,
    "APNG": lambda: png(
        plain=encode(picture(), "PNG", save_all=True, append_images=[picture(seed=1), picture(seed=2)], duration=20)
    ),
    "WEBP": webp,
    "WEBP lossless": lambda: webp(lossless=True),
    "WEBP animation": lambda: webp(save_all=True, append_images=[picture(seed=1), picture(seed=2)], lossless=True),
    "GIF": gif,
    "GIF animation": lambda: gif(
        encode(picture().quantize(16), "GIF", save_all=True, append_images=[picture(seed=1).quantize(16)], duration=20)
    ),
    "BMP": lambda: encode(picture(), "BMP") + SECRET,
    "BMP palette": lambda: encode(picture().quantize(200), "BMP") + SECRET,
    "TIFF": tiff,
    "TIFF G4": lambda: encode(picture().convert("1"), "TIFF", compression="group4", tiffinfo={270: SECRET.decode()}),
    "TIFF tiles": tiled_tiff,
    "TIFF big-endian": big_endian,
    "TIFF pages": pages,
    "PPM": ppm,
    "JPEG2000": jp2,
}


def tiff_of(pages, order="<", big=False):
    """A TIFF or BigTIFF of several directories, each behind its pixels.

    Args:
        pages: (tags, pixels) each. `tags`: tag -> (type, values), where a value ("at", k) is the place of byte k of the pixels.
    """
    word, cell = ("Q", 8) if big else ("I", 4)
    head = (b"II" if order == "<" else b"MM") + struct.pack(
        order + ("HHH" if big else "H"), *((43, 8, 0) if big else (42,))
    )
    forms = {1: "B", 2: "B", 3: "H", 4: "I", 7: "B", 16: "Q"}
    out, link_at = bytearray(head + bytes(cell)), len(head)
    for tags, pixels in pages:
        pixels_at = len(out)
        out += pixels + bytes(len(pixels) % 2)
        table = struct.pack(order + ("Q" if big else "H"), len(tags))
        for tag, (kind, values) in sorted(tags.items()):
            numbers = [pixels_at + value[1] if isinstance(value, tuple) else value for value in values]
            raw = struct.pack(f"{order}{len(numbers)}{forms[kind]}", *numbers)
            if len(raw) > cell:
                raw, at = struct.pack(order + word, len(out)), raw
                out += at + bytes(len(at) % 2)
            table += struct.pack(order + "HH" + word, tag, kind, len(numbers)) + raw.ljust(cell, b"\0")
        struct.pack_into(order + word, out, link_at, len(out))
        out += table
        link_at = len(out)
        out += bytes(cell)
    return bytes(out)


def grey_page(width, height, seed, **more):
    """Tags and pixels of a raw grey page in two strips, for `tiff_of`; `more`: t<tag>=(type, values)."""
    rows = height // 2
    tags = {
        256: (3, [width]), 257: (3, [height]), 258: (3, [8]), 259: (3, [1]), 262: (3, [1]), 277: (3, [1]),
        273: (4, [("at", 0), ("at", width * rows)]), 278: (3, [rows]), 279: (4, [width * rows, width * (height - rows)]),
    }  # fmt: skip
    tags |= {int(name[1:]): value for name, value in more.items()}
    return tags, bytes((seed * 31 + place * 7) % 251 for place in range(width * height))


def old_jpeg_page(seed):
    """A page whose pixels are a whole JPEG stream, as TIFF 6.0 had it before JPEG got a compression of its own."""
    stream = encode(picture(32, 16, seed), "JPEG", subsampling=0)
    return {
        256: (3, [32]), 257: (3, [16]), 258: (3, [8, 8, 8]), 259: (3, [6]), 262: (3, [6]), 277: (3, [3]),
        273: (4, [("at", 0)]), 278: (3, [16]), 279: (4, [len(stream)]), 513: (4, [("at", 0)]), 514: (4, [len(stream)]),
        530: (3, [1, 1]),
    }, stream  # fmt: skip
