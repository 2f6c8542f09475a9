"""The columns of shards and tables. docs/formats.md says in words what each one holds."""

from __future__ import annotations

import pyarrow as pa

FORMAT_VERSIONS = {"dataset": 3, "arrow": 1, "tar": 1, "sequences": 2}
"""Bytes that a newer writer lays out differently get a new number; it is part of every dataset id."""

_LAYOUT = pa.struct(
    [
        ("level", pa.string()),
        ("text", pa.large_string()),
        ("polygon", pa.list_(pa.float64())),
        ("parent", pa.int32()),
        ("order", pa.int32()),
        ("confidence", pa.float64()),
    ]
)
_SEGMENT = pa.struct(
    [
        ("kind", pa.string()),
        ("text", pa.large_string()),
        ("image", pa.int32()),
        ("role", pa.string()),
        ("supervised", pa.bool_()),
        ("name", pa.string()),
    ]
)
_IMAGE_FACTS = [
    ("path", pa.string()),
    ("asset_id", pa.string()),
    ("frame", pa.int32()),
    ("media_type", pa.string()),
    ("width", pa.int32()),
    ("height", pa.int32()),
    ("pixel_id", pa.string()),
    ("stored_xxh3", pa.string()),
    ("ocr_labels", pa.list_(pa.int32())),
    ("reading_order", pa.list_(pa.int32())),
    ("layout", pa.list_(_LAYOUT)),
]
_RELATION = pa.struct(
    [
        ("kind", pa.string()),
        ("images", pa.list_(pa.int32())),
        ("segments", pa.list_(pa.int32())),
        ("scope", pa.string()),
        ("annotator", pa.string()),
        ("confidence", pa.float64()),
    ]
)


def _example_schema(image: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            ("example_id", pa.string()),
            ("source", pa.string()),
            ("group", pa.string()),
            ("segments", pa.list_(_SEGMENT)),
            ("images", pa.list_(image)),
            ("relations", pa.list_(_RELATION)),
            ("metadata", pa.large_string()),
        ]
    )


EXAMPLES = _example_schema(pa.struct([("bytes", pa.large_binary()), *_IMAGE_FACTS]))
"""One row an example, in an Arrow shard."""

EXAMPLES_FACTS = _example_schema(pa.struct(_IMAGE_FACTS))
"""The same without the bytes: rows on their way to a shard, whose pictures are kept beside them."""

EXAMPLES_INDEX = _example_schema(pa.struct([("offset", pa.int64()), ("size", pa.int64()), *_IMAGE_FACTS]))
"""The index beside a tar shard: the same, with the place of the bytes (from the start of the tar) instead of them."""

