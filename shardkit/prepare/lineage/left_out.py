"""Which exclusion of a stage is that of a row: several inputs may call rows of theirs by one place.

inputs by id, each in the order of its tables/examples   ->  rows of the place that the stage does not hold
exclusions of the place, in the order of the file        ->  these rows, one by one
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.exclusions import exclusions_of
from shardkit.prepare.lineage.index import Index

_PLACE = ["input", "position"]


def inputs_of(ancestry: Ancestry, index: Index) -> list[Index]:
    """The datasets at hand whose rows a stage read, in the order in which it read them."""
    wanted = set(index.dataset.manifest.inputs)
    found = [one for one in ancestry.indices if one.dataset.id in wanted]
    return sorted(found, key=lambda one: one.dataset.id)


def left_out(
    index: Index, inputs: Sequence[Index], name: str, position: str, ids: Collection[str]
) -> list[dict[str, Any]]:
    """The exclusions of rows that came from one place, and those that name a row by its id, as tokenize does. Where inputs
    are missing, those of all rows that are called so.

    Args:
        index: of the stage.
        inputs: what it read, see `inputs_of`.
        name: of the raw input.
        ids: what the rows are called.
    """
    by_id = [(dataset_id, one) for dataset_id in index.dataset.manifest.inputs for one in sorted(ids)]
    found = exclusions_of(index.dataset, [(name, position), *by_id])
    named = [line for line in found if (line["input"], line["position"]) in by_id]
    lines = [line for line in found if (line["input"], line["position"]) == (name, position)]
    rows = [
        one
        for before in inputs
        for one in before.example_ids(before.examples_at(name, position))
        if not _holds(index, one, name, position)
    ]
    if len(rows) != len(lines):
        return [*lines, *named]
    return [*(line for line, one in zip(lines, rows, strict=True) if one in ids), *named]


def _holds(index: Index, example_id: str, name: str, position: str) -> bool:
    positions = [*index.examples_of(example_id), *index.children_of(example_id)]
    return {"input": name, "position": position} in index.examples.take(positions, _PLACE)


def last_left_out(ancestry: Ancestry, example_id: str) -> tuple[Index, dict[str, Any]] | None:
    """The newest stage that read an example, or what became of it, and left it out, and its exclusion; None where none
    did."""
    ids = {example_id}
    for index in ancestry.indices:
        ids.update(one for known in tuple(ids) for one in index.example_ids(index.children_of(known)))
    for index in reversed(ancestry.indices):
        inputs = inputs_of(ancestry, index)
        positions = ((one, [at for known in sorted(ids) for at in one.examples_of(known)]) for one in inputs)
        for place in (place for one, rows in positions for place in one.examples.take(rows, _PLACE)):
            for line in left_out(index, inputs, place["input"], place["position"], ids):
                return index, line
    return None
