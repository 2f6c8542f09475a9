"""A dataset of the library `datasets`, by index: what `load_from_disk` or `load_dataset` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardkit.errors import ConfigError, SourceError
from shardkit.loader.foreign.sample import Sample


class HFDataset:
    """Samples of one dataset; a row is a sample.

    Args:
        dataset: by index; an IterableDataset has no places to plan by.
        text: column of the texts.
        images: column of the images, one or a list of them a row; None for texts alone. Bytes, or what the feature
            Image holds.
        name: of the source.

    Raises:
        ConfigError: where it has no such column, or cannot be read by index.
    """

    def __init__(self, dataset: Any, *, text: str = "text", images: str | None = "image", name: str = "hf") -> None:
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
        self._dataset = dataset if images is None else _undecoded(dataset, images)

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
        return Sample(
            key=str(row),
            text="" if text is None else str(text),
            images=tuple(self._encoded(row, value) for value in found),
        )

    def place(self, shard: int, row: int) -> str:
        return f"{self.name}:{row}"

    def _encoded(self, row: int, value: Any) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, Mapping):
            if value.get("bytes"):
                return bytes(value["bytes"])
            if value.get("path"):
                try:
                    with open(value["path"], "rb") as file:
                        return file.read()
                except OSError as error:
                    raise SourceError(
                        f"an image cannot be read ({error.strerror})", where=str(value["path"]), hint="restore the file"
                    ) from error
        raise SourceError(
            f"the column {self._images} holds no encoded image but a {type(value).__name__}",
            where=self.place(0, row),
            hint="cast the column to the feature Image, or give bytes",
        )


def _undecoded(dataset: Any, column: str) -> Any:
    """The dataset whose images come as they are stored; the feature says whether they would be decoded."""
    feature = dataset.features[column]
    inner = getattr(feature, "feature", None)
    if hasattr(feature, "decode"):
        return dataset.cast_column(column, type(feature)(decode=False))
    if inner is not None and hasattr(inner, "decode"):
        return dataset.cast_column(column, type(feature)(type(inner)(decode=False)))
    return dataset