TABLES: dict[str, pa.Schema] = {
    "examples": pa.schema(
        [
            ("example_id", pa.string()),
            ("shard", pa.string()),
            ("row", pa.int32()),
            ("input", pa.string()),
            ("position", pa.string()),
            ("group", pa.string()),
            ("source", pa.string()),
            ("shard_index", pa.int32()),
            ("parent_id", pa.string()),
            ("has_email", pa.bool_()),
            ("has_phone", pa.bool_()),
        ]
    ),
    "assets": pa.schema(
        [
            ("asset_id", pa.string()),
            ("frame", pa.int32()),
            ("size", pa.int64()),
            ("stored_xxh3", pa.string()),
            ("pixel_id", pa.string()),
            ("phash", pa.string()),
            ("phash_fine", pa.string()),
            ("preview", pa.binary()),
            ("class", pa.string()),
            ("has_gps", pa.bool_()),
        ]
    ),
    "rows": pa.schema(
        [
            ("shard", pa.string()),
            ("block", pa.int32()),
            ("first_row", pa.int32()),
            ("num_rows", pa.int32()),
            ("offset", pa.int64()),
            ("size", pa.int64()),
            ("xxh3", pa.string()),
        ]
    ),
    "derived": pa.schema(
        [
            ("example_id", pa.string()),
            ("image", pa.int32()),
            ("asset_id", pa.string()),
            ("pixel_id", pa.string()),
            ("width", pa.int32()),
            ("height", pa.int32()),
            ("from_asset_id", pa.string()),
            ("from_frame", pa.int32()),
            ("from_pixel_id", pa.string()),
            ("from_width", pa.int32()),
            ("from_height", pa.int32()),
        ]
    ),
    "inputs": pa.schema(
        [
            ("input", pa.string()),
            ("size", pa.int64()),
            ("xxh3", pa.string()),
            ("read", pa.int64()),
            ("kept", pa.int64()),
            ("excluded", pa.int64()),
            ("excluded_by_reason", pa.string()),
        ]
    ),
    "missing": pa.schema(
        [
            ("input", pa.string()),
            ("position", pa.string()),
            ("url", pa.large_string()),
            ("caption", pa.large_string()),
        ]
    ),
    "edges": pa.schema(
        [
            ("level", pa.string()),
            ("score", pa.float64()),
            ("kept_id", pa.string()),
            ("removed_id", pa.string()),
            ("evidence", pa.string()),
        ]
    ),
    "near": pa.schema(
        [
            ("level", pa.string()),
            ("score", pa.float64()),
            ("example_id", pa.string()),
            ("other_id", pa.string()),
            ("outcome", pa.string()),
            ("evidence", pa.string()),
        ]
    ),
    "retention": pa.schema(
        [
            ("level", pa.string()),
            ("threshold", pa.float64()),
            ("dimension", pa.string()),
            ("value", pa.string()),
            ("read", pa.int64()),
            ("kept", pa.int64()),
        ]
    ),
    "paragraphs": pa.schema(
        [
            ("site", pa.string()),
            ("paragraph", pa.string()),
            ("documents", pa.int64()),
            ("site_documents", pa.int64()),
            ("excerpt", pa.string()),
        ]
    ),
    "lines": pa.schema(
        [
            ("example_id", pa.string()),
            ("parent_id", pa.string()),
            ("site", pa.string()),
            ("paragraph", pa.string()),
            ("segment", pa.int32()),
            ("line", pa.int32()),
            ("text", pa.large_string()),
        ]
    ),
    "moved": pa.schema(
        [
            ("example_id", pa.string()),
            ("parent_id", pa.string()),
            ("from_id", pa.string()),
            ("source", pa.string()),
            ("input", pa.string()),
            ("position", pa.string()),
            ("text", pa.large_string()),
        ]
    ),
    "clusters": pa.schema(
        [
            ("cluster", pa.int32()),
            ("example_id", pa.string()),
            ("source", pa.string()),
            ("shard_index", pa.int32()),
            ("row", pa.int32()),
            ("kept", pa.bool_()),
        ]
    ),
    "evidence": pa.schema(
        [
            ("benchmark", pa.string()),
            ("item", pa.string()),
            ("kind", pa.string()),
            ("measure", pa.string()),
            ("score", pa.float64()),
            ("example_id", pa.string()),
            ("verdict", pa.string()),
            ("examples", pa.int64()),
            ("excerpt", pa.string()),
        ]
    ),
    "groups": pa.schema([("example_id", pa.string()), ("declared", pa.string()), ("component", pa.string())]),
    "ledger": pa.schema(
        [
            ("order", pa.int64()),
            ("key", pa.string()),
            ("kind", pa.string()),
            ("split", pa.string()),
            ("rows", pa.int64()),
        ]
    ),
    "boilerplate": pa.schema(
        [
            ("kind", pa.string()),
            ("value", pa.large_string()),
            ("groups", pa.int64()),
            ("examples", pa.int64()),
            ("excerpt", pa.string()),
        ]
    ),
}
"""Table name -> columns; the file is tables/<name>.parquet."""

PROVENANCE = pa.schema(
    [
        ("asset_id", pa.string()),
        ("frame", pa.int32()),
        ("example_id", pa.string()),
        ("source", pa.string()),
        ("revision", pa.string()),
        ("retrieved_at", pa.string()),
        ("input", pa.string()),
        ("position", pa.string()),
        ("origin", pa.string()),
        ("digest", pa.string()),
        ("licence", pa.string()),
        ("decoder", pa.string()),
        ("preprocessing", pa.string()),
        ("relation", pa.string()),
        ("annotator", pa.string()),
        ("group", pa.string()),
        ("derived_recipe", pa.string()),
        ("tokenizer", pa.string()),
        ("processor", pa.string()),
    ]
)
"""provenance/provenance.parquet: one row per (asset, origin). The seven fields of DESIGN section 5 in order: source and
revision; digest and licence; decoder and preprocessing; relation and annotator; group; derived recipe; tokenizer and
processor."""
