"""One tokenized example, or one window of it: ids, objectives, image slots.

input_ids    bos  i(  p  p  p  p  )i   A   cat  eos
objectives    0   0   0  0  0  0  0    2    2    2      of each token as a target; 2 = caption
slots                 start = 2, count = 4, image = 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.digest import canonical_json, xxh3


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """The place of one image: which tokens its embeddings take, and how large it is after processing."""

    start: int
    """Position of its first <image_patch> token in the sequence."""
    count: int
    """Number of its <image_patch> tokens, side by side."""
    image: int
    """Index into the example's images."""
    height: int
    width: int
    """Pixels after processing, with what a processor fills up."""
    used_height: int = 0
    used_width: int = 0
    """Pixels of these that show the image, at the top left; all where they are not given."""
    ocr_labels: tuple[int, ...] | None = None
    """Label ids of the image, for a head of the tower; None where it has none."""
    reading_order: tuple[int, ...] | None = None
    """[count] its slots in the order in which they are read; None where that is unknown."""

    def __post_init__(self) -> None:
        if not self.used_height:
            object.__setattr__(self, "used_height", self.height)
        if not self.used_width:
            object.__setattr__(self, "used_width", self.width)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sequence:
    input_ids: npt.NDArray[np.unsignedinteger[Any]]
    """[T] token ids."""
    objectives: bytes
    """[T] the objective of each token as a target; the first is 0, because nothing stands before it."""
    slots: tuple[Slot, ...] = ()
    window: int = 0
    """Which of the example's sequences this is, from 0: captions or alternatives in turn, each with its windows in order."""
    documents: tuple[int, ...] = (0,)
    """First token of each document: what attends to itself alone and is laid in one pack with the others. A preference pair
    is one sequence of two documents; every other sequence is one document."""
    alternative: int = 0
    alternatives: int = 1
    """Pass `e` over the data takes an example's sequences with alternative = e mod alternatives; other passes see others."""
    prompt: str | None = None
    """JSON for a sampler outside: what is asked, its tools, what the answer is judged by. None where nothing is asked."""

    @property
    def num_tokens(self) -> int:
        return len(self.input_ids)

    @property
    def num_supervised(self) -> int:
        """Tokens that are targets."""
        return len(self.objectives) - self.objectives.count(0)

    @property
    def num_images(self) -> int:
        return len(self.slots)

    @property
    def num_pixels(self) -> int:
        """Pixels after processing, over all images."""
        return sum(slot.height * slot.width for slot in self.slots)


def sequence_id(example_id: str, fingerprint: str, window: int) -> str:
    """The id of an example's `window`-th sequence under the tokenize recipe of this fingerprint, 32 hex digits."""
    return xxh3(canonical_json([example_id, fingerprint, window]))


def id_type(vocab_size: int) -> np.dtype[Any]:
    """The smallest integer type that ids are stored in: uint16 up to 65,536 entries, else uint32."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)
