"""The tables of a split, beside those that its units write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import Keys, asset_keys, leading, look_up
from shardkit.prepare.split.evidence import describe
from shardkit.prepare.split.groups import Groups
from shardkit.prepare.split.ties import KINDS, NEAR_KINDS
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column


def groups_table(groups: Groups, written: Indices) -> pa.Table:
    """tables/groups: declared key and component of each row, in the order in which they were written."""
    names = groups.names()
    codes = groups.rows.declared[written]
    declared = pa.array(groups.rows.names, pa.string()).take(pa.array(codes, mask=codes < 0))
    columns = {
        "example_id": groups.rows.examples["example_id"].take(pa.array(written)),
        "declared": declared,
        "component": names.take(pa.array(groups.of_own[written])),
    }
    return pa.table(columns, schema=TABLES["groups"])


def boilerplate_table(groups: Groups) -> pa.Table:
    """tables/boilerplate: values in so many declared groups that they tie nothing by being equal, or near (near_*)."""
    listed = [*_listed(groups, groups.frequent, KINDS), *_listed(groups, groups.common, NEAR_KINDS)]
    listed.sort(key=lambda row: (row["kind"], -row["groups"], row["value"]))
    return pa.Table.from_pylist(listed, schema=TABLES["boilerplate"])


def _listed(groups: Groups, wanted: Keys, kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows for the values of `wanted` that rows of the split have, called by `kinds`."""
    rows = groups.rows
    own = rows.value_rows < rows.num_own
    there = np.isin(rows.values, wanted)
    values, first, counts = np.unique(rows.values[own & there], return_index=True, return_counts=True)
    known = describe(rows, dict(zip(values.tolist(), rows.value_rows[own & there][first].tolist(), strict=True)))
    declared = rows.declared[rows.value_rows[there]]
    pairs = np.unique(np.stack([rows.values[there], declared.astype(np.uint64)])[:, declared >= 0], axis=1)
    in_groups = dict(zip(*(part.tolist() for part in np.unique(pairs[0], return_counts=True)), strict=True))
    return [
        {"kind": kinds[level], "value": value, "groups": in_groups.get(bits, 0), "examples": count, "excerpt": short}
        for (bits, (level, value, short)), count in zip(known.items(), counts.tolist(), strict=True)
    ]


def assets(dataset: Dataset, ids: Keys, stays: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    """tables/assets of the input, without the images of rows alone that do not stay.

    Args:
        ids: [num_own] first 64 bits of the example id.
        stays: [num_own] rows that are written.
    """
    table = dataset.table("assets").cast(TABLES["assets"])
    gone = _gone_assets(dataset, ids, stays)
    yield table.filter(pa.array(~np.isin(asset_keys(table), gone)))


def provenance(
    dataset: Dataset, groups: Groups, excluded: npt.NDArray[np.bool_], stays: npt.NDArray[np.bool_]
) -> Iterator[pa.Table]:
    """Provenance of the input, with the component as group; without the rows of excluded examples.

    A further origin of an image, left by a removed duplicate, has the component of the example that holds the image.
    """
    table = dataset.table("provenance").cast(PROVENANCE)
    ids, images = leading(table["example_id"]), asset_keys(table)
    own = slice(0, groups.rows.num_own)
    known, first = np.unique(groups.rows.ids[own], return_index=True)
    component = look_up(ids, known, groups.of_own[first])
    holders = (component >= 0) & (images != 0)
    of_images, first = np.unique(images[holders], return_index=True)
    elsewhere = look_up(images, of_images, component[holders][first])
    component = np.where(component >= 0, component, np.where(images != 0, elsewhere, -1))
    gone = np.isin(ids, np.setdiff1d(groups.rows.ids[own][excluded], groups.rows.ids[own][~excluded]))
    gone |= np.isin(images, _gone_assets(dataset, groups.rows.ids[own], stays))
    names = groups.names().take(pa.array(component, mask=component < 0))
    yield replace_column(table, "group", names).filter(pa.array(~gone))


def _gone_assets(dataset: Dataset, ids: Keys, stays: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """Keys of images that only rows show that do not stay."""
    if stays.all():
        return np.empty(0, np.uint64)
    table = dataset.table("provenance", ["example_id", "asset_id", "frame"])
    images, shown_by = asset_keys(table), leading(table["example_id"])
    shown = np.isin(shown_by, ids[stays])
    return np.setdiff1d(images[~shown & np.isin(shown_by, ids[~stays])], images[shown])
