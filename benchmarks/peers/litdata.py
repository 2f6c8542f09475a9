"""litdata."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from loader_samples import BATCH, Sample, Samples, Transform

from peers.common import RAW, as_list, stateful_resumption


def of_litdata(row: dict[str, Any]) -> Sample:
    return row["key"], row["text"], pickle.loads(row["images"])


class Litdata:
    peculiar = "pictures of a sample as one pickle; its own StreamingDataLoader"

    @staticmethod
    def write(samples: Samples, folder: Path) -> None:
        from litdata.streaming.cache import Cache

        cache = Cache(str(folder), chunk_bytes=64 << 20)
        for place, (key, text, images) in enumerate(samples):
            cache[place] = {"key": key, "text": text, "images": pickle.dumps(images)}
        cache.done()
        cache.merge()

    @staticmethod
    def _made(folder: Path, workers: int, transform: Transform) -> Any:
        from litdata import StreamingDataLoader, StreamingDataset

        class Rows(StreamingDataset):
            def __getitem__(self, index: Any) -> Any:
                return transform(of_litdata(super().__getitem__(index)))

        rows = Rows(str(folder), shuffle=True, seed=1, drop_last=False)
        return StreamingDataLoader(rows, batch_size=BATCH, num_workers=workers, collate_fn=as_list)

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return self._made(folder, workers, transform)

    def resume(self, folder: Path, state: Any) -> Any:
        return stateful_resumption(self._made(folder, 0, RAW), state)
