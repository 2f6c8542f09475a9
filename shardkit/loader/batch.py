"""The host side of a batch: two flat buffers, int32 words and uint8 pixels. Nothing is padded, masked or widened.

    words   header | document starts | sequence starts | windows | pack starts | image table | denominators | ids | objectives
    pixels  the images back to back, rows of RGB, each at a multiple of 16 bytes; or as loader/jpegs.py says

D documents, S sequences (of one document, or more), P packs, M images, T tokens, K objectives:

    part              words            what it holds
    header            16               see _HEADER
    document starts   D + 1            first token of each document; the last entry is T
    sequence starts   S + 1            first document of each sequence; the last entry is D
    windows           S                which of its example's sequences each one is
    pack starts       P + 1            first document of each pack; the last entry is D
    image table       M x 10           byte offset (low, high word), height, width, first slot, slots, sequence, image,
                                       height and width that show the image
    denominators      K x 2            targets of the whole global batch by objective (low, high word)
    ids               T
    objectives        ceil(T / 4)      a byte a token, four to a word
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from shardkit.errors import ShardkitError
from shardkit.media.processors import NORMALISATIONS
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan import Cursor
from shardkit.sequence.sequence import Sequence as TokenSequence
from shardkit.store.dataset import Dataset

if TYPE_CHECKING:
    from shardkit.loader.device import Batch
    from shardkit.loader.jpegs import Encoded
    from shardkit.loader.metrics import Figures

VERSION = 2
"""Of the layout above and of what the device makes of it; bound in states."""

IMAGE_WORDS = 10
ALIGN = 16
NUM_OBJECTIVES = len(OBJECTIVES)
_HEADER = (
    *("version", "tokens", "documents", "sequences", "packs", "images", "longest"),
    *("patch", "merge", "tile", "normalisation"),
)
_HEADER_WORDS = 16

Words = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePlace:
    offset: int
    """First byte in the pixels."""
    height: int
    width: int
    slots: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.height * self.width * 3


@dataclass(frozen=True, kw_only=True, slots=True)
class PixelForm:
    """What the pixels of a batch were made for, as its image processor says."""

    patch: int = 14
    """Side of a square patch in pixels."""
    merge: int = 2
    """Patches along the side of a slot."""
    tile: int = 0
    """Side of the tiles that a picture is cut into; 0 = it is not cut."""
    normalisation: str = "imagenet"
    """A name of NORMALISATIONS."""

    @classmethod
    def of(cls, processor: Mapping[str, Any]) -> PixelForm:
        """From what an image processor says of itself; empty for a recipe without images."""
        return cls(**{one.name: processor[one.name] for one in fields(cls) if one.name in processor})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Everything about a batch that decides the shape of a tensor, known on the host."""

    num_tokens: int
    num_documents: int
    num_sequences: int
    num_packs: int
    longest: int
    """Tokens of the longest document."""
    form: PixelForm
    images: tuple[ImagePlace, ...]

    @classmethod
    def of(cls, meta: Tensor) -> Sizes:
        """Read from the words of a batch; on a device this waits for it."""
        words: Words = meta.cpu().numpy()
        header = dict(zip(_HEADER, words[: len(_HEADER)].tolist(), strict=True))
        if header["version"] != VERSION:
            raise ValueError(f"a batch of layout version {header['version']}, this shardkit reads {VERSION}")
        sizes = cls(
            num_tokens=header["tokens"],
            num_documents=header["documents"],
            num_sequences=header["sequences"],
            num_packs=header["packs"],
            longest=header["longest"],
            form=PixelForm(
                patch=header["patch"],
                merge=header["merge"],
                tile=header["tile"],
                normalisation=list(NORMALISATIONS)[header["normalisation"]],
            ),
            images=(),
        )
        table = words[sizes.parts(header["images"])["images"]].reshape(-1, IMAGE_WORDS).astype(np.int64)
        offsets = (table[:, 0] & 0xFFFFFFFF) | (table[:, 1] << 32)
        return replace(
            sizes,
            images=tuple(
                ImagePlace(offset=offset, height=height, width=width, slots=slots)
                for offset, (height, width, _, slots) in zip(offsets.tolist(), table[:, 2:6].tolist(), strict=True)
            ),
        )

    def parts(self, num_images: int | None = None) -> dict[str, slice]:
        """Where each part of the words lies."""
        images = len(self.images) if num_images is None else num_images
        lengths = {
            "header": _HEADER_WORDS,
            "document_starts": self.num_documents + 1,
            "sequence_starts": self.num_sequences + 1,
            "windows": self.num_sequences,
            "pack_starts": self.num_packs + 1,
            "images": images * IMAGE_WORDS,
            "denominators": NUM_OBJECTIVES * 2,
            "ids": self.num_tokens,
            "objectives": -(-self.num_tokens // 4),
        }
        parts, start = {}, 0
        for name, length in lengths.items():
            parts[name] = slice(start, start + length)
            start += length
        return parts


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """An image that could not be read; its sequence is in the batch, but none of its tokens is a target."""

    example_id: str
    shard: int
    """Index of the sequence shard, and ..."""
    row: int
    """... row there."""
    image: int
    """Index into the example's images."""
    reason: str
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchInfo:
    """What the host knows of a batch and no device needs."""

    batch_id: str
    """<plan digest>/<epoch>/<step>/<rank>of<world>."""
    epoch: int
    step: int
    example_ids: tuple[str, ...]
    """Of each sequence."""
    sources: tuple[str, ...]
    """Of each sequence."""
    rows: tuple[tuple[int, int], ...]
    """(sequence shard, row) of each sequence."""
    quarantined: tuple[Quarantined, ...]
    after: Cursor
    """The place behind this batch."""
    global_sequences: int = 0
    """Sequences of the whole global batch, over all ranks: what a loss of each sequence is divided by."""
    dataset: str = ""
    """Where the dataset is, for `trace`; empty where there is none."""
    dataset_id: str = ""
    figures: Figures | None = None
    """What it holds and what it cost."""
    metadata: tuple[dict[str, Any], ...] | None = None
    """Of each sequence's example, as its source gave it; read for evaluation only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostBatch:
    """A batch as it crosses from a worker process, or the bus."""

    meta: Tensor
    """int32 words; see the top of this file."""
    pixels: Tensor
    """uint8 bytes."""
    info: BatchInfo
    encoded: Encoded | None = None
    """What `pixels` holds where pictures are decoded on the device; None: their pixels, as the words say."""

    @property
    def batch_id(self) -> str:
        return self.info.batch_id

    @property
    def ids(self) -> tuple[str, ...]:
        """The example id of each sequence."""
        return self.info.example_ids

    def trace(self, dataset: Dataset | None = None) -> list[dict[str, Any]]:
        """Where each sequence comes from; see shardkit.loader.trace."""
        from shardkit.loader.trace import trace

        return trace(self.info, dataset)

    @property
    def position(self) -> tuple[int, int]:
        """(epoch, step)"""
        return self.info.epoch, self.info.step

    @property
    def num_bytes(self) -> int:
        """What crosses the bus."""
        return self.meta.nbytes + self.pixels.nbytes

    def pin_memory(self) -> HostBatch:
        """The same in memory from which a device copies at full speed; DataLoader(pin_memory=True) calls it."""
        return replace(self, meta=self.meta.pin_memory(), pixels=self.pixels.pin_memory())

    def to_device(self, device: torch.device | str = "cpu") -> Batch:
        """Copy both buffers and build the batch there."""
        from shardkit.loader.device import build
        from shardkit.loader.jpegs import decoded

        host = decoded(self, device)
        meta = host.meta.to(device, non_blocking=True)
        pixels = host.pixels.to(device, non_blocking=True)
        return replace(build(meta, pixels, Sizes.of(host.meta)), info=host.info)


def _send(batch: HostBatch) -> tuple[Callable[..., HostBatch], tuple[bytes, BatchInfo, Encoded | None, int]]:
    """How a batch goes to another process: its tensors as shared memory, which the sender must hand over in person."""
    tensors = bytes(ForkingPickler.dumps((batch.meta, batch.pixels)))
    return _receive, (tensors, batch.info, batch.encoded, os.getpid())


def _receive(tensors: bytes, info: BatchInfo, encoded: Encoded | None, sender: int) -> HostBatch:
    try:
        meta, pixels = pickle.loads(tensors)  # noqa: S301 - from a process of our own
    except (EOFError, OSError) as error:
        raise ShardkitError(
            f"DataLoader worker (pid {sender}) ended before it handed over batch {info.batch_id}",
            hint="see why it ended (memory?), then go on from state_after of the last batch that was used",
        ) from error
    return HostBatch(meta=meta, pixels=pixels, info=info, encoded=encoded)


# Between processes only: other pickles of a batch hold its bytes.
ForkingPickler.register(HostBatch, _send)


@dataclass(frozen=True, kw_only=True, slots=True)
class Buffers:
    """The two buffers of a batch while they are filled."""

    meta: Tensor
    pixels: Tensor
    places: tuple[npt.NDArray[np.uint8], ...]
    """[H, W, 3] for each image, in the order of sequences and slots: its place in `pixels`, to be filled."""
    sizes: Sizes


def lay_out(
    packs: Sequence[Sequence[TokenSequence]],
    denominators: npt.NDArray[np.int64],
    *,
    form: PixelForm,
) -> Buffers:
    """Lay the sequences of some packs end to end; the pixels are left to be filled in.

    Args:
        denominators: [K] target tokens of the whole global batch, by the objective's byte.
    """
    sequences = [sequence for pack in packs for sequence in pack]
    starts = np.cumsum([0, *(sequence.num_tokens for sequence in sequences)])
    documents = _document_starts(sequences)
    table: list[list[int]] = []
    places: list[ImagePlace] = []
    gaps: list[slice] = []
    offset = 0
    for number, (sequence, start) in enumerate(zip(sequences, starts.tolist(), strict=False)):
        for slot in sorted(sequence.slots, key=lambda slot: slot.start):
            place = ImagePlace(offset=offset, height=slot.height, width=slot.width, slots=slot.count)
            low, high = _halves(offset)
            table.append(
                [
                    *(low, high, slot.height, slot.width, start + slot.start, slot.count),
                    *(number, slot.image, slot.used_height, slot.used_width),
                ]
            )
            places.append(place)
            offset += -(-place.size // ALIGN) * ALIGN
            gaps.append(slice(place.offset + place.size, offset))
    sizes = Sizes(
        num_tokens=int(starts[-1]),
        num_documents=len(documents) - 1,
        num_sequences=len(sequences),
        num_packs=len(packs),
        longest=int(np.diff(documents).max(initial=0)),
        form=form,
        images=tuple(places),
    )
    pixels = torch.empty(offset, dtype=torch.uint8)
    view = pixels.numpy()
    for gap in gaps:
        view[gap] = 0  # they are part of the bytes that are compared
    return Buffers(
        meta=torch.from_numpy(_words(packs, table, denominators, sizes)),
        pixels=pixels,
        places=tuple(view[p.offset : p.offset + p.size].reshape(p.height, p.width, 3) for p in places),
        sizes=sizes,
    )


def _words(
    packs: Sequence[Sequence[TokenSequence]],
    table: list[list[int]],
    denominators: npt.NDArray[np.int64],
    sizes: Sizes,
) -> Words:
    parts = sizes.parts()
    sequences = [sequence for pack in packs for sequence in pack]
    words = np.zeros(parts["objectives"].stop, np.int32)
    header = (
        VERSION,
        *(sizes.num_tokens, sizes.num_documents, len(sequences), len(packs), len(table), sizes.longest),
        *(sizes.form.patch, sizes.form.merge, sizes.form.tile, list(NORMALISATIONS).index(sizes.form.normalisation)),
    )
    words[: len(header)] = header
    words[parts["document_starts"]] = _document_starts(sequences)
    words[parts["sequence_starts"]] = np.cumsum([0, *(len(sequence.documents) for sequence in sequences)])
    words[parts["windows"]] = [sequence.window for sequence in sequences]
    words[parts["pack_starts"]] = np.cumsum([0, *(sum(len(s.documents) for s in pack) for pack in packs)])
    words[parts["images"]] = np.array(table, np.int64).flatten()
    words[parts["denominators"]] = [half for count in denominators.tolist() for half in _halves(count)]
    if sequences:
        words[parts["ids"]] = np.concatenate([sequence.input_ids for sequence in sequences])
        objectives = words[parts["objectives"]].view(np.uint8)
        objectives[: sizes.num_tokens] = np.frombuffer(b"".join(s.objectives for s in sequences), np.uint8)
    return words


def _document_starts(sequences: Sequence[TokenSequence]) -> npt.NDArray[np.int64]:
    """[D + 1] first token of each document, then the number of tokens."""
    starts, start = [], 0
    for sequence in sequences:
        starts += [start + first for first in sequence.documents]
        start += sequence.num_tokens
    return np.array([*starts, start], np.int64)


def _halves(value: int) -> tuple[int, int]:
    """A 64-bit number as two signed words, the low one first."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low, value >> 32
