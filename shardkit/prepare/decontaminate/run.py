"""`shardkit decontaminate`: datasets in, one view of them out that holds no item of the benchmarks.

    read benchmarks -> index -> self-test -> survey all rows -> what is common -> judge candidates -> commit

The result depends on the content of examples and benchmarks alone: not on workers, nor on the order of either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.carried import carried
from shardkit.prepare.decontaminate import bench, find, images, index, plants, view
from shardkit.prepare.decontaminate.common import Frequencies
from shardkit.prepare.decontaminate.config import DecontaminateConfig, DecontaminateResult, SelfTest
from shardkit.prepare.decontaminate.find import Finding
from shardkit.prepare.decontaminate.images import Gallery
from shardkit.prepare.decontaminate.items import Bench
from shardkit.prepare.decontaminate.passages import Searched, searched
from shardkit.prepare.decontaminate.verdicts import Verdicts, by_benchmark, collect, removed_rows
from shardkit.prepare.decontaminate.view import Read
from shardkit.prepare.dedup.inputs import Inputs, open_inputs
from shardkit.prepare.dedup.names import Names
from shardkit.prepare.dedup.report import guard
from shardkit.prepare.result import example_counts
from shardkit.prepare.selection import Selection
from shardkit.records import Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output

_Arrays = dict[str, npt.NDArray[np.generic]]


def run(config: DecontaminateConfig, on_progress: Progress = silent) -> DecontaminateResult:
    """Find items of benchmarks and commit the view without the rows that hold them; or only count (dry run).

    Raises:
        ConfigError: for an impossible setting.
        SourceError: where a benchmark cannot be read whole or is empty, or a source would lose more than
            `max_removed_per_source`.
        IntegrityError: where an input is damaged, or the self-test does not find what it planted.
        OutputError: where the output cannot be written.
    """
    inputs = open_inputs(config.inputs, bases=config.bases)
    if not config.dry_run and config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    benches = [
        bench.read(one, fields=config.fields, bases=config.bases, workers=config.workers)
        for one in config.ordered_benchmarks
    ]
    prepared = _Prepared(config, benches)
    test = prepared.self_test() if config.self_test else None
    if config.output is None or config.dry_run:
        _, tally, report, _ = _decide(config, inputs, prepared, None, on_progress)
        return replace(_result(None, None, tally.to_json(), report, test), refused=_refusal(config, report))
    holders = {shard.holder.path for dataset in inputs.datasets for shard in dataset.shards}
    with Output(
        config.output,
        stage="decontaminate",
        recipe=config.recipe({one.name: one.digest for one in benches}),
        inputs=[dataset.id for dataset in inputs.datasets],
        protected=[
            *(dataset.path for dataset in inputs.datasets), *sorted(holders), *(one.path for one in config.benchmarks), *config.embeddings,
        ],
        overwrite=config.overwrite,
    ) as output:  # fmt: skip
        if output.unchanged is not None:
            return _committed(config, output.unchanged, test, unchanged=True)
        selection, tally, report, made = _decide(config, inputs, prepared, output.scratch, on_progress)
        refused = _refusal(config, report)
        if refused is not None:
            raise SourceError(
                refused,
                hint="look at the evidence with --action report: is a benchmark made from this source? Then raise "
                "--max-removed-per-source",
            )
        sealed = Sealed(
            tally=tally,
            splits=inputs.splits,
            shards=selection.shards,
            tables={
                "examples": selection.examples(),
                "assets": selection.assets(),
                "evidence": view.evidence(inputs, made, benches),
                **carried(selection),
            },
            provenance=selection.provenance(),
            exclusions=view.exclusions(selection, made, benches),
            locations=selection.locations,
            totals=selection.totals(),
            report=report,
        )
        return _committed(config, output.commit(sealed), test, unchanged=False)


class _Prepared:
    """What is looked for, before a row is read."""

    def __init__(self, config: DecontaminateConfig, benches: Sequence[Bench]) -> None:
        self.benches = benches
        self.searched: Searched = searched(benches, shortest=min(config.ngrams))
        self.gallery: Gallery = images.gallery(benches)
        self.arrays: _Arrays = index.build(self.searched, config.ngrams)
        self._workers = config.workers

    def self_test(self) -> SelfTest:
        return plants.check(self.benches, self.searched, self.arrays, self.gallery, workers=self._workers)

    def searchable(self) -> list[bool]:
        """Of each item: whether a text or a picture of it can be found."""
        flags = [False] * sum(len(one.items) for one in self.benches)
        for items in [*(passage.items for passage in self.searched.passages), *self.gallery.items]:
            for item in items:
                flags[item] = True
        for pair in self.searched.pairs:
            flags[pair.item] = True
        return flags


def _decide(
    config: DecontaminateConfig, inputs: Inputs, prepared: _Prepared, scratch: Path | None, on_progress: Progress
) -> tuple[Selection, Tally, dict[str, Any], Verdicts]:
    # The name is a new one each time, because workers remember an index by its folder.
    with TemporaryDirectory(prefix="shardkit-", dir=scratch) as place:
        folder = Path(place)
        assets = [dataset.table("assets", list(images.COLUMNS)) for dataset in inputs.datasets]
        index.save(
            {**prepared.arrays, **images.match(prepared.gallery, assets, config.vectors, scratch=folder)}, folder
        )
        read, candidates, common = _survey(config, inputs, folder, on_progress)
        np.save(folder / find.COMMON_FILE, common, allow_pickle=False)
        made = collect(_judged(inputs, candidates, folder, config.workers, on_progress), prepared.benches)
        index.load.cache_clear()
    contaminated = removed_rows(made, inputs.num_rows)
    kept = ~contaminated if config.action == "exclude" else np.ones(inputs.num_rows, np.bool_)
    excluded = Counter(f"contaminated_{made.worst[row].kind}" for row in np.flatnonzero(~kept).tolist())
    report = {
        "action": config.action,
        "benchmarks": by_benchmark(made, prepared.benches, prepared.searchable()),
        "by_source": _by_source(read, kept, contaminated),
    }
    tally = Tally(read=inputs.num_rows, kept=int(kept.sum()), excluded=excluded)
    return Selection(inputs=inputs, counted=read, kept=kept), tally, report, made


def _survey(
    config: DecontaminateConfig, inputs: Inputs, folder: Path, on_progress: Progress
) -> tuple[Read, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The first reading: sizes of all rows, rows to be judged, and which features are common."""
    num_rows, total = inputs.num_rows, sum(len(dataset.shards) for dataset in inputs.datasets)
    sizes, groups, sources = np.zeros((3, num_rows), np.int64), np.zeros(num_rows, np.uint64), Names(num_rows)
    numbers: dict[str, int] = {}
    image_rows, image_keys = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    candidates = [np.empty(0, np.int64)]
    # There cannot be more groups than rows, so what is in more than this is common whatever the groups are.
    frequencies = Frequencies(index.load(folder).num_features, surely=config.common_limit(num_rows))
    of_row = np.zeros(num_rows, np.int32)
    parts = map_ordered(partial(find.survey, folder), inputs.slices(), workers=config.workers)
    for done, part in enumerate(parts, 1):
        sizes[:, part.positions] = part.sizes.T
        groups[part.positions] = part.groups
        sources.put(part.positions, *part.sources)
        own = np.array([numbers.setdefault(name, len(numbers)) for name in part.sources[0]], np.int32)
        of_row[part.positions] = own[part.sources[1]]
        rows = part.feature_rows
        frequencies.add(part.features, of_row[rows].astype(np.int64), groups[rows])
        image_rows.append(part.image_rows)
        image_keys.append(part.image_keys)
        candidates.append(part.candidates)
        on_progress(done, total, "reading")
    codes, names = sources.sorted()
    read = Read(
        sources=codes.astype(np.int32),
        names=names,
        groups=groups,
        images=sizes[0].astype(np.int32),
        pixels=sizes[1],
        bytes=sizes[2],
        image_rows=np.concatenate(image_rows),
        image_keys=np.concatenate(image_keys),
    )
    num_groups = np.array([len(np.unique(groups[of_row == number])) for number in range(len(numbers))], np.int64)
    return read, np.sort(np.concatenate(candidates)), frequencies.common(config.common_limit, num_groups)


