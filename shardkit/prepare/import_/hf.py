"""hf: what Hugging Face `datasets` saves (`save_to_disk`), and folders of Parquet or Arrow files, as on the Hub.

SET/dataset_dict.json                  {"splits": ["train", "test"]}, a folder each
SET/train/state.json                   lists the data files; what else lies there (cache-*.arrow) is not of the set
SET/data/train-00000-of-00002.parquet  the split is in the name
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from shardkit.errors import SourceError
from shardkit.prepare.import_.found import Found, files_below, split_of

_SUFFIXES = (".parquet", ".arrow")
_AGAIN = "load it with datasets.load_from_disk and save it again"


def find(path: Path) -> Iterator[Found]:
    """The data files of a set.

    Raises:
        SourceError: where there is none, or its lists are not as they must be.
    """
    found = list(_find(path))
    if not found:
        raise SourceError(
            "there is no Arrow or Parquet file of a set here",
            where=str(path),
            hint="name a folder of save_to_disk, or one of Parquet files; folders of pictures are for `shardkit ingest`",
        )
    yield from found


def _find(path: Path) -> Iterator[Found]:
    if (path / "dataset_dict.json").is_file():
        splits = _object(path / "dataset_dict.json").get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) and _is_name(name) for name in splits):
            raise SourceError("it does not list splits", where=str(path / "dataset_dict.json"), hint=_AGAIN)
        for name in splits:
            yield from _saved(path / name, name)
    elif (path / "state.json").is_file():
        yield from _saved(path, None)
    else:
        saved: set[Path] = set()
        for file in files_below(path, _SUFFIXES):
            folder = file.parent
            if path.is_dir() and (folder / "state.json").is_file():
                if folder not in saved:
                    saved.add(folder)
                    yield from _saved(folder, split_of(f"{folder.relative_to(path).as_posix()}/"))
            elif not file.name.startswith("cache-"):
                yield Found(
                    path=file, split=split_of(file.relative_to(path).as_posix() if path.is_dir() else file.name)
                )


def _saved(folder: Path, split: str | None) -> Iterator[Found]:
    """The data files that a saved set lists, in its order."""
    state = _object(folder / "state.json")
    files = state.get("_data_files")
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in files or []]
    if not isinstance(files, list) or not all(isinstance(name, str) and _is_name(name) for name in names):
        raise SourceError("it does not list data files", where=str(folder / "state.json"), hint=_AGAIN)
    if state.get("_indices_data_files"):
        raise SourceError(
            "the set was saved as a selection of rows that lie elsewhere in its files",
            where=str(folder / "state.json"),
            hint="load it, call flatten_indices() and save it again",
        )
    told = state.get("_split")
    for name in names:
        file = folder / str(name)
        if not file.is_file():
            raise SourceError(f"the set lists {name}, which is not there", where=str(folder), hint="fetch it whole")
        yield Found(path=file, split=split or (told if isinstance(told, str) else None))


def _is_name(name: str) -> bool:
    """A name inside the folder."""
    return bool(name) and "/" not in name and "\\" not in name and name not in (".", "..")


def _object(file: Path) -> dict[str, Any]:
    try:
        body = orjson.loads(file.read_bytes())
    except OSError as error:
        raise SourceError(
            f"it cannot be read ({error.strerror})", where=str(file), hint="fetch the set whole"
        ) from None
    except orjson.JSONDecodeError as error:
        raise SourceError(f"it is no JSON ({error})", where=str(file), hint=_AGAIN) from None
    if not isinstance(body, dict):
        raise SourceError("it is no JSON object", where=str(file), hint=_AGAIN)
    return body
