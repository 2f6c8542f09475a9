"""From any mode that Pillow decodes to 8-bit RGB, with the names of what that changed.

    16-bit grey       the high byte (v >> 8): a ramp stays a ramp, 65535 becomes 255
    alpha, tRNS       laid on white
    CMYK, YCCK        by the embedded profile, else by ink (Pillow undoes Adobe's inversion, APP14 tells libjpeg of YCCK)
    ICC profile       to sRGB; a profile that is broken or not of the picture's colour space is ignored, and that is counted
    gAMA, cHRM        kept in the file, not applied

Samples of 32 bits, floating point and Lab have no agreed range or white and are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageChops, ImageFile

from shardkit.media.formats import PNG, PNM, TIFF, Format
from shardkit.media.icc import to_srgb
from shardkit.media.reasons import BadMedia

_WHITE_IS_ZERO = 0
_TIFF_BITS, _TIFF_PHOTOMETRIC = 258, 262
_PNG_DEPTH_AT = 24
_PLAIN = {"1": "L", "P": "RGB", "YCbCr": "RGB", "RGBX": "RGB"}
_WITH_ALPHA = {"LA": "L", "La": "L", "PA": "RGB", "RGBA": "RGB", "RGBa": "RGB"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Colours:
    """A picture in the colours that count."""

    rgb: Image.Image
    grey: Image.Image | None
    """The same in L, where it has nothing but greys and was decoded to them."""
    changes: tuple[str, ...]
    """By name: depth_to_8, cmyk_to_rgb, icc_to_srgb, icc_ignored, alpha_on_white."""


def to_rgb(kind: Format, image: ImageFile.ImageFile, data: bytes | memoryview) -> Colours:
    """`image` in RGB.

    Args:
        kind: the format `image` was read from.
        image: loaded, of any mode.
        data: the file, for the sample depth that Pillow does not tell.
    """
    changes = []
    bits = _sample_bits(kind, image, data)
    colour, alpha = _colour_and_alpha(kind, image, bits)
    if bits > 8:
        changes.append("depth_to_8")
    if colour.mode == "CMYK":
        changes.append("cmyk_to_rgb")
    if image.info.get("icc_profile"):
        colour, managed = to_srgb(colour, image.info["icc_profile"])
        changes.extend(managed)
    grey = colour if colour.mode == "L" else None
    if colour.mode != "RGB":
        colour = colour.convert("RGB")
    if alpha is not None and alpha.getextrema() != (255, 255):
        grey = None
        # White laid over by what the alpha lets through: the same as the picture on white, without a second picture.
        colour.paste((255, 255, 255), mask=ImageChops.invert(alpha))
        changes.append("alpha_on_white")
    return Colours(rgb=colour, grey=grey, changes=tuple(changes))


def _sample_bits(kind: Format, image: ImageFile.ImageFile, data: bytes | memoryview) -> int:
    if kind is PNG:
        return data[_PNG_DEPTH_AT]
    if kind is TIFF:
        bits = image.tag_v2.get(_TIFF_BITS, 1)  # type: ignore[attr-defined]  # of TIFF images only
        return int(max(bits) if isinstance(bits, tuple) else bits)
    return 16 if image.mode.startswith("I") else 8


def _colour_and_alpha(kind: Format, image: Image.Image, bits: int) -> tuple[Image.Image, Image.Image | None]:
    """The picture in L, RGB or CMYK, and its alpha in L where it has one."""
    if image.mode.startswith("I;16") or (image.mode == "I" and kind is PNM):
        return _grey16(kind, image, bits)
    mode = image.mode
    see_through = image.info.get("transparency")
    if see_through is not None and mode in ("1", "L", "P", "RGB"):
        image.info["transparency"] = _eight_bit_key(see_through, mode, bits)
        image, mode = image.convert("RGBA"), "RGBA"
    if mode in ("L", "RGB", "CMYK"):
        return image, None
    if mode in _PLAIN:
        return image.convert(_PLAIN[mode]), None
    if mode in _WITH_ALPHA:
        if mode in ("PA", "RGBa"):
            image = image.convert("RGBA")
        elif mode == "La":
            image = image.convert("LA")
        return image.convert(_WITH_ALPHA[mode]), image.getchannel("A")
    raise BadMedia("unsupported_format", f"{kind.name} with samples of kind {mode}")


def _grey16(kind: Format, image: Image.Image, bits: int) -> tuple[Image.Image, Image.Image | None]:
    samples = np.asarray(image)
    grey = np.minimum(samples >> max(bits - 8, 0), 255).astype(np.uint8)
    if kind is TIFF and image.tag_v2.get(_TIFF_PHOTOMETRIC) == _WHITE_IS_ZERO:  # type: ignore[attr-defined]  # of TIFF images only
        grey = 255 - grey
    key = image.info.get("transparency")
    alpha = None if key is None else Image.fromarray(np.where(samples == key, 0, 255).astype(np.uint8))
    return Image.fromarray(grey), alpha


def _eight_bit_key(key: bytes | int | tuple[int, ...], mode: str, bits: int) -> bytes | int | tuple[int, ...]:
    """The transparent value of a PNG, brought to the 8 bits that its samples were brought to. Palette keys are indices."""
    if mode == "L" and bits in (2, 4) and isinstance(key, int):
        return key * 255 // ((1 << bits) - 1)
    if mode == "RGB" and bits == 16 and isinstance(key, tuple):
        return tuple(value >> 8 for value in key)
    return key
