"""SynthText as published: gt.mat beside folders of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.prepare.ingest.builders import picture

BROKEN = 7
"""This entry (from 0) has a word more than boxes."""


def corners(word: int) -> list[tuple[float, float]]:
    """The four corners of a word's box, one box beside the other."""
    left = 2.0 + 14 * word
    return [(left, 4.0), (left + 12, 4.0), (left + 12, 14.0), (left, 14.0)]


def boxes(count: int) -> np.ndarray:
    """2 x 4 x count, and 2 x 4 for one word, as the set has it."""
    array = np.array([corners(word) for word in range(count)], dtype=np.float64).transpose(2, 1, 0)
    return array[:, :, 0] if count == 1 else array


def write(folder: Path, count: int = 20) -> None:
    """`count` pictures and their gt.mat; entry k has words of 1 + k % 4, in blocks with line feeds."""
    from scipy.io import savemat

    folder.mkdir(parents=True)
    names, words, texts = (np.empty((1, count), dtype=object) for _ in range(3))
    for number in range(count):
        name = f"{number % 3}/picture_{number}.jpg"
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(picture(number, (64, 24), "JPEG"))
        names[0, number] = name
        block = [f"w{number}", "two\nlines ", "last"][: 1 + number % 3]
        texts[0, number] = np.array(block)
        num_words = len(" ".join(block).split())
        words[0, number] = boxes(num_words - 1 if number == BROKEN else num_words)
    variables: dict[str, Any] = {"imnames": names, "wordBB": words, "txt": texts, "charBB": words}
    savemat(folder / "gt.mat", variables)
