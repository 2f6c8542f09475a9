"""`shardkit dedup`: several datasets in, one view of them out, in which nothing stands twice.

    read keys of all rows -> read again the rows whose key repeats -> decide -> guard -> commit

The result depends on the content of the examples alone: not on workers, nor on the order of inputs or of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from shardkit.engine import Progress, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.candidates import find
from shardkit.prepare.dedup.clusters import decide, stars
from shardkit.prepare.dedup.config import DedupConfig, DedupResult
from shardkit.prepare.dedup.inputs import Inputs, open_inputs
from shardkit.prepare.dedup.keys import dense
from shardkit.prepare.dedup.report import by_source, frequent_texts, guard
from shardkit.prepare.dedup.signatures import sign
from shardkit.prepare.dedup.view import View
from shardkit.records import Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output


def run(config: DedupConfig, on_progress: Progress = silent) -> DedupResult:
    """Find duplicates and commit the view without them; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: for an impossible setting.
        SourceError: where a source would lose more than `max_removed_per_source`.
        IntegrityError: where an input is damaged.
        OutputError: where the output cannot be written.
    """
    inputs = open_inputs(config.inputs, bases=config.bases)
    if config.dry_run:
        return _dry(config, inputs, on_progress)
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    holders = {shard.holder.path for dataset in inputs.datasets for shard in dataset.shards}
    with Output(
        config.output,
        stage="dedup",
        recipe=config.recipe(),
        inputs=[dataset.id for dataset in inputs.datasets],
        protected=[*(dataset.path for dataset in inputs.datasets), *sorted(holders)],
        overwrite=config.overwrite,
    ) as output:
        if output.unchanged is not None:
            return _result(config, output.unchanged, unchanged=True)
        view, tally, report = _decide(config, inputs, on_progress)
        guard(report["by_source"], config.max_removed_per_source)
        sealed = Sealed(
            tally=tally,
            splits=inputs.splits,
            shards=view.shards,
            tables={
                "examples": view.examples(),
                "assets": view.assets(),
                "edges": view.edges(),
                "clusters": view.clusters(),
            },
            provenance=view.provenance(),
            exclusions=view.exclusions(),
            locations=view.locations,
            totals=view.totals(),
            report=report,
            format_versions={"matchers": {level: MATCHERS[level].VERSION for level in view.levels}},
        )
        return _result(config, output.commit(sealed), unchanged=False)


def _decide(config: DedupConfig, inputs: Inputs, on_progress: Progress) -> tuple[View, Tally, dict[str, Any]]:
    levels = config.ordered_levels
    signed = sign(inputs, levels, workers=config.workers, on_progress=on_progress)
    candidates = find(inputs, signed, priority=config.priority, workers=config.workers, on_progress=on_progress)
    at = candidates.positions
    equal = {level: dense(digests) for level, digests in candidates.equal.items()}
    decision = decide(equal, {level: signed.removable[level][at] for level in levels}, candidates.rank)
    kept = np.ones(inputs.num_rows, np.bool_)
    kept[at[decision.removed]] = False
    # Pairs are looked for among rows that stay: a removed row is tied to its keeper already.
    pictures = np.where(kept[at], dense(candidates.pictures), -1)
    view = View(
        inputs=inputs,
        signed=signed,
        candidates=candidates,
        decision=decision,
        levels=levels,
        kept=kept,
        pairs=stars(pictures, candidates.rank),
        workers=config.workers,
    )
    level_of = np.full(inputs.num_rows, -1, np.int8)
    level_of[at] = decision.level
    reasons = {MATCHERS[level].REASON: int((level_of == number).sum()) for number, level in enumerate(levels)}
    tally = Tally(
        read=inputs.num_rows,
        kept=int(kept.sum()),
        excluded=Counter({reason: count for reason, count in reasons.items() if count}),
    )
    report = {
        "by_source": by_source(signed, kept, levels, level_of),
        "frequent_texts": frequent_texts(inputs, signed, kept),
        "same_images_other_text": _sharing(view),
    }
    return view, tally, report


def _sharing(view: View) -> dict[str, int]:
    """How many image lists stand beside several texts, and in how many kept examples."""
    centres, others = view.pairs
    distinct = len(np.unique(centres))
    return {"images": distinct, "examples": distinct + len(others)}


def _dry(config: DedupConfig, inputs: Inputs, on_progress: Progress) -> DedupResult:
    _, tally, report = _decide(config, inputs, on_progress)
    refused = None
    try:
        guard(report["by_source"], config.max_removed_per_source)
    except SourceError as error:
        refused = error.what
    return DedupResult(
        path=None, dataset_id=None, unchanged=False, counts=_counts(tally.to_json()), report=report, refused=refused
    )


def _result(config: DedupConfig, dataset: Dataset, *, unchanged: bool) -> DedupResult:
    return DedupResult(
        path=config.output,
        dataset_id=dataset.id,
        unchanged=unchanged,
        counts=_counts(dataset.manifest.counts),
        report=dataset.manifest.report,
    )


def _counts(counts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: counts[name] for name in ("read", "kept", "excluded", "excluded_by_reason")}
