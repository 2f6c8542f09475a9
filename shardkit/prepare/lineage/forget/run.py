"""`shardkit forget`: a dataset in, one without an asset, a source or a licence out, in shards of its own.

criteria -> decision -> units, one a shard of the input -> commit -> proof: the output read again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError
from shardkit.prepare.dedup.inputs import as_int32, slices
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.forget.also import holders
from shardkit.prepare.lineage.forget.config import ForgetConfig, ForgetResult
from shardkit.prepare.lineage.forget.criteria import Criteria
from shardkit.prepare.lineage.forget.decide import Decider, Decision
from shardkit.prepare.lineage.forget.proof import Forgotten, prove
from shardkit.prepare.lineage.forget.reasons import CODES, REASONS
from shardkit.prepare.lineage.forget.tables import provenance, tables
from shardkit.prepare.report.measure import payloads
from shardkit.prepare.shrink.origin import originals
from shardkit.prepare.split.write import Job, write_unit
from shardkit.prepare.split.write import forget as close_shards
from shardkit.records import Exclusion, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output

_NAMED = 5


def run(config: ForgetConfig, on_progress: Progress = silent) -> ForgetResult:
    """Write the dataset without what is named and prove it; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: where nothing is named, or nothing has the name; where the input holds sequences.
        SourceError: where a folder of `also` is none.
        IntegrityError: where the input is damaged, or the proof fails.
        OutputError: where the output cannot be written.
    """
    dataset = Dataset.open(config.input, base=config.bases)
    if dataset.manifest.sequences:
        raise ConfigError(
            "the input holds sequences",
            where=str(config.input),
            hint="forget from the dataset that they were made from, then run `shardkit tokenize` again",
        )
    ancestry = Ancestry(dataset)
    criteria = Criteria(assets=_whole_ids(ancestry, config), sources=config.sources, licences=config.licences)
    decision = _decide(ancestry, criteria, config, on_progress)
    _check_found(decision, criteria, config)
    forgotten = Forgotten.of(decision)
    tally = _tally(decision)
    if config.dry_run:
        return _result(config, None, forgotten, counts=tally.to_json(), report=decision.report())
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    with Output(
        config.output,
        stage="forget",
        recipe=config.recipe(criteria.assets),
        inputs=[dataset.id],
        protected=sorted({dataset.path, *(shard.holder.path for shard in dataset.shards)}),
        overwrite=config.overwrite,
    ) as output:
        unchanged = output.unchanged is not None
        done = output.unchanged
        if done is None:
            try:
                _write(config, dataset, decision, output, on_progress)
            finally:
                close_shards()
            done = output.commit(_sealed(dataset, decision, tally))
        made = Dataset.open(done.path, base=config.bases)
        again = _decide(Ancestry(made), criteria, config, silent)
        proof = prove(made, forgotten, again, workers=config.workers, on_progress=on_progress)
        return _result(
            config,
            done,
            forgotten,
            counts=done.manifest.counts,
            report=done.manifest.report,
            proof=proof,
            unchanged=unchanged,
        )


def _whole_ids(ancestry: Ancestry, config: ForgetConfig) -> tuple[str, ...]:
    """The assets that are named; one that was shrunk since is known to the dataset before.

    Raises:
        ConfigError: where no dataset at hand has one of that id, or several fit.
    """
    found: set[str] = set()
    for given in config.assets:
        digits = given.strip().lower().removeprefix("sha256:")
        hexadecimal = all(sign in "0123456789abcdef" for sign in digits) and 8 <= len(digits) <= 64
        ids: set[str] = set()
        for index in reversed(ancestry.indices if hexadecimal else []):
            ids = ids or set(index.asset_ids(index.provenance_of_asset(digits)))
        if hexadecimal and not ids:
            ids = originals(ancestry.dataset.table("provenance", ["preprocessing"]), digits)
        if len(ids) != 1:
            raise ConfigError(
                f"{len(ids)} assets have ids that begin with {digits}" if ids else f"no asset has the id {given!r}",
                where=str(config.input),
                hint="give more digits" if ids else "`shardkit head --json` shows ids of assets; 8 digits are enough",
            )
        found |= ids
    return tuple(sorted(found))


def _decide(ancestry: Ancestry, criteria: Criteria, config: ForgetConfig, on_progress: Progress) -> Decision:
    return Decider(ancestry, criteria, bases=config.bases, workers=config.workers, on_progress=on_progress).decide()


def _check_found(decision: Decision, criteria: Criteria, config: ForgetConfig) -> None:
    """A name that nothing has is a slip, and a dataset must not pass for one without it.

    Raises:
        ConfigError: where nothing goes.
    """
    if decision.num_found:
        return
    table = decision.examples
    sources = sorted(name for name in table["source"].unique().to_pylist() if name)
    named = ", ".join((*criteria.assets, *criteria.sources, *criteria.licences))
    raise ConfigError(
        f"nothing in the dataset comes from {named}",
        where=str(config.input),
        hint=f"its sources are {', '.join(sources[:_NAMED])}{', ...' if len(sources) > _NAMED else ''}; "
        "`shardkit stats` shows licences, `shardkit trace` the origins of a picture",
    )


def _tally(decision: Decision) -> Tally:
    counts = np.bincount(decision.reasons, minlength=len(CODES)).tolist()
    left = Counter({code: number for code, number in zip(CODES[1:], counts[1:], strict=True) if number})
    return Tally(read=len(decision.reasons), kept=counts[0], excluded=left)


def _write(config: ForgetConfig, dataset: Dataset, decision: Decision, output: Output, on_progress: Progress) -> None:
    """Copy the rows that stay: a unit for each shard of the input that has any."""
    todo = list(_jobs(config, dataset, decision, output))
    for done, receipt in enumerate(map_ordered(write_unit, iter(todo), workers=config.workers), 1):
        output.receipts[receipt.unit] = receipt
        on_progress(done, len(todo), "writing")


def _jobs(config: ForgetConfig, dataset: Dataset, decision: Decision, output: Output) -> Iterator[Job]:
    table = decision.examples
    shards, rows = as_int32(table["shard_index"]), as_int32(table["row"])
    stay = np.flatnonzero(decision.kept)
    sizes = np.zeros(len(rows), np.int64)
    pieces = list(slices(dataset, config.bases, shards[stay], rows[stay], stay))
    for piece, found in zip(pieces, map_ordered(payloads, iter(pieces), workers=config.workers), strict=True):
        sizes[piece.positions] = found
    places = table.select(["input", "position", "parent_id", "has_email", "has_phone"])
    for shard in dataset.shards:
        own = stay[shards[stay] == shard.index]
        name = f"{shard.split}-{shard.index:05d}"
        if len(own) and name not in output.receipts:
            yield Job(
                writer=output.unit(
                    shard.index, name, shards=config.shards, shard_size=config.shard_size, split=shard.split
                ),
                dataset=dataset.path,
                dataset_id=dataset.id,
                bases=config.bases,
                shards=shards[own],
                rows=rows[own],
                sizes=sizes[own],
                places=places.take(pa.array(own)),
                groups=None,
            )


def _sealed(dataset: Dataset, decision: Decision, tally: Tally) -> Sealed:
    return Sealed(
        tally=tally,
        splits=dataset.splits,
        tables=tables(dataset, decision),
        provenance=provenance(dataset, decision),
        exclusions=_exclusions(decision),
        files={entry.path: (dataset.path / entry.path).read_bytes() for entry in dataset.manifest.files},
        locations={dataset.id: dataset.path},
        report=decision.report(),
    )


def _exclusions(decision: Decision) -> Iterator[Exclusion]:
    gone = np.flatnonzero(~decision.kept)
    left = decision.examples.select(["input", "position"]).take(pa.array(gone))
    for row, facts in zip(gone.tolist(), left.to_pylist(), strict=True):
        code = CODES[decision.reasons[row]]
        yield Exclusion(**facts, reason=code, detail=REASONS[code])


def _result(
    config: ForgetConfig,
    dataset: Dataset | None,
    forgotten: Forgotten,
    *,
    counts: Mapping[str, Any],
    report: Mapping[str, Any],
    proof: Mapping[str, int] | None = None,
    unchanged: bool = False,
) -> ForgetResult:
    return ForgetResult(
        path=config.output if dataset else None,
        dataset_id=dataset.id if dataset else None,
        unchanged=unchanged,
        counts={name: counts[name] for name in ("read", "kept", "excluded", "excluded_by_reason")},
        report=report,
        proof=proof,
        also=tuple(holders(config.also, forgotten)),
    )