def _judged(
    inputs: Inputs, candidates: npt.NDArray[np.int64], folder: Path, workers: int, on_progress: Progress
) -> Iterator[Finding]:
    """The second reading."""
    total = sum(1 for _ in inputs.slices(candidates))
    parts = map_ordered(partial(find.judge, folder), inputs.slices(candidates), workers=workers)
    for done, part in enumerate(parts, 1):
        yield from part
        on_progress(done, total, "judging")


def _by_source(
    read: Read, kept: npt.NDArray[np.bool_], contaminated: npt.NDArray[np.bool_]
) -> dict[str, dict[str, int]]:
    table = {}
    for number, name in enumerate(read.names):
        own = read.sources == number
        table[name] = {
            "read": int(own.sum()), "contaminated": int(contaminated[own].sum()), "kept": int(kept[own].sum()),
        }  # fmt: skip
    return table


def _refusal(config: DecontaminateConfig, report: Mapping[str, Any]) -> str | None:
    """Why nothing may be committed: a source all but vanishes."""
    try:
        guard(report["by_source"], config.max_removed_per_source)
    except SourceError as error:
        return error.what
    return None


def _committed(
    config: DecontaminateConfig, dataset: Dataset, test: SelfTest | None, *, unchanged: bool
) -> DecontaminateResult:
    return _result(config.output, dataset, dataset.manifest.counts, dataset.manifest.report, test, unchanged=unchanged)


def _result(
    path: Path | None,
    dataset: Dataset | None,
    counts: Mapping[str, Any],
    report: Mapping[str, Any],
    test: SelfTest | None,
    *,
    unchanged: bool = False,
) -> DecontaminateResult:
    return DecontaminateResult(
        path=path,
        dataset_id=None if dataset is None else dataset.id,
        unchanged=unchanged,
        counts=example_counts(counts),
        report=report,
        self_test=test,
    )
