"""The peers of `bench_loader.py`: each writes the samples in its own format, reads them shuffled, and is resumed.

    python benchmarks/loader_peers.py write NAME --work DIR
    python benchmarks/loader_peers.py measure NAME --work DIR --seconds S [--resume N]

Runs in the environment of requirements-peers.txt, one process a peer and round, and prints one JSON object. Each peer is
used as its documentation says, shuffles as it offers, and hands over lists of 16 samples.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pickle
import sys
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import loader_samples as common
from loader_samples import BATCH, Sample, Samples, Tokens, Transform

SHARD = 1000
"""Samples a shard."""
RAW = Transform("raw")


def as_list(batch: list[Any]) -> list[Any]:
    return batch


class Mapped:
    """The transform behind a data set by index."""

    def __init__(self, rows: Any, transform: Transform, sample: Any) -> None:
        self.rows, self.transform, self.sample = rows, transform, sample

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.sample(self.rows[index]))


def data_loader(rows: Any, workers: int, **more: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(rows, batch_size=BATCH, num_workers=workers, collate_fn=as_list, **more)


def stateful(rows: Any, **more: Any) -> Any:
    """torchdata's loader around a data set, and (keys of each batch, what tells its state)."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(rows, batch_size=BATCH, num_workers=0, collate_fn=as_list, **more)


def keys_of(batches: Iterable[list[Any]]) -> Iterator[list[str]]:
    for batch in batches:
        yield [sample[0] for sample in batch]


def stateful_resumption(made: Any, state: Any) -> tuple[Iterator[list[str]], Any]:
    if state is not None:
        made.load_state_dict(state)
    return keys_of(made), made.state_dict


# ---------------------------------------------------------------------- webdataset and wids: tars
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


# ---------------------------------------------------------------------- mosaicml-streaming
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


# ---------------------------------------------------------------------- litdata
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


# ---------------------------------------------------------------------- megatron-energon
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


# ---------------------------------------------------------------------- HF datasets
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


# ---------------------------------------------------------------------- grain
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


PEERS: dict[str, Any] = {
    "webdataset": Webdataset(),
    "wids": Wids(),
    "mds": Mds(),
    "litdata": Litdata(),
    "energon": Energon(),
    "hf-map": HfMap(),
    "hf-iterable": HfIterable(),
    "grain": Grain(),
}
PACKAGES = {
    "webdataset": "webdataset",
    "wids": "wids",
    "mds": "mosaicml-streaming",
    "litdata": "litdata",
    "energon": "megatron-energon",
    "hf-map": "datasets",
    "hf-iterable": "datasets",
    "grain": "grain",
}


# ---------------------------------------------------------------------- measuring
def flattened(batches: Iterable[list[Any]]) -> Iterator[Any]:
    for batch in batches:
        yield from batch


def num_images(batch: dict[str, Any]) -> int:
    return len(batch["pixel_values"])


def measure(name: str, work: Path, seconds: float, repeats: int) -> dict[str, Any]:
    """Everything about one peer, in this process; the first batch first, while it is fresh."""
    peer, folder = PEERS[name], work / name
    plans = json.loads((work / "tokens.json").read_bytes())
    began = time.perf_counter()
    arriving = iter(peer.stream(folder, 0, RAW))
    next(arriving)
    found: dict[str, Any] = {"first_batch_seconds": time.perf_counter() - began}
    del arriving
    for workers in (0, 2):
        for kind in ("raw", "rgb"):
            transform = Transform(kind)
            figure = common.rate(lambda w=workers, t=transform: peer.stream(folder, w, t), len, seconds)
            found[f"{kind}_{workers}"] = figure
        for side, plan in plans.items():
            for decoder in common.SQUARES:
                transform = Transform("packed", int(side), decoder, Tokens(**plan))
                figure = common.rate(
                    lambda w=workers, t=transform: common.packs(flattened(peer.stream(folder, w, t))),
                    num_images,
                    seconds,
                )
                found[f"packed_{side}_{decoder}_{workers}"] = figure
    found["private_mb"] = min(found[f"packed_224_pillow_{workers}"]["mb"] for workers in (0, 2))
    if repeats:
        total = len(json.loads((work / "samples" / "keys.json").read_bytes()))
        found["resume"] = common.resumption(lambda state: peer.resume(folder, state), total, repeats)
    return found


def contents(name: str, work: Path) -> dict[str, Any]:
    """Key -> digests of text and pictures, as the peer delivers them."""
    from hashlib import blake2b

    arriving = flattened(PEERS[name].stream(work / name, 0, RAW))
    found = {}
    for key, text, images in arriving:
        assert key not in found, f"{name} gives {key} twice"
        digest = blake2b(text.encode(), digest_size=16)
        for image in images:
            digest.update(len(image).to_bytes(8, "little") + image)
        found[key] = digest.hexdigest()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["write", "contents", "measure"])
    parser.add_argument("name", choices=list(PEERS))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--resume", type=int, default=0, help="times that a restore is clocked; 0 leaves it out")
    options = parser.parse_args()
    folder = options.work / options.name
    if options.command == "write":
        folder.mkdir(parents=True)
        PEERS[options.name].write(Samples(options.work / "samples"), folder)
        found: Any = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    elif options.command == "contents":
        found = contents(options.name, options.work)
    else:
        found = measure(options.name, options.work, options.seconds, options.resume)
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
