"""The columns that a condition may name, and what it means of which: of an example, or of each of its images."""

from __future__ import annotations

from dataclasses import dataclass

NUMBER, TEXT, TRUTH, ANY = "a number", "text", "true or false", "whatever the row holds"
"""Types, as messages name them. A metadata field is read as what it is compared with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    type: str
    needs: tuple[str, ...]
    """Columns of the shards that it is read from; empty for what stands in the tables."""
    meaning: str
    of_image: bool = False


COLUMNS: dict[str, Column] = {
    "width": Column(type=NUMBER, needs=("images",), of_image=True, meaning="pixels, upright"),
    "height": Column(type=NUMBER, needs=("images",), of_image=True, meaning="pixels, upright"),
    "pixels": Column(type=NUMBER, needs=("images",), of_image=True, meaning="width x height"),
    "aspect": Column(type=NUMBER, needs=("images",), of_image=True, meaning="width / height"),
    "size": Column(type=NUMBER, needs=("images",), of_image=True, meaning="bytes of the original file"),
    "media_type": Column(type=TEXT, needs=("images",), of_image=True, meaning="image/jpeg, image/png, ..."),
    "class": Column(type=TEXT, needs=("images",), of_image=True, meaning="picture, page or blank"),
    "has_gps": Column(
        type=TRUTH, needs=("images",), of_image=True, meaning="the original file says where it was taken"
    ),
    "word_confidence": Column(
        type=NUMBER, needs=("images",), of_image=True, meaning="mean of those that the layout states"
    ),
    "licence": Column(
        type=TEXT, needs=("images", "metadata"), of_image=True, meaning="as declared; of examples without images too"
    ),
    "images": Column(type=NUMBER, needs=("images",), meaning="number of images of the example"),
    "text": Column(type=TEXT, needs=("segments",), meaning="all text segments, joined"),
    "text_length": Column(type=NUMBER, needs=("segments",), meaning="characters of `text`"),
    "language": Column(
        type=TEXT,
        needs=("segments", "metadata"),
        meaning="as the row declares it, else ISO 639-1 code of the text or und",
    ),
    "confidence": Column(type=NUMBER, needs=("relations",), meaning="the lowest that its relations state"),
    "has_email": Column(type=TRUTH, needs=(), meaning="an e-mail address stands in its texts"),
    "has_phone": Column(type=TRUTH, needs=(), meaning="a telephone number stands in its texts"),
    "source": Column(type=TEXT, needs=("source",), meaning="name of the source"),
    "group": Column(type=TEXT, needs=("group",), meaning="the declared group"),
    "split": Column(type=TEXT, needs=(), meaning="train, val, ...; all where nothing was split"),
    "example_id": Column(type=TEXT, needs=(), meaning="32 hex digits"),
    "input": Column(type=TEXT, needs=(), meaning="raw file, relative to the input root"),
    "position": Column(type=TEXT, needs=(), meaning="line, record, member or stem in it"),
}

ALIASES = {"lang": "language", "license": "licence", "num_images": "images"}
"""Other names -> column."""

METADATA = "metadata"
"""`metadata.NAME` is a field of the row's metadata, `metadata.NAME.NAME` one inside it."""
