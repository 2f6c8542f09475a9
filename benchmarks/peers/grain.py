"""grain, over ArrayRecord."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from loader_samples import BATCH, Samples, Transform

from peers.common import RAW, as_list, keys_of


class Grain:
    peculiar = "ArrayRecord of pickles; `workers` are its reading threads"

    @staticmethod
    def write(samples: Samples, folder: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        writer = ArrayRecordWriter(str(folder / "data.array_record"), "group_size:1")
        for sample in samples:
            writer.write(pickle.dumps(sample))
        writer.close()

    @staticmethod
    def _rows(folder: Path, workers: int, transform: Transform) -> Any:
        import grain

        source = grain.sources.ArrayRecordDataSource([str(folder / "data.array_record")])
        rows = grain.MapDataset.source(source).seed(1).shuffle().map(pickle.loads).map(transform)
        options = grain.ReadOptions(num_threads=workers, prefetch_buffer_size=64 if workers else 0)
        return rows.to_iter_dataset(options).batch(BATCH, batch_fn=as_list)

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return self._rows(folder, workers, transform)

    def resume(self, folder: Path, state: Any) -> Any:
        arriving = iter(self._rows(folder, 0, RAW))
        if state is not None:
            arriving.set_state(state)
        return keys_of(arriving), arriving.get_state
