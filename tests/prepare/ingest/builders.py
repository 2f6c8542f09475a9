"""Small inputs for ingest: pictures, tars, tables, and a run of the whole stage."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.planning import CONTAINERS
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.record import Record
from shardkit.prepare.ingest.roots import Roots
from shardkit.prepare.ingest.units import InputFile, Slice
from shardkit.records import Exclusion
from shardkit.store.dataset import Dataset


def picture(seed: int = 0, size: tuple[int, int] = (12, 8), kind: str = "PNG") -> bytes:
    """The bytes of a picture of `size` (width, height) that differs for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def tiff(pages: int) -> bytes:
    """A TIFF of some pages, each of another grey."""
    frames = [Image.new("L", (8, 8), 20 * page) for page in range(pages)]
    out = io.BytesIO()
    frames[0].save(out, "TIFF", save_all=True, append_images=frames[1:])
    return out.getvalue()


def tar(members: Sequence[tuple[str, bytes]], form: int = tarfile.USTAR_FORMAT) -> bytes:
    """A plain tar of regular members, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def jsonl(rows: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def config(**settings: Any) -> IngestConfig:
    """A config that needs no paths."""
    return IngestConfig(**{"format": "rows", "paths": (), "output": None, **settings})


def input_file(folder: Path, name: str, data: bytes) -> InputFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return InputFile(name=name, path=str(path), size=len(data))


def pieces(kind: str, file: InputFile, settings: IngestConfig) -> list[Slice]:
    """The slices that a container plans."""
    return list(CONTAINERS[kind].plan(file, settings, Opener()))


def entries(kind: str, file: InputFile, settings: IngestConfig) -> list[Record | Exclusion | Counter[str]]:
    """Everything that a container reads from a file, over all its slices and chunks."""
    opener = Opener()
    module = CONTAINERS[kind]
    try:
        return [
            entry
            for piece in module.plan(file, settings, opener)
            for chunk in module.chunks(piece, settings, opener)
            for entry in module.records(chunk, settings)
        ]
    finally:
        opener.close()


def found(entries: Sequence[Record | Exclusion | Counter[str]]) -> list[tuple[str, Any]]:
    """(position, value) of records and (position, reason) of exclusions, in order."""
    return [
        (entry.position, entry.reason if isinstance(entry, Exclusion) else entry.value)
        for entry in entries
        if not isinstance(entry, Counter)
    ]


def changes(entries: Sequence[Record | Exclusion | Counter[str]]) -> Counter[str]:
    """All changes, of records and between them."""
    total: Counter[str] = Counter()
    for entry in entries:
        total.update(entry if isinstance(entry, Counter) else getattr(entry, "changes", {}))
    return total


def reader(root: Path, images: Sequence[Path] = (), max_bytes: int = 1 << 20) -> Reader:
    roots = Roots(input_root=str(root.resolve()), images=tuple(str(path.resolve()) for path in images))
    return Reader(roots, (), max_bytes)


def record(value: Any, position: str = "1", folder: str = "") -> Record:
    return Record(input="in", position=position, value=value, folder=folder)


def examples(dataset: str | Path) -> dict[str, Any]:
    """Position -> example of a dataset."""
    opened = Dataset.open(dataset)
    positions = opened.table("examples")["position"].to_pylist()
    return dict(zip(positions, (example for _, _, example in opened.examples()), strict=True))


def files_of(dataset: Path) -> dict[str, bytes]:
    """Every file of a dataset; of the manifest what byte-identical datasets share."""
    files = {p.relative_to(dataset).as_posix(): p.read_bytes() for p in sorted(dataset.rglob("*")) if p.is_file()}
    manifest = json.loads(files["manifest.json"])
    same: Mapping[str, Any] = {k: v for k, v in manifest.items() if k not in ("dataset_id", "produced_by", "locations")}
    files["manifest.json"] = json.dumps(same, sort_keys=True).encode()
    return files


def packed(data: bytes) -> bytes:
    """gzip of `data` in three members, as parallel compressors write them."""
    third = len(data) // 3 + 1
    return b"".join(gzip.compress(data[start : start + third]) for start in range(0, len(data), third))
