"""Batches from literal documents, and models small enough for a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn.functional import pad

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.trainer.layers import initialise
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.sizes import ModelSize, TowerSize

IMAGE_TOKEN = 4
VOCAB = 40
PATCH_SIZES = {"vertical": (32, 8), "horizontal": (8, 32), "square": (16, 16), "layout": (56, 56)}
TINY = ModelSize(
    width=32, layers=2, heads=4, kv_heads=2, hidden=48, tower=TowerSize(width=32, heads=4, depth=1, compressor_depth=1)
)


@dataclass(frozen=True, kw_only=True)
class Doc:
    """One sequence: `text` ids, before them the slots of each image."""

    text: tuple[int, ...]
    images: tuple[np.ndarray, ...] = ()
    """uint8 [H, W, 3]"""
    objective: str = "text"
    name: str = "doc"

    @property
    def slots(self) -> list[int]:
        return [-(-image.shape[0] // 28) * -(-image.shape[1] // 28) for image in self.images]

    @property
    def ids(self) -> list[int]:
        """bos, then image_start, slots, image_end of each image, then the text."""
        return [1, *(i for slots in self.slots for i in (3, *[IMAGE_TOKEN] * slots, 5)), *self.text]


def picture(seed: int, height: int = 56, width: int = 56) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def make_batch(docs: Sequence[Doc], *, denominators: torch.Tensor | None = None) -> SimpleNamespace:
    """The documents laid end to end."""
    ids, labels, objectives, positions, owners, rows, bounds = [], [], [], [], [], [], [0]
    next_row = 0
    for number, doc in enumerate(docs):
        first_text = len(doc.ids) - len(doc.text)
        for place, token in enumerate(doc.ids):
            is_last = place + 1 == len(doc.ids)
            supervised = not is_last and place + 1 >= first_text
            ids.append(token)
            labels.append(doc.ids[place + 1] if supervised else -100)
            objectives.append(OBJECTIVES[doc.objective] if supervised else 0)
            positions.append(place)
            owners.append(number)
            rows.append(next_row if token == IMAGE_TOKEN else -1)
            next_row += token == IMAGE_TOKEN
        bounds.append(len(ids))
    images = [image for doc in docs for image in doc.images]
    objective_ids = torch.tensor([objectives])
    counted = torch.bincount(objective_ids[objective_ids > 0], minlength=len(OBJECTIVES)).double()
    return SimpleNamespace(
        input_ids=torch.tensor([ids]),
        shift_labels=torch.tensor([labels]),
        objective_ids=objective_ids,
        position_ids=torch.tensor([positions]),
        seq_idx=torch.tensor([owners], dtype=torch.int32),
        slot_rows=torch.tensor([rows]),
        cu_seq_lens_q=torch.tensor(bounds, dtype=torch.int32),
        image_slots=torch.tensor([slots for doc in docs for slots in doc.slots], dtype=torch.long),
        image_sizes=torch.tensor([image.shape[:2] for image in images], dtype=torch.long).reshape(-1, 2),
        patches={kind: patches_of(images, *size) for kind, size in PATCH_SIZES.items()},
        denominators=counted if denominators is None else denominators,
        example_ids=[doc.name for doc in docs],
        batch_id="plan/0/0/0of1",
    )


def patches_of(images: Sequence[np.ndarray], height: int, width: int) -> SimpleNamespace:
    """Each image cut line by line; what hangs over the edge is 0."""
    values, owners, rows, cols = [torch.zeros(0, 3 * height * width)], [], [], []
    for number, image in enumerate(images):
        pixels = torch.from_numpy(image).permute(2, 0, 1).float() / 127.5 - 1
        pixels = pad(pixels, (0, -pixels.shape[2] % width, 0, -pixels.shape[1] % height))
        for row in range(pixels.shape[1] // height):
            for col in range(pixels.shape[2] // width):
                cut = pixels[:, row * height : (row + 1) * height, col * width : (col + 1) * width]
                values.append(cut.reshape(1, -1))
                owners.append(number)
                rows.append(row)
                cols.append(col)
    columns = {"image": owners, "row": rows, "col": cols}
    return SimpleNamespace(
        values=torch.cat(values), **{name: torch.tensor(column, dtype=torch.long) for name, column in columns.items()}
    )


def make_model(*, positions: int | None = None, vision: bool = True, seed: int = 0) -> VisionLanguage:
    model = VisionLanguage(
        TINY,
        vocab_size=VOCAB,
        image_token=IMAGE_TOKEN,
        patch_sizes=PATCH_SIZES if vision else None,
        max_positions=positions,
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
