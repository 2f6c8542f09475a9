"""`shardkit dedup`: several datasets in, one view of them out, in which nothing stands twice.

    read keys of all rows -> compare units -> read again the rows that may be duplicates -> decide -> guard -> commit

The result depends on the content of the examples alone: not on workers, nor on the order of inputs or of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.digest import fingerprint
from shardkit.engine import Progress, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.carried import joined_before
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.boilerplate import Boilerplate, find_boilerplate
from shardkit.prepare.dedup.candidates import Candidates, find
from shardkit.prepare.dedup.changes import Pairs, Wanted, find_changes, write_keys
from shardkit.prepare.dedup.clusters import Choice, Decision, decide, stars
from shardkit.prepare.dedup.config import DedupConfig, DedupResult
from shardkit.prepare.dedup.edges import RowEdges
from shardkit.prepare.dedup.fill import Filling, find_all
from shardkit.prepare.dedup.inputs import Inputs, Positions, open_inputs
from shardkit.prepare.dedup.keys import dense
from shardkit.prepare.dedup.levels import LEVELS, ONLY_BOILERPLATE, SEMANTIC, reason
from shardkit.prepare.dedup.matchers import NEAR
from shardkit.prepare.dedup.near import concerned, find_near, with_keepers
from shardkit.prepare.dedup.report import by_source, conflicts, frequent_texts, guard
from shardkit.prepare.dedup.retention import decisions, dimensions, retention
from shardkit.prepare.dedup.rewrite import emptied_lines, rewrite
from shardkit.prepare.dedup.signatures import sign
from shardkit.prepare.dedup.tuples import Near, alive_rows
from shardkit.prepare.dedup.view import View
from shardkit.prepare.result import example_counts
from shardkit.records import Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.schema import TABLES
from shardkit.text import language


def run(config: DedupConfig, on_progress: Progress = silent) -> DedupResult:
    """Find duplicates and commit the view without them; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: for an impossible setting.
        SourceError: where a source would lose more than `max_removed_per_source`.
        IntegrityError: where an input is damaged.
        OutputError: where the output cannot be written.
    """
    inputs = open_inputs(config.inputs, references=config.references, bases=config.bases)
    if config.dry_run:
        return _dry(config, inputs, on_progress)
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    new = inputs.datasets[: inputs.num_datasets]
    holders = {shard.holder.path for dataset in inputs.datasets for shard in dataset.shards}
    with Output(
        config.output,
        stage="dedup",
        recipe=config.recipe(),
        inputs=[dataset.id for dataset in new],
        protected=[*(dataset.path for dataset in inputs.datasets), *sorted(holders)],
        overwrite=config.overwrite,
    ) as output:
        if output.unchanged is not None:
            return _result(config, output.unchanged, unchanged=True)
        view, tally, report = _decide(config, inputs, output.scratch, on_progress)
        guard(report["by_source"], config.max_removed_per_source)
        view = replace(view, rewritten=rewrite(
            output,
            inputs,
            view.signed,
            view.changes,
            shard_size=config.shard_size,
            recipe=f"dedup:{fingerprint(config.recipe())}",
            workers=config.workers,
            on_progress=on_progress,
        ))  # fmt: skip
        before = joined_before(view.selection, num_clusters=view.num_clusters)
        sealed = Sealed(
            tally=tally,
            splits=inputs.splits,
            shards=view.selection.shards,
            tables={
                "examples": view.selection.examples(),
                "assets": view.selection.assets(),
                "edges": chain(view.edges(), before.get("edges", ())),
                "clusters": chain(view.clusters(), before.get("clusters", ())),
                "near": chain(view.near(), before.get("near", ())),
                "retention": [view.retention],
                "paragraphs": [view.paragraphs],
                **_of_changes(config, view),
            },
            provenance=view.selection.provenance(),
            exclusions=view.exclusions(),
            locations=view.selection.locations,
            totals=view.selection.totals(),
            report=report,
            format_versions={"matchers": config.versions(), "language": language.model()},
        )
        return _result(config, output.commit(sealed), unchanged=False)


def _of_changes(config: DedupConfig, view: View) -> dict[str, Iterable[pa.Table]]:
    """Tables of what rows lost and got, behind the rows that the units wrote."""
    tables: dict[str, Iterable[pa.Table]] = {}
    if config.boilerplate == "remove":
        tables["lines"] = emptied_lines(view.inputs, view.changes, config.workers)
    if config.relations == "move":
        tables["moved"] = [TABLES["moved"].empty_table()]
    return tables


def _decide(
    config: DedupConfig, inputs: Inputs, scratch: Path, on_progress: Progress
) -> tuple[View, Tally, dict[str, Any]]:
    """What stays, what goes and what is changed; the counts of it, and the report."""
    levels = config.ordered_levels
    signed = sign(
        inputs, tuple(level for level in levels if level in MATCHERS), workers=config.workers, on_progress=on_progress
    )
    for flags in signed.removable.values():
        flags[inputs.num_new :] = False
    near = find_near(config, inputs, signed, scratch, on_progress)
    candidates = find(
        inputs,
        signed,
        near=concerned(near),
        priority=config.priority,
        workers=config.workers,
        on_progress=on_progress,
    )
    at = candidates.positions
    equal = {level: dense(digests) for level, digests in candidates.equal.items()}
    same = decide(equal, {level: signed.removable[level][at] for level in equal}, candidates.rank)
    same = replace(same, level=np.array([*(LEVELS.index(level) for level in equal), -1], np.int8)[same.level])
    order = np.argsort(candidates.rank)
    alive = alive_rows(at[order[same.level[order] < 0]], signed, near)
    near = with_keepers(config, inputs, signed, alive, near, scratch, on_progress)
    thresholds = np.array([config.threshold(level) if level in NEAR else 0.0 for level in LEVELS])
    none = Choice(same=same, edges=RowEdges.none(), places=at, rank=candidates.rank, num_new=inputs.num_new)

    def keeper_of(edges: RowEdges) -> Positions:
        keeper = np.arange(inputs.num_rows)
        keeper[at] = at[replace(none, edges=edges).at(thresholds).keeper]
        return keeper

    filling = Filling(config=config, inputs=inputs, signed=signed, scratch=scratch, on_progress=on_progress)
    found = find_all(filling, alive, near, keeper_of, thresholds)
    choice = replace(none, edges=found.edges)
    decision = choice.at(thresholds)
    kept = np.ones(inputs.num_rows, np.bool_)
    kept[at[decision.removed]] = False
    kept[inputs.num_new :] = False
    boilerplate = find_boilerplate(
        inputs,
        signed,
        kept,
        least=config.boilerplate_min,
        share=config.boilerplate_share,
        workers=config.workers,
        scratch=scratch,
        on_progress=on_progress,
    )
    wanted = Wanted(
        documents=np.flatnonzero(boilerplate.holding) if config.boilerplate == "remove" else np.empty(0, np.int64),
        lines=write_keys(boilerplate, scratch) if config.boilerplate == "remove" else None,
        pairs=_leaving(inputs, candidates, decision) if config.relations == "move" else Pairs.none(),
    )
    changes = find_changes(inputs, wanted, workers=config.workers, on_progress=on_progress)
    kept[changes.emptied] = False
    images, new = dense(candidates.pictures), at < inputs.num_new
    view = View(
        inputs=inputs,
        signed=signed,
        candidates=candidates,
        decision=decision,
        found=found,
        thresholds=thresholds,
        kept=kept,
        changes=changes,
        # Among rows that stay: a removed row is tied to its keeper already.
        pairs=_with_new(stars(np.where(decision.level < 0, images, -1), candidates.rank), new),
        retention=retention(
            {level: NEAR[level].THRESHOLDS for level in levels if level in NEAR},
            dimensions(signed, inputs.num_new),
            decisions(choice, thresholds, inputs.num_new),
        ),
        paragraphs=boilerplate.table,
        workers=config.workers,
    )
    unlike = _with_new(stars(np.where(same.level < 0, images, -1), candidates.rank), new)
    return view, _tally(view), _report(config, view, near, boilerplate, unlike)


def _tally(view: View) -> Tally:
    decision, changes = view.decision, view.changes
    gone = decision.removed
    reasons = Counter(
        reason(LEVELS[level], near=bool(via >= 0))
        for level, via in zip(decision.level[gone].tolist(), decision.via[gone].tolist(), strict=True)
    )
    if len(changes.emptied):
        reasons[ONLY_BOILERPLATE] = len(changes.emptied)
    return Tally(
        read=view.inputs.num_new,
        kept=int(view.kept.sum()),
        excluded=reasons,
        changes=Counter({f"{what}_{name}": num for what, name, num in (
            ("lines", "removed", changes.counts["lines"]),
            ("captions", "moved", changes.counts["captions"]),
        ) if num}),
    )  # fmt: skip


def _report(
    config: DedupConfig, view: View, near: Near, boilerplate: Boilerplate, unlike: tuple[Positions, Positions]
) -> dict[str, Any]:
    """What the manifest says of the run.

    Args:
        unlike: candidates with equal images that are not equal, as (centre, other).
    """
    inputs, signed, changes = view.inputs, view.signed, view.changes
    levels = config.ordered_levels
    level_of = np.full(inputs.num_rows, -1, np.int8)
    level_of[view.candidates.positions] = view.decision.level
    here = slice(0, inputs.num_new)
    emptied = changes.emptied if config.boilerplate == "remove" else None
    return {
        "by_source": by_source(signed, view.kept[here], levels, level_of[here], emptied),
        "frequent_texts": frequent_texts(inputs, signed, view.kept),
        "same_images_other_text": _sharing(view),
        "conflicting_annotations": conflicts(inputs, view.candidates, unlike),
        "boilerplate": {**boilerplate.report(), "removed": changes.counts["lines"], "emptied": len(changes.emptied)},
        "relations": {
            name: changes.counts[key]
            for name, key in (("moved", "captions"), ("examples", "receivers"), ("left_out", "left_out"))
        },
        # What shares keys with more than it was compared with: a split compares it again among the rows that are left.
        "crowded": {
            level: int(crowded.sum())
            for level, crowded in (("perceptual", near.lists.crowded), ("text", near.crowded))
            if level in levels
        },
        "vectors": near.vectors.report,
    }


def _leaving(inputs: Inputs, candidates: Candidates, decision: Decision) -> Pairs:
    """Examples with images that go for one that they are near to, as (keeper, removed).

    The captions of one that equals its keeper are the keeper's. What is near by its vector alone may show something else,
    and a reference is not changed.
    """
    near = np.flatnonzero((decision.via >= 0) & (decision.level < SEMANTIC))
    keepers, removed = candidates.positions[decision.keeper[near]], candidates.positions[near]
    shown = candidates.pictures[near].any(axis=1) & (keepers < inputs.num_new)
    return Pairs.of(keepers[shown], removed[shown])


def _with_new(pairs: tuple[Positions, Positions], new: npt.NDArray[np.bool_]) -> tuple[Positions, Positions]:
    """Pairs of which one at least is no row of a reference."""
    centres, others = pairs
    own = new[centres] | new[others]
    return centres[own], others[own]


def _sharing(view: View) -> dict[str, int]:
    """How many image lists stand beside several texts, and in how many kept examples; references do not count."""
    centres, others = view.pairs
    rows = view.candidates.positions[np.union1d(centres, others)]
    return {"images": len(np.unique(centres)), "examples": int((rows < view.inputs.num_new).sum())}


def _dry(config: DedupConfig, inputs: Inputs, on_progress: Progress) -> DedupResult:
    with TemporaryDirectory(prefix="shardkit-") as scratch:
        _, tally, report = _decide(config, inputs, Path(scratch), on_progress)
    refused = None
    try:
        guard(report["by_source"], config.max_removed_per_source)
    except SourceError as error:
        refused = error.what
    return DedupResult(
        path=None,
        dataset_id=None,
        unchanged=False,
        counts=example_counts(tally.to_json()),
        report=report,
        refused=refused,
    )


def _result(config: DedupConfig, dataset: Dataset, *, unchanged: bool) -> DedupResult:
    return DedupResult(
        path=config.output,
        dataset_id=dataset.id,
        unchanged=unchanged,
        counts=example_counts(dataset.manifest.counts),
        report=dataset.manifest.report,
    )
