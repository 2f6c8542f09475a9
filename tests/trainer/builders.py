"""Batches from literal documents, and models small enough for a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shardkit.loader.batch import BatchInfo, PixelForm, lay_out
from shardkit.loader.device import PATCH_SIZES, Batch, build
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan import Cursor, Draw
from shardkit.sequence.sequence import Sequence as TokenSequence
from shardkit.sequence.sequence import Slot
from shardkit.trainer.layers import initialise
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.sizes import ModelSize, TowerSize

IMAGE_TOKEN = 4
VOCAB = 40
TINY = ModelSize(
    width=32, layers=2, heads=4, kv_heads=2, hidden=48, tower=TowerSize(width=32, heads=4, depth=1, compressor_depth=1)
)
START = Draw(passes=(0,), offsets=(0,), amounts=(0,))


@dataclass(frozen=True, kw_only=True)
class Doc:
    """One sequence: bos, then image_start, slots, image_end of each image, then the text, which is the target."""

    text: tuple[int, ...]
    images: tuple[np.ndarray, ...] = ()
    """uint8 [H, W, 3]"""
    objective: str = "text"
    name: str = "doc"

    def sequence(self) -> TokenSequence:
        ids, slots = [1], []
        for number, image in enumerate(self.images):
            height, width = image.shape[:2]
            count = -(-height // 28) * -(-width // 28)
            slots.append(Slot(start=len(ids) + 1, count=count, image=number, height=height, width=width))
            ids += [3, *[IMAGE_TOKEN] * count, 5]
        objectives = bytes(len(ids)) + bytes([OBJECTIVES[self.objective]]) * len(self.text)
        return TokenSequence(
            input_ids=np.array([*ids, *self.text], np.uint16), objectives=objectives, slots=tuple(slots)
        )


def picture(seed: int, height: int = 56, width: int = 56) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def make_batch(docs: Sequence[Doc]) -> Batch:
    """The documents in one pack, as the loader builds it."""
    counts = [sum(len(doc.text) for doc in docs if doc.objective == name) for name in OBJECTIVES]
    buffers = lay_out([[doc.sequence() for doc in docs]], np.array(counts, np.int64), form=PixelForm())
    images = [image for doc in docs for image in doc.images]
    for place, image in zip(buffers.places, images, strict=True):
        place[:] = image
    info = BatchInfo(
        batch_id="plan/0/0/0of1",
        epoch=0,
        step=0,
        example_ids=tuple(doc.name for doc in docs),
        sources=("test",) * len(docs),
        rows=tuple((0, row) for row in range(len(docs))),
        quarantined=(),
        after=Cursor(epoch=0, step=1, block=0, pack=1, draw=START, origin=START),
    )
    return replace(build(buffers.meta, buffers.pixels, buffers.sizes), info=info)


def make_model(
    *, positions: int | None = None, vision: bool = True, seed: int = 0, precision: str = "fp32"
) -> VisionLanguage:
    model = VisionLanguage(
        TINY,
        vocab_size=VOCAB,
        image_token=IMAGE_TOKEN,
        patch_sizes=PATCH_SIZES if vision else None,
        max_positions=positions,
        precision=precision,
    )
    initialise(model, seed)
    return model


def docs_with_pictures() -> list[Doc]:
    """Documents of unlike lengths; with no, one, two pictures, of several sizes."""
    return [
        Doc(name="a", text=(7, 8, 9, 2), images=(picture(1),), objective="caption"),
        Doc(name="b", text=(10, 11, 12, 13, 14, 2)),
        Doc(name="c", text=(15, 2), images=(picture(2, 30, 100), picture(3)), objective="ocr"),
        Doc(name="d", text=(16, 17, 18, 2), images=(picture(4),), objective="caption"),
        Doc(name="e", text=(19, 20, 21, 22, 23, 24, 2), images=(picture(5, 120, 20),), objective="ocr"),
    ]
