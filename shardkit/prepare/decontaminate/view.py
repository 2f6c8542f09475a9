"""The output: rows of the inputs' shards, what earlier stages said of them, evidence and exclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.decontaminate.items import Bench
from shardkit.prepare.decontaminate.verdicts import Verdicts
from shardkit.prepare.dedup.inputs import Inputs, Positions
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.selection import Selection
from shardkit.records import Exclusion
from shardkit.store.schema import TABLES

_PART_ROWS = 65_536


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Read:
    """What the first reading says of all N rows."""

    sources: npt.NDArray[np.int32]
    names: tuple[str, ...]
    groups: Keys
    """[N]"""
    images: npt.NDArray[np.int32]
    pixels: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    image_rows: Positions
    image_keys: Keys


def evidence(inputs: Inputs, made: Verdicts, benches: Sequence[Bench]) -> Iterator[pa.Table]:
    """tables/evidence: by benchmark, item and row."""
    schema = TABLES["evidence"]
    yield schema.empty_table()
    ids = _ids(inputs, np.array([finding.position for finding in made.evidence], np.int64))
    for start in range(0, len(made.evidence), _PART_ROWS):
        part = made.evidence[start : start + _PART_ROWS]
        rows = [
            {
                "benchmark": benches[made.owner[finding.item]].name,
                "item": made.items[finding.item].label,
                "kind": finding.kind,
                "measure": finding.measure,
                "score": finding.score,
                "example_id": ids[finding.position],
                "verdict": finding.verdict,
                "examples": made.occurrences[finding.item, finding.kind, finding.verdict],
                "excerpt": finding.text,
            }
            for finding in part
        ]
        yield pa.Table.from_pylist(rows, schema=schema)


def _ids(inputs: Inputs, positions: Positions) -> dict[int, str]:
    found: dict[int, str] = {}
    wanted = np.unique(positions)
    for number, dataset in enumerate(inputs.datasets):
        begin, end = inputs.starts[number], inputs.starts[number + 1]
        own = wanted[np.searchsorted(wanted, begin) : np.searchsorted(wanted, end)]
        if len(own):
            ids = dataset.table("examples", ["example_id"])["example_id"].take(pa.array(own - begin))
            found |= dict(zip(own.tolist(), ids.to_pylist(), strict=True))
    return found


def exclusions(selection: Selection, made: Verdicts, benches: Sequence[Bench]) -> Iterator[Exclusion]:
    """Removed rows in the order of the inputs."""
    for rows, table in selection.removed(["input", "position"]):
        places = zip(rows.tolist(), table["input"].to_pylist(), table["position"].to_pylist(), strict=True)
        for row, input_, position in places:
            finding = made.worst[row]
            name, label = benches[made.owner[finding.item]].name, made.items[finding.item].label
            yield Exclusion(
                input=input_,
                position=position,
                reason=f"contaminated_{finding.kind}",
                detail=f"it holds the item {label} of the benchmark {name} ({finding.measure} {finding.score:.2f})",
            )
