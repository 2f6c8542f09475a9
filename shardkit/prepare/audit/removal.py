"""Images whose stored bytes are not the original: provenance must say what was removed from them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc

from shardkit.prepare.dedup.keys import asset_keys
from shardkit.store.dataset import Dataset


def unexplained(dataset: Dataset, changed: Mapping[int, str]) -> list[str]:
    """A sentence for each image of `changed` (asset key -> where) from which nothing is known to have been removed."""
    if not changed:
        return []
    table = dataset.table("provenance", ["asset_id", "frame", "preprocessing"])
    removed = pc.starts_with(pc.fill_null(table["preprocessing"], ""), "removed:")
    known = set(asset_keys(table.filter(removed)).tolist())
    return [
        f"{where}: the asset id is not that of the bytes, and provenance knows of nothing that was removed"
        for key, where in changed.items()
        if key not in known
    ]
