"""mosaicml-streaming."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from loader_samples import BATCH, Sample, Samples, Transform

from peers.common import RAW, data_loader, keys_of


def mds() -> Any:
    """Its modules, past the front doors that ask for transformers and torchvision, of which reading uses nothing."""
    for name in ("streaming", "streaming.base"):
        if name not in sys.modules:
            found = importlib.util.find_spec(name)
            assert found is not None
            door = types.ModuleType(name)
            door.__path__ = list(found.submodule_search_locations or ())
            sys.modules[name] = door
    return types.SimpleNamespace(
        MDSWriter=importlib.import_module("streaming.base.format.mds.writer").MDSWriter,
        StreamingDataset=importlib.import_module("streaming.base.dataset").StreamingDataset,
        clean=importlib.import_module("streaming.base.util").clean_stale_shared_memory,
    )


def of_mds(row: dict[str, Any]) -> Sample:
    return row["key"], row["text"], row["images"]


class Mds:
    peculiar = "its state counts samples, as its StreamingDataLoader does"

    @staticmethod
    def write(samples: Samples, folder: Path) -> None:
        columns = {"key": "str", "text": "str", "images": "pkl"}
        with mds().MDSWriter(out=str(folder), columns=columns) as writer:
            for key, text, images in samples:
                writer.write({"key": key, "text": text, "images": images})

    @staticmethod
    def _rows(folder: Path, transform: Transform) -> Any:
        base = mds().StreamingDataset

        class Rows(base):
            def __getitem__(self, at: Any) -> Any:
                return transform(of_mds(super().__getitem__(at)))

        mds().clean()
        return Rows(local=str(folder), shuffle=True, batch_size=BATCH, shuffle_seed=1, allow_unsafe_types=True)

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return data_loader(self._rows(folder, transform), workers)

    def resume(self, folder: Path, state: Any) -> Any:
        rows = self._rows(folder, RAW)
        if state is not None:
            rows.load_state_dict(state)
        taken = [0]

        def keys() -> Iterator[list[str]]:
            for batch in keys_of(data_loader(rows, 0)):
                taken[0] += len(batch)
                yield batch

        return keys(), lambda: rows.state_dict(taken[0], from_beginning=True)
