"""A dataset of the library `datasets`, by index: what `load_from_disk` or `load_dataset` gives."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.loader.foreign.sample import Sample, Unusable


class HFDataset:
    """Samples of one dataset; a row is a sample.

    Args:
        dataset: by index; an IterableDataset has no places to plan by.
        text: column of the texts.
        images: column of the images, one or a list of them a row; None for texts alone. Bytes, or what the feature
            Image holds.
        name: of the source.
        roots: folders in which images may lie that the dataset has by path; others are left out.

    Raises:
        ConfigError: where it has no such column, or cannot be read by index.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        text: str = "text",
        images: str | None = "image",
        name: str = "hf",
        roots: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        if isinstance(dataset, Mapping):
            raise ConfigError(
                f"these are several splits ({', '.join(map(str, dataset))})",
                hint="give one of them, such as found['train']",
            )
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "column_names"):
            raise ConfigError(
                f"a {type(dataset).__name__} cannot be read by index",
                hint="give one split of a dataset that was loaded without streaming",
            )
        for column in (text, images):
            if column is not None and column not in dataset.column_names:
                raise ConfigError(
                    f"there is no column {column!r} (columns: {', '.join(map(str, dataset.column_names))})",
                    hint="name the columns with text= and images=",
                )
        self.name = name
        self._text, self._images = text, images
        self._roots = [Path(root).resolve() for root in roots]
        # Tensors and arrays become plain values again; a transform of the user's own stays.
        plain = dataset if dataset.format["type"] == "custom" else dataset.with_format(None)
        self._dataset = plain if images is None else _undecoded(plain, images)

    @property
    def num_rows(self) -> list[int]:
        return [len(self._dataset)]

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "format": "hf",
            "name": self.name,
            "columns": [self._text, self._images],
            "rows": len(self._dataset),
            # Of its making, not of its contents; reading a column undecoded does not change what it is.
            "features": sorted(map(str, self._dataset.column_names)),
        }

    def sample(self, shard: int, row: int) -> Sample:
        values = self._dataset[row]
        shown = [] if self._images is None else values[self._images]
        found = shown if isinstance(shown, list) else [] if shown is None else [shown]
        text = values[self._text]
        if text is not None and not isinstance(text, str):
            raise Unusable("no_text", f"the column {self._text} holds a {type(text).__name__}, which is no text")
        return Sample(
            key=str(row),
            text=text or "",
            images=tuple(self._encoded(row, value) for value in found),
        )

    def place(self, shard: int, row: int) -> str:
        return f"{self.name}:{row}"

    def _encoded(self, row: int, value: Any) -> bytes:
        if isinstance(value, Mapping):
            if value.get("bytes") is None and value.get("path"):
                return self._read(str(value["path"]))
            value = value.get("bytes")
        if isinstance(value, bytes):
            return value
        raise Unusable(
            "not_an_image",
            f"the column {self._images} holds a {type(value).__name__} and no encoded image: cast it to the feature Image",
        )

    def _read(self, path: str) -> bytes:
        """A picture that the dataset has by its path only."""
        file = Path(path).resolve()
        if not any(file.is_relative_to(root) for root in self._roots):
            raise Unusable("outside_root", f"the image {path} lies in none of roots=[...]")
        try:
            return file.read_bytes()
        except OSError as error:
            raise Unusable("missing_image", f"the image {path} cannot be read ({error.strerror})") from error


def _undecoded(dataset: Any, column: str) -> Any:
    """The dataset whose images come as they are stored; the feature says whether they would be decoded."""
    feature = dataset.features[column]
    inner = getattr(feature, "feature", None)
    if hasattr(feature, "decode"):
        return dataset.cast_column(column, type(feature)(decode=False))
    if inner is not None and hasattr(inner, "decode"):
        return dataset.cast_column(column, type(feature)(type(inner)(decode=False)))
    return dataset
