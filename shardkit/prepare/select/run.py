"""`shardkit select`: a dataset in, a view of the examples out of which a condition holds.

condition -> tree -> columns and types -> slices of rows, each part of the condition judged -> view, exclusions
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError
from shardkit.prepare.carried import carried
from shardkit.prepare.dedup.inputs import Inputs, Positions, facts_of, open_inputs
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.names import Names
from shardkit.prepare.result import StageResult, stage_result
from shardkit.prepare.select.bind import Bound, bind, near_names
from shardkit.prepare.select.config import SELECT_VERSION, SelectConfig
from shardkit.prepare.select.evaluate import judge
from shardkit.prepare.select.parse import parse
from shardkit.prepare.select.read import Part, Wanted, read_slice
from shardkit.prepare.select.reasons import FALSE, UNKNOWN
from shardkit.prepare.select.tables import Tables
from shardkit.prepare.select.tree import Node, written
from shardkit.prepare.selection import Selection
from shardkit.records import Exclusion, Tally
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.text import language

_FIRST_ROWS = 1000
"""Rows whose metadata fields may be named without `metadata.` before them."""
_NAMES_KEPT = 1000
"""Metadata fields that are remembered, to suggest one where a name is wrong."""


def run(config: SelectConfig, on_progress: Progress = silent) -> StageResult:
    """Judge every example and commit the view; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: where the condition is none, names what is not there, or mixes types.
        IntegrityError: where the input is damaged.
        OutputError: where the output cannot be written.
    """
    condition = parse(config.where)
    inputs = open_inputs([config.input], bases=config.bases)
    dataset = inputs.datasets[0]
    parts = condition.parts if condition.kind == "and" else (condition,)
    texts = tuple(map(written, parts))
    bound = bind(condition, _first_fields(inputs))
    if config.dry_run:
        return stage_result(config.output, None, *_told(_judged(config, inputs, bound, on_progress), condition, texts))
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    with Output(
        config.output,
        stage="select",
        recipe={"version": SELECT_VERSION, "where": written(condition)},
        inputs=[dataset.id],
        protected=sorted({dataset.path, *(shard.holder.path for shard in dataset.shards)}),
        overwrite=config.overwrite,
    ) as output:
        if output.unchanged is not None:
            there = output.unchanged
            return stage_result(config.output, there, there.manifest.counts, there.manifest.report, unchanged=True)
        judged = _judged(config, inputs, bound, on_progress)
        selection = Selection(inputs=inputs, counted=judged, kept=judged.kept)
        counts, report = _told(judged, condition, texts)
        sealed = Sealed(
            tally=judged.tally,
            splits=inputs.splits,
            shards=selection.shards,
            tables={"examples": selection.examples(), "assets": selection.assets(), **carried(selection)},
            provenance=selection.provenance(),
            exclusions=_exclusions(selection, judged, texts),
            locations=selection.locations,
            totals=selection.totals(),
            report=report,
            format_versions={"language": language.model()} if "language" in bound.columns else {},
        )
        return stage_result(config.output, output.commit(sealed), counts, report)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Judged:
    """What is known of all N rows. The first seven are what a selection counts by."""

    sources: npt.NDArray[np.int32]
    names: tuple[str, ...]
    images: npt.NDArray[np.int32]
    pixels: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    image_rows: Positions
    image_keys: Keys
    failed: npt.NDArray[np.int32]
    """[N] the first part of the condition that does not hold; -1 where all do."""
    unknown: npt.NDArray[np.bool_]
    """[N] whether that part cannot be told."""

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        return self.failed < 0

    @property
    def tally(self) -> Tally:
        left = ~self.kept
        excluded = Counter({FALSE: int((left & ~self.unknown).sum()), UNKNOWN: int((left & self.unknown).sum())})
        return Tally(read=len(left), kept=int(self.kept.sum()), excluded=+excluded)


def _first_fields(inputs: Inputs) -> frozenset[str]:
    """Metadata fields of the first rows."""
    rows = (facts for piece in inputs.slices(np.arange(min(inputs.num_rows, _FIRST_ROWS))) for facts in facts_of(piece))
    return frozenset(name for facts in islice(rows, _FIRST_ROWS) for name in orjson.loads(facts.metadata))


def _judged(config: SelectConfig, inputs: Inputs, bound: Bound, on_progress: Progress) -> _Judged:
    num_rows = inputs.num_rows
    wanted = Wanted(columns=tuple(sorted(bound.columns)), fields=tuple(sorted(bound.fields)))
    tables = Tables(inputs.datasets[0], wanted)
    sizes, sources = np.zeros((3, num_rows), np.int64), Names(num_rows)
    image_rows, image_keys = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    failed, unknown = np.full(num_rows, -1, np.int32), np.zeros(num_rows, np.bool_)
    fields = _Fields(bound)
    total = sum(1 for _ in inputs.slices())
    for done, part in enumerate(map_ordered(partial(read_slice, wanted), inputs.slices(), workers=config.workers), 1):
        at = part.positions
        sizes[:, at] = part.images, part.pixels, part.bytes
        sources.put(at, *part.sources)
        image_rows.append(np.repeat(at, part.images))
        image_keys.append(part.image_keys)
        failed[at], unknown[at] = _first_failure(bound.parts, tables, part)
        fields.add(part)
        on_progress(done, total, "reading")
    fields.check()
    codes, names = sources.sorted()
    return _Judged(
        sources=codes.astype(np.int32),
        names=names,
        images=sizes[0].astype(np.int32),
        pixels=sizes[1],
        bytes=sizes[2],
        image_rows=np.concatenate(image_rows),
        image_keys=np.concatenate(image_keys),
        failed=failed,
        unknown=unknown,
    )


def _first_failure(
    parts: tuple[Node, ...], tables: Tables, part: Part
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Of each row the first part that does not hold, and whether that cannot be told. One that is surely false comes
    before those that are not known."""
    lines = tables.lines(part)
    failed, unknown = np.full(len(part.positions), -1, np.int32), np.zeros(len(part.positions), np.bool_)
    for number, node in enumerate(parts):
        judged = judge(node, lines)
        false = (judged == 0) & ((failed < 0) | unknown)
        unsure = (judged < 0) & (failed < 0)
        failed[false | unsure] = number
        unknown[unsure] = True
        unknown[false] = False
    return failed, unknown


