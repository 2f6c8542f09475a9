"""What a split says of itself: rows and groups by split, rows by source, and everything that did not go as asked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.components import Indices
from shardkit.prepare.split.assign import Assignment
from shardkit.prepare.split.groups import Groups

_LISTED = 20


def describe_split(
    groups: Groups,
    assignment: Assignment,
    shares: Mapping[str, Fraction],
    split_of: Indices,
    boilerplate: pa.Table,
    *,
    group_by: str | None,
) -> dict[str, Any]:
    """The report, as JSON values.

    Args:
        split_of: [num_own] place of the row's split; -1 where the row is left out.
    """
    rows = groups.rows
    names = groups.names()
    written = int((split_of >= 0).sum())
    sources = rows.sources[: rows.num_own]
    kinds = boilerplate["kind"].to_pylist()
    return {
        "splits": {
            name: _split(groups, split_of == place, written, share)
            for place, (name, share) in enumerate(shares.items())
        },
        "by_source": {
            source: {name: int(((split_of == place) & (sources == k)).sum()) for place, name in enumerate(shares)}
            for k, source in enumerate(rows.source_names)
        },
        "groups": {
            "components": groups.num,
            "declared": len(np.unique(rows.declared[: rows.num_own][rows.declared[: rows.num_own] >= 0])),
            "joined": int(((groups.declared >= 2) & (groups.size > 0)).sum()),
            "largest": int(groups.size.max(initial=0)),
            "without_key": int((rows.declared[: rows.num_own] < 0).sum()),
        },
        "method": assignment.method,
        "oversized": {
            "components": len(assignment.oversized),
            "listed": [
                {"component": names[k].as_py(), "examples": int(groups.size[k])}
                for k in sorted(assignment.oversized.tolist(), key=lambda k: (-groups.size[k], k))[:_LISTED]
            ],
        },
        "boilerplate": {kind: kinds.count(kind) for kind in ("asset", "pixel", "text")},
        "conflicts": {
            "components": len(np.unique(groups.of_own[assignment.excluded])),
            "examples": len(assignment.excluded),
        },
        "notes": _notes(groups, assignment, group_by),
    }


def _split(groups: Groups, rows: np.typing.NDArray[np.bool_], written: int, share: Fraction) -> dict[str, Any]:
    got = int(rows.sum())
    realized = got / written if written else 0.0
    return {
        "asked": float(share),
        "share": round(realized, 6),
        "deviation": round(realized - float(share), 6),
        "examples": got,
        "groups": len(np.unique(groups.of_own[rows])),
    }


def _notes(groups: Groups, assignment: Assignment, group_by: str | None) -> list[str]:
    """Sentences for people."""
    examples = groups.rows.examples
    notes = []
    if examples.num_rows == 0:
        notes.append("the input is empty")
    if group_by is None:
        alone = pc.sum(pc.fill_null(pc.equal(examples["group"], examples["input"]), fill_value=False)).as_py() or 0
        if alone:
            notes.append(
                f"examples whose only group is their own file: {alone}; if pages of one document must stay together, name it "
                "with --group-by '@path:REGEX'"
            )
    if len(assignment.oversized):
        notes.append(
            f"groups larger than the whole share asked for a split: {len(assignment.oversized)}; they went to the largest one"
        )
    if len(assignment.excluded):
        notes.append(
            f"examples left out because new data ties them to a split that is held out more strictly: {len(assignment.excluded)}"
        )
    return notes
