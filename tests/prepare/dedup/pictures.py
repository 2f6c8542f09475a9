"""Pictures and pages that look like others."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw

WORDS = (
    "the harbour master wrote down every ship that came in before noon and what it carried in casks crates and "
    "bales of cloth so that the tax could be counted at the end of each month by two clerks"
)


def photo(seed: int, *, quality: int | None = None) -> bytes:
    """A picture of soft shapes; with a quality as a JPEG of half its size."""
    greys = np.random.default_rng(seed).integers(0, 255, (9, 9, 3), np.uint8)
    image = Image.fromarray(greys).resize((320, 240), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    if quality is None:
        image.save(file, "PNG")
    else:
        image.resize((160, 120)).save(file, "JPEG", quality=quality)
    return file.getvalue()


def page(number: str, *, noise: int = 0) -> bytes:
    """A bill of one template: nothing differs but a number."""
    image = Image.new("L", (400, 520), 250)
    draw = ImageDraw.Draw(image)
    for line in range(24):
        draw.text((30, 20 + 20 * line), f"{line} {WORDS[line : line + 40]}", fill=10)
    draw.text((30, 500), number, fill=10)
    if noise:
        image = Image.fromarray(
            (np.asarray(image).astype(int) - np.indices((520, 400)).sum(0) % noise).astype(np.uint8)
        )
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
