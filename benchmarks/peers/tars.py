"""WebDataset, wids and megatron-energon: tars."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import loader_samples as common
from loader_samples import BATCH, Sample, Samples, Transform

from peers.common import RAW, SHARD, Mapped, data_loader, keys_of, stateful, stateful_resumption


def write_tars(samples: Samples, folder: Path) -> None:
    from webdataset import ShardWriter

    with ShardWriter(str(folder / "%05d.tar"), maxcount=SHARD, verbose=0) as writer:
        for key, text, images in samples:
            pictures = {f"{number}.{common.suffix(image)}": image for number, image in enumerate(images)}
            writer.write({"__key__": key, "txt": text, **pictures})


def of_members(key: str, members: dict[str, bytes]) -> Sample:
    """A sample from its members, by their extensions without a dot in front."""
    numbers = sorted(
        (name for name in members if name.split(".")[0].isdigit()), key=lambda name: int(name.split(".")[0])
    )
    text = members["txt"]
    return key, text.decode() if isinstance(text, bytes) else text, [members[name] for name in numbers]


def of_webdataset(row: dict[str, Any]) -> Sample:
    return of_members(row["__key__"], row)


class Webdataset:
    write = staticmethod(write_tars)
    peculiar = "shuffle buffer of 1,000; resumed by torchdata's StatefulDataLoader, which replays"

    @staticmethod
    def _rows(folder: Path, transform: Transform) -> Any:
        import webdataset

        tars = sorted(map(str, folder.glob("*.tar")))
        return (
            webdataset.WebDataset(tars, shardshuffle=len(tars), seed=1, empty_check=False)
            .shuffle(1000, seed=1)
            .map(of_webdataset)
            .map(transform)
        )

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return data_loader(self._rows(folder, transform), workers)

    def resume(self, folder: Path, state: Any) -> Any:
        return stateful_resumption(stateful(self._rows(folder, RAW)), state)


def of_wids(row: dict[str, Any]) -> Sample:
    members = {
        name.lstrip("."): value.read() for name, value in row.items() if name.startswith(".") and hasattr(value, "read")
    }
    return of_members(row["__key__"], members)


class Wids:
    peculiar = "by index, a new shard order each time; resumed by torchdata's StatefulDataLoader"

    @staticmethod
    def write(samples: Samples, folder: Path) -> None:
        write_tars(samples, folder)
        tars = sorted(folder.glob("*.tar"))
        numbers = [min(SHARD, len(samples) - SHARD * place) for place in range(len(tars))]
        listing = [{"url": str(tar), "nsamples": number} for tar, number in zip(tars, numbers, strict=True)]
        (folder / "index.json").write_text(json.dumps({"wids_version": 1, "shardlist": listing}))

    @staticmethod
    def _rows(folder: Path, transform: Transform) -> Any:
        from wids import ShardListDataset

        shards = json.loads((folder / "index.json").read_bytes())["shardlist"]
        return Mapped(ShardListDataset(shards, transformations=[], lru_size=64, keep=True), transform, of_wids)

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return data_loader(self._rows(folder, transform), workers, shuffle=True)

    def resume(self, folder: Path, state: Any) -> Any:
        import torch

        torch.manual_seed(1)
        return stateful_resumption(stateful(self._rows(folder, RAW), shuffle=True), state)


class Energon:
    peculiar = "crude web data set; shuffle buffer of 1,000, 100 samples a sequence"

    @staticmethod
    def write(samples: Samples, folder: Path) -> None:
        from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

        write_tars(samples, folder)
        tars = sorted(tar.name for tar in folder.glob("*.tar"))
        WebdatasetPreparator.prepare_dataset(folder, tars, split_parts_ratio=[("train", 1.0)], workers=1)
        about = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        (folder / ".nv-meta" / "dataset.yaml").write_text(about)

    @staticmethod
    def _made(folder: Path, workers: int, transform: Transform, *, savable: bool) -> Any:
        from megatron import energon

        class Row(energon.Sample):
            pass

        @energon.stateless
        def cook(row: dict[str, Any]) -> Any:
            members = {name: value for name, value in row.items() if not name.startswith("__")}
            found = transform(of_members(row["__key__"].rsplit("/", 1)[-1], members))
            return {**energon.basic_sample_keys(row), "found": found}

        class Encoder(energon.DefaultTaskEncoder):
            cookers = [energon.Cooker(cook)]  # noqa: RUF012 - the form that it asks for
            decoder = None

            @energon.stateless
            def encode_sample(self, sample: Any) -> Any:
                return sample

            def batch(self, samples: list[Any]) -> Any:
                return [sample["found"] for sample in samples]

            @energon.stateless
            def encode_batch(self, batch: Any) -> Any:
                return batch

        found = energon.get_train_dataset(
            folder,
            worker_config=energon.WorkerConfig(rank=0, world_size=1, num_workers=workers, seed_offset=1),
            batch_size=BATCH,
            shuffle_buffer_size=1000,
            max_samples_per_sequence=100,
            task_encoder=Encoder(),
            repeat=False,
        )
        return (energon.get_savable_loader if savable else energon.get_loader)(found)

    def stream(self, folder: Path, workers: int, transform: Transform) -> Iterable[list[Any]]:
        return self._made(folder, workers, transform, savable=False)

    def resume(self, folder: Path, state: Any) -> Any:
        loader = self._made(folder, 0, RAW, savable=True)
        if state is not None:
            loader.restore_state_rank(state)
        return keys_of(loader), loader.save_state_rank