class _Fields:
    """Whether the metadata fields of the condition are there at all."""

    def __init__(self, bound: Bound) -> None:
        self._missing = {path[0] for path, _ in bound.fields}
        self._seen: set[str] = set()

    def add(self, part: Part) -> None:
        self._missing -= part.names
        self._seen.update(islice(sorted(part.names), max(0, _NAMES_KEPT - len(self._seen))))

    def check(self) -> None:
        for name in sorted(self._missing):
            raise ConfigError(
                f"--where: no example has a metadata field {name!r}{near_names(name, self._seen)}",
                hint="`shardkit head` shows the fields",
            )


def _told(judged: _Judged, condition: Node, texts: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts and report."""
    by_source = {}
    for number, name in enumerate(judged.names):
        own = judged.sources == number
        by_source[name] = {"read": int(own.sum()), "kept": int((own & judged.kept).sum())}
    conditions = []
    for number, text in enumerate(texts):
        own = judged.failed == number
        false, unknown = int((own & ~judged.unknown).sum()), int((own & judged.unknown).sum())
        conditions.append({"condition": text, "false": false, "unknown": unknown})
    return judged.tally.to_json(), {"where": written(condition), "conditions": conditions, "by_source": by_source}


def _exclusions(selection: Selection, judged: _Judged, texts: tuple[str, ...]) -> Iterator[Exclusion]:
    """Rows left out, in the order of the input."""
    for rows, table in selection.removed(["input", "position"]):
        places = zip(rows.tolist(), table["input"].to_pylist(), table["position"].to_pylist(), strict=True)
        for row, input_, position in places:
            unknown = judged.unknown[row]
            yield Exclusion(
                input=input_,
                position=position,
                reason=UNKNOWN if unknown else FALSE,
                detail=f"{texts[judged.failed[row]]} {'cannot be told' if unknown else 'does not hold'}",
            )
