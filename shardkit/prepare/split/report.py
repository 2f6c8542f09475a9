"""What a split says of itself: rows and groups by split, source and language, and everything that did not go as asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.components import Indices
from shardkit.prepare.split.assign import Assignment, Division, straddling
from shardkit.prepare.split.groups import Groups, near_ties
from shardkit.prepare.split.order import Prefix
from shardkit.prepare.split.reasons import BRIDGE, CODES, CONFLICT, REASONS
from shardkit.prepare.split.ties import KINDS, NEAR_KINDS, NOBODY

_LISTED = 20


def describe_split(
    groups: Groups,
    assignment: Assignment,
    division: Division,
    split_of: Indices,
    *,
    boilerplate: pa.Table,
    prefixes: Sequence[Prefix],
    group_by: str | None,
) -> dict[str, Any]:
    """The report, as JSON values.

    Args:
        split_of: [num_own] place of the row's split; -1 where the row is left out.
        prefixes: of each split, how far its shards stray from its sources.
    """
    rows = groups.rows
    own = slice(0, rows.num_own)
    kinds = boilerplate["kind"].to_pylist()
    whole = _table(groups, np.zeros(rows.num_own, np.int32), ("",), division, split_of)[""]
    return {
        "splits": {name: {"asked": _asked(division, name), **counts} for name, counts in whole.items()},
        "by_source": _table(groups, rows.sources[own], rows.source_names, division, split_of),
        "by_language": _table(groups, rows.languages[own], rows.language_names, division, split_of),
        "groups": {
            "components": groups.num,
            "declared": len(np.unique(rows.declared[own][rows.declared[own] >= 0])),
            "joined": int(((groups.declared >= 2) & (groups.size > 0)).sum()),
            "largest": int(groups.size.max(initial=0)),
            "without_key": int((rows.declared[own] < 0).sum()),
            "near_pairs": len(near_ties(rows, groups.common)[0]),
            "with_parent": len(np.unique(rows.children[(rows.children < rows.num_own) & (rows.parents != NOBODY)])),
            "orphans": len(rows.orphans),
        },
        "method": assignment.method,
        "oversized": _oversized(groups, assignment),
        "boilerplate": {kind: kinds.count(kind) for kind in (*KINDS.values(), *NEAR_KINDS.values())},
        "conflicts": _conflicts(groups, assignment, division),
        "straddling": _straddling(groups, straddling(groups, assignment, division.cutoffs)),
        "prefixes": {
            name: {
                "shards": prefix.shards, "worst_deviation": round(prefix.worst, 6),
                "source": prefix.source, "after_shards": prefix.after,
            }
            for name, prefix in zip(division.names, prefixes, strict=True)
        },
        "notes": _notes(groups, assignment, division, group_by),
    }  # fmt: skip


def _asked(division: Division, name: str) -> float | None:
    return float(division.shares[name]) if division.shares else None


def _table(
    groups: Groups, codes: npt.NDArray[np.int32], names: Sequence[str], division: Division, split_of: Indices
) -> dict[str, dict[str, dict[str, Any]]]:
    """Name -> split -> examples, groups, share among the examples of that name, deviation from what was asked.

    Args:
        codes: [num_own] index into `names`.
    """
    num_splits = len(division.names)
    stays = split_of >= 0
    cell = codes[stays].astype(np.int64) * num_splits + split_of[stays]
    examples = np.bincount(cell, minlength=len(names) * num_splits).reshape(len(names), num_splits)
    pairs = np.unique((cell << 32) | groups.of_own[stays])
    components = np.bincount(pairs >> 32, minlength=len(names) * num_splits).reshape(len(names), num_splits)
    present = np.bincount(codes, minlength=len(names)) > 0
    found = {}
    for number, name in enumerate(names):
        if not present[number] and name:
            continue
        total = int(examples[number].sum())
        found[name] = {
            split: _cell(int(examples[number, k]), int(components[number, k]), total, _asked(division, split))
            for k, split in enumerate(division.names)
        }
    return found


def _cell(examples: int, components: int, total: int, asked: float | None) -> dict[str, Any]:
    share = examples / total if total else 0.0
    return {
        "examples": examples,
        "groups": components,
        "share": round(share, 6),
        "deviation": None if asked is None else round(share - asked, 6),
    }


def _oversized(groups: Groups, assignment: Assignment) -> dict[str, Any]:
    names = groups.names()
    order = sorted(assignment.oversized.tolist(), key=lambda k: (-groups.size[k], k))
    return {
        "components": len(order),
        "listed": [{"component": names[k].as_py(), "examples": int(groups.size[k])} for k in order[:_LISTED]],
    }


def _conflicts(groups: Groups, assignment: Assignment, division: Division) -> dict[str, Any]:
    """Components that new data makes of rows that were placed in different splits."""
    conflict, bridge = (assignment.left == CODES.index(code) for code in (CONFLICT, BRIDGE))
    names = groups.names()
    torn = np.unique(groups.of_own[conflict | bridge])
    listed = []
    for component in torn[:_LISTED].tolist():
        here = groups.of_own == component
        before = np.bincount(assignment.placed[here & (assignment.placed >= 0)], minlength=len(division.names))
        listed.append(
            {
                "component": names[component].as_py(),
                "placed": {name: int(before[k]) for k, name in enumerate(division.names) if before[k]},
                "takes": division.names[assignment.of_component[component]],
                "left_out": int((here & (conflict | bridge)).sum()),
            }
        )
    return {
        "components": len(torn),
        "examples": int(conflict.sum()),
        "bridges": int(bridge.sum()),
        "listed": listed,
    }


def _straddling(groups: Groups, older: npt.NDArray[np.bool_]) -> dict[str, int]:
    return {"components": len(np.unique(groups.of_own[older])), "examples": int(older.sum())}


def _notes(groups: Groups, assignment: Assignment, division: Division, group_by: str | None) -> list[str]:
    """Sentences for people."""
    rows = groups.rows
    notes = []
    if rows.examples.num_rows == 0:
        notes.append("the input is empty")
    if group_by is None:
        alone = pc.sum(pc.fill_null(pc.equal(rows.examples["group"], rows.examples["input"]), fill_value=False)).as_py()
        if alone:
            notes.append(
                f"examples whose only group is their own file: {alone}; if pages of one document must stay together, name it "
                "with --group-by '@path:REGEX'"
            )
    if len(assignment.oversized):
        notes.append(
            f"groups larger than the whole share asked for a split: {len(assignment.oversized)}; they went to the largest one"
        )
    older = int(straddling(groups, assignment, division.cutoffs).sum())
    if older:
        notes.append(f"examples older than their split begins, because later ones of their group are in it: {older}")
    if len(rows.orphans):
        notes.append(f"examples whose parent is nowhere, tied to others of the same parent alone: {len(rows.orphans)}")
    counts = np.bincount(assignment.left, minlength=len(CODES)).tolist()
    for code, count in zip(CODES, counts, strict=True):
        if code is not None and count:
            notes.append(f"examples left out, {code}: {count}; {REASONS[code]}")
    return notes
