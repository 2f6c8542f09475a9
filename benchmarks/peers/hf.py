"""Hugging Face datasets, by index and streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from loader_samples import BATCH, Sample, Samples, Transform

from peers.common import RAW, Mapped, data_loader, stateful, stateful_resumption


def of_hf(row: dict[str, Any]) -> Sample:
    return row["key"], row["text"], row["images"]


def hf_rows(folder: str) -> Iterator[dict[str, Any]]:
    for key, text, images in Samples(Path(folder)):
        yield {"key": key, "text": text, "images": images}


class HfMap:
    peculiar = "Arrow on disk, by index; resumed by torchdata's StatefulDataLoader"

    @staticmethod
    def write(_samples: Samples, folder: Path) -> None:
        import datasets

        features = datasets.Features(
            {"key": datasets.Value("string"), "text": datasets.Value("string"), "images": [datasets.Value("binary")]}
        )
        found = datasets.Dataset.from_generator(
            hf_rows,
            gen_kwargs={"folder": str(folder.parent / "samples")},
            features=features,
            cache_dir=str(folder / "cache"),
            writer_batch_size=100,
        )
        found.save_to_disk(str(folder / "data"), num_shards=8)

    @staticmethod
    def _rows(folder: Path) -> Any:
        import datasets

        return datasets.load_from_disk(str(folder / "data"))

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return data_loader(Mapped(self._rows(folder), transform, of_hf), workers, shuffle=True)

    def resume(self, folder: Path, state: Any) -> Any:
        import torch

        torch.manual_seed(1)
        return stateful_resumption(stateful(Mapped(self._rows(folder), RAW, of_hf), shuffle=True), state)


class Applied:
    """Row -> {"found": ...}: iterable data sets hand over dicts."""

    def __init__(self, transform: Transform) -> None:
        self.transform = transform

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"found": self.transform(of_hf(row))}


def found_of(batch: list[dict[str, Any]]) -> list[Any]:
    return [row["found"] for row in batch]


class HfIterable(HfMap):
    peculiar = "shuffle buffer of 1,000; resumed by torchdata's StatefulDataLoader"

    def _streamed(self, folder: Path, transform: Transform) -> Any:
        rows = self._rows(folder).to_iterable_dataset(num_shards=8).shuffle(seed=1, buffer_size=1000)
        return rows.map(Applied(transform), remove_columns=["key", "text", "images"])

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        from torch.utils.data import DataLoader

        rows = self._streamed(folder, transform)
        return DataLoader(rows, batch_size=BATCH, num_workers=workers, collate_fn=found_of)

    def resume(self, folder: Path, state: Any) -> Any:
        from torchdata.stateful_dataloader import StatefulDataLoader

        rows = self._streamed(folder, RAW)
        return stateful_resumption(StatefulDataLoader(rows, batch_size=BATCH, collate_fn=found_of), state)
