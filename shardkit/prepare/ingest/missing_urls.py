"""--missing-urls: the addresses without a file, as a downloader takes them.

The ending of the file's name says in which of img2dataset's input forms: .csv and .tsv with a header, .jsonl, .parquet
(each with the columns url and caption), anything else one address a line (its `txt`). The list comes from tables/missing of
the committed dataset, so a run that finds its work done writes the same file.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.digest import xxh3
from shardkit.errors import ConfigError, OutputError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.store.dataset import Dataset
from shardkit.store.files import output_errors, output_is, sync_folder

Row = tuple[str, str | None]
"""(address, caption)"""


def check_place(path: Path, config: IngestConfig) -> None:
    """Refuse a file that cannot be written, or should not be, before the work begins.

    Raises:
        ConfigError: where nothing is committed, or the place is an input's or the output's.
        OutputError: where there is no such folder.
    """
    if config.dry_run or config.output is None:
        raise ConfigError(
            "--missing-urls is written after a commit, and --dry-run makes none", hint="leave one of them out"
        )
    place = path.resolve()
    inputs = (*config.paths, *config.url_maps)
    if any(place == given.resolve() for given in inputs):
        raise ConfigError("--missing-urls is an input", where=str(path), hint="name a file of its own")
    if place.is_relative_to(Path(os.path.abspath(config.output)).resolve()):
        raise ConfigError("--missing-urls lies inside the dataset", where=str(path), hint="name a file beside it")
    if not place.parent.is_dir() or place.is_dir():
        raise OutputError(
            "there is no folder for the file" if not place.is_dir() else "this is a folder, not a file",
            where=str(path),
            hint="make the folder, or give another path to --missing-urls",
        )


def write_missing(dataset: Dataset, path: Path, *, overwrite: bool) -> None:
    """Write the addresses that `dataset` misses to `path`; returns when the file is on disk.

    Raises:
        OutputError: where another file is there already, unless `overwrite` is set, or writing fails.
    """
    rows: dict[Row, None] = {}
    if dataset.has_table("missing"):
        table = dataset.table("missing", ["url", "caption"])
        rows = dict.fromkeys(zip(table["url"].to_pylist(), table["caption"].to_pylist(), strict=True))
    data = FORMS.get(path.suffix.lower(), _lines)(rows)
    with output_is("the list", "choose another path with --missing-urls"), output_errors(path):
        if path.exists() and not overwrite:
            if path.read_bytes() == data:
                return
            raise OutputError(
                f"another file is there; the dataset {dataset.path} is committed",
                where=str(path),
                hint="run the command again with another path for --missing-urls, or with --overwrite",
            )
        temporary = path.with_name(f".{path.name}.{xxh3(data)}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)


def _lines(rows: Iterable[Row]) -> bytes:
    """Each address once, one a line."""
    return "".join(f"{url}\n" for url in dict.fromkeys(url for url, _ in rows)).encode()


def _table(delimiter: str) -> Callable[[Iterable[Row]], bytes]:
    """A header and a line a row. Line breaks and tabs of a caption are spaces here: readers of these forms take one line a row."""

    def write(rows: Iterable[Row]) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerow(("url", "caption"))
        writer.writerows((url, " ".join((caption or "").split())) for url, caption in rows)
        return out.getvalue().encode()

    return write


def _jsonl(rows: Iterable[Row]) -> bytes:
    return b"".join(orjson.dumps({"url": url, "caption": caption}) + b"\n" for url, caption in rows)


def _parquet(rows: Iterable[Row]) -> bytes:
    schema = pa.schema([("url", pa.string()), ("caption", pa.string())])
    table = pa.Table.from_pylist([{"url": url, "caption": caption} for url, caption in rows], schema=schema)
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return bytes(out.getvalue())


FORMS: dict[str, Callable[[Iterable[Row]], bytes]] = {
    ".csv": _table(","),
    ".tsv": _table("\t"),
    ".jsonl": _jsonl,
    ".parquet": _parquet,
}
"""Ending of the file's name -> how it is written."""
