"""hf: Parquet that `datasets.load_dataset(FOLDER)` reads with Image features and splits, as the card's header lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from shardkit.prepare.export.formats.format import Format, Writer
from shardkit.prepare.export.formats.parquet import ROW, ParquetWriter
from shardkit.prepare.export.row import OWN

_WHOLE = "all"
_NOT_A_NAME = re.compile(r"\W")


def _value(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


FEATURES = {
    "text": _value("large_string"),
    "images": [{"_type": "Image"}],
    "image_sizes": [[_value("int32")]],
    "ocr_labels": [[_value("int32")]],
    "reading_order": [[_value("int32")]],
    "videos": [_value("large_string")],
    "video_sizes": [[_value("int32")]],
    OWN: _value("large_string"),
}
"""The features of `datasets`, as its Parquet files carry them; a list is written in the form that all its versions read."""

_PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""As the Image feature stores it."""


def _schema() -> pa.Schema:
    place = ROW.get_field_index("images")
    schema = ROW.set(place, pa.field("images", pa.list_(_PICTURE)))
    return schema.with_metadata({"huggingface": orjson.dumps({"info": {"features": FEATURES}})})


def split_name(split: str) -> str:
    """The split as `datasets` can name it: what was never split is `train`, as everywhere there."""
    return "train" if split == _WHOLE else _NOT_A_NAME.sub("_", split)


def _open(folder: Path, name: str) -> Writer:
    return ParquetWriter(folder, name, _schema())


FORMAT = Format(
    about="Parquet with Image features and splits for Hugging Face datasets",
    open=_open,
    name="data/{split}-{number:05d}-of-{count:05d}.parquet",
    read='datasets.load_dataset("{path}")',
    split_name=split_name,
    configs=True,
)
