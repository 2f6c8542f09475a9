"""The inverse of packing: a batch back to its sequences, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.loader.device import Batch
from shardkit.sequence.sequence import Sequence, Slot


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Unpacked:
    """One sequence and the pixels of its slots."""

    sequence: Sequence
    pixels: tuple[npt.NDArray[np.uint8], ...]
    """[H, W, 3] for each slot."""


def unpack(batch: Batch) -> list[list[Unpacked]]:
    """The packs of a batch, each a list of its sequences in order.

    Ids are uint32, whatever type they are stored in. A sequence that was quarantined comes back without targets.
    """
    ids, objective_of_next = _host(batch.input_ids[0]), _host(batch.objective_ids[0])
    # objective_ids belong to the position before the target; what stands before a document's first token is no position of it.
    objectives = np.concatenate([[0], objective_of_next[:-1]]).astype(np.uint8)[: len(ids)]
    documents, firsts = _host(batch.cu_seq_lens_q), _host(batch.sequence_starts)
    starts, windows = documents[firsts].tolist(), _host(batch.windows).tolist()
    slot_rows = _host(batch.slot_rows[0])
    owners, indices = _host(batch.image_sequences).tolist(), _host(batch.image_indices).tolist()
    used = _host(batch.image_used_sizes).tolist()
    pixels = _host(batch.pixels)
    slots: list[list[tuple[Slot, npt.NDArray[np.uint8]]]] = [[] for _ in windows]
    row = 0
    for image, owner, index, (height, width) in zip(batch.sizes.images, owners, indices, used, strict=True):
        slot = Slot(
            start=int(np.flatnonzero(slot_rows == row)[0]) - starts[owner],
            count=image.slots,
            image=index,
            height=image.height,
            width=image.width,
            used_height=height,
            used_width=width,
        )
        content = pixels[image.offset : image.offset + image.size].reshape(image.height, image.width, 3)
        slots[owner].append((slot, content))
        row += image.slots
    sequences = [
        Unpacked(
            sequence=Sequence(
                input_ids=ids[start:stop].astype(np.uint32),
                objectives=objectives[start:stop].tobytes(),
                slots=tuple(slot for slot, _ in own),
                window=window,
                documents=tuple((documents[first:last] - start).tolist()),
            ),
            pixels=tuple(content for _, content in own),
        )
        for (start, stop), (first, last), window, own in zip(
            pairwise(starts), pairwise(firsts.tolist()), windows, slots, strict=True
        )
    ]
    bounds = np.searchsorted(firsts, _host(batch.pack_starts)).tolist()
    return [sequences[first:stop] for first, stop in pairwise(bounds)]


def _host(tensor: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = tensor.cpu().numpy()
    return values
