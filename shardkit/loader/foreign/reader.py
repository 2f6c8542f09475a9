"""Sequences and pictures of a foreign source, built from its samples each time they are read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.errors import IntegrityError
from shardkit.loader.batch import PixelForm
from shardkit.loader.foreign.measure import Building, Measured
from shardkit.loader.foreign.sample import Sample, Source
from shardkit.loader.pictures import Jpeg, Pictures, SlotMismatchError
from shardkit.loader.rows import Loaded
from shardkit.sequence.sequence import Sequence, Slot

KEPT = 256
"""Samples at hand: more than the batches that are begun at a time show."""
_CHANGED = "make the loader anew, without the file of lengths"


class ForeignReader:
    """Reads what plans name; see shardkit.loader.reader.Reader, whose place it takes."""

    def __init__(self, source: Source, building: Building, measured: Measured, *, decoder: str) -> None:
        self._source = source
        self._building = building
        self._measured = measured
        processor = building.recipe.image_processor()
        self.form = PixelForm.of(processor.recipe() if processor else {})
        self._pictures = None if processor is None else Pictures(processor, decoder)
        self._samples: OrderedDict[tuple[int, int], Sample] = OrderedDict()
        self._lock = threading.Lock()

    def sequence(self, shard: int, row: int) -> Loaded:
        """The sequence at `row` of a shard, as the first pass counted them.

        Raises:
            SourceError: where the sample cannot be read.
            IntegrityError: where it is another one than on the first pass.
        """
        at, place = self._measured.at(shard, row)
        built = self._building.build(partial(self._sample, shard, at), self._source.name)
        index = int(self._measured.first[shard]) + row
        if place >= len(built.sequences) or self._unlike(index, built.sequences[place]):
            raise IntegrityError(
                "the sample is another one than on the first pass", where=self._source.place(shard, at), hint=_CHANGED
            )
        key = self._sample(shard, at).key
        return Loaded(sequence=built.sequences[place], example_id=key, source=self._source.name, shard=shard, row=at)

    def picture(
        self, loaded: Loaded, slot: Slot, out: npt.NDArray[np.uint8], chance: int | None = None
    ) -> tuple[int, Jpeg | None]:
        """Decode and process the picture of a slot into `out` [H, W, 3]; see Reader.picture."""
        assert self._pictures is not None, "a recipe without pictures makes no slots"
        data = self._sample(loaded.shard, loaded.row).images[slot.image]
        try:
            left = self._pictures.put(data, out, (slot.used_height, slot.used_width), chance)
        except SlotMismatchError as error:
            raise IntegrityError(f"image {slot.image} {error}", where=self.place(loaded), hint=_CHANGED) from error
        return len(data), left

    def metadata(self, loaded: Loaded) -> dict[str, Any]:
        """Foreign samples have none."""
        return {}

    def place(self, loaded: Loaded) -> str:
        return self._source.place(loaded.shard, loaded.row)

    def close(self) -> None:
        self._samples.clear()

    def _unlike(self, index: int, sequence: Sequence) -> bool:
        lengths = self._measured.lengths
        return (sequence.num_tokens, sequence.num_images) != (int(lengths.tokens[index]), int(lengths.images[index]))

    def _sample(self, shard: int, row: int) -> Sample:
        """Read once for a sequence and its pictures, which are asked for one by one."""
        with self._lock:
            found = self._samples.get((shard, row))
            if found is None:
                found = self._samples[shard, row] = self._source.sample(shard, row)
                if len(self._samples) > KEPT:
                    self._samples.popitem(last=False)
            self._samples.move_to_end((shard, row))
            return found
