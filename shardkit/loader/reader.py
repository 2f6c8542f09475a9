"""Sequences and pictures of a tokenized dataset, read by place.

    lengths index -> (sequence shard, row) -> ids, objectives, slots -> (example shard, row, image) -> pixels

shards.py finds the bytes, pictures.py makes the pixels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.errors import ConfigError, IntegrityError
from shardkit.loader.batch import PixelForm
from shardkit.loader.pictures import Jpeg, Pictures, SlotMismatchError
from shardkit.loader.rows import Loaded
from shardkit.loader.shards import Shards
from shardkit.media.processors import Processor
from shardkit.records.manifest import ShardEntry
from shardkit.sequence.recipes import RECIPES, recorded_processor
from shardkit.sequence.sequence import Slot
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.mirror import Mirror
from shardkit.store.tar_shard import index_path


class Reader(Shards):
    """Reads what plans name: sequences, and their pictures as pixels."""

    def __init__(self, dataset: Dataset, *, verify: Verify, decoder: str = "pillow") -> None:
        super().__init__(dataset, verify=verify)
        processor = image_processor(dataset)
        self._pictures = None if processor is None else Pictures(processor, decoder)
        self.form = PixelForm.of(dataset.recipe["recipe"].get("image_processor") or {})
        """What pictures are made into."""

    def picture(
        self, loaded: Loaded, slot: Slot, out: npt.NDArray[np.uint8], chance: int | None = None
    ) -> tuple[int, Jpeg | None]:
        """Decode and process the picture of a slot into `out` [H, W, 3].

        Args:
            chance: decides what of it is shown, where the processor has random views; None shows it as it is, and
                pictures whose labels or reading order speak of places are always shown so.

        Returns:
            Bytes of the picture as it is stored; what is left to the device, which leaves `out` alone, else None.

        Raises:
            BadMedia: where it cannot be decoded.
            IntegrityError: where its shard is damaged, or the picture has not the size that the slot was made for.
        """
        assert self._pictures is not None, "a recipe without pictures makes no slots"
        data = self.stored(loaded, slot)
        placed = slot.ocr_labels is not None or slot.reading_order is not None
        try:
            left = self._pictures.put(data, out, (slot.used_height, slot.used_width), None if placed else chance)
        except SlotMismatchError as error:
            raise IntegrityError(
                f"image {slot.image} {error}",
                where=self.place(loaded),
                hint="tokenize the dataset again with this version",
            ) from error
        return len(data), left


def image_processor(dataset: Dataset) -> Processor | None:
    """The image processor that the dataset's sequences were made for; None for a recipe without images.

    Raises:
        ConfigError: where this version's processor or decoder would give other pixels.
    """
    recorded = dataset.recipe["recipe"]
    processor = recorded_processor(RECIPES[recorded["name"]], recorded)
    found, stated = processor.recipe() if processor else None, recorded.get("image_processor")
    if found != stated:
        raise ConfigError(
            f"the sequences were made for the image processor {stated}, this shardkit has {found}",
            where=str(dataset.path),
            hint="tokenize the dataset again with this version",
        )
    return processor


def check_files(dataset: Dataset, split: str | None) -> None:
    """Compare the sizes of all shards of a split with the manifest, before anything is read.

    Raises:
        IntegrityError: where one is missing, or of another size.
    """
    remote: dict[Mirror, list[ShardEntry]] = {}
    for shard in (*dataset.sequence_shards, *dataset.shards):
        if split is not None and shard.split != split:
            continue
        if shard.holder.mirror is not None:
            remote.setdefault(shard.holder.mirror, []).append(shard.entry)
            continue
        _check_size(shard.path, shard.entry.size)
        if shard.entry.index_size is not None:
            _check_size(index_path(shard.path), shard.entry.index_size)
    for mirror, entries in remote.items():
        mirror.look(entries)


def _check_size(path: Path, stated: int) -> None:
    hint = "restore the file, or build the dataset again from its inputs"
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise IntegrityError("the shard is missing", where=str(path), hint=hint) from error
    except OSError as error:
        raise IntegrityError(f"the shard cannot be read ({error.strerror})", where=str(path), hint=hint) from error
    if size != stated:
        raise IntegrityError(f"the file has {size} bytes, the manifest says {stated}", where=str(path), hint=hint)
