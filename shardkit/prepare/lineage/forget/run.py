"""`shardkit forget`: a dataset in, one without an asset, a source or a licence out, in shards of its own.

criteria -> decision -> units, one a shard of the input -> commit -> proof: the output read again

Of a tokenized dataset the sequences of what stays are written anew, too, beside the examples that they lead to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.engine import Progress, silent
from shardkit.errors import ConfigError
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.forget.also import holders
from shardkit.prepare.lineage.forget.config import ForgetConfig, ForgetResult
from shardkit.prepare.lineage.forget.criteria import Criteria
from shardkit.prepare.lineage.forget.decide import Decider, Decision
from shardkit.prepare.lineage.forget.proof import Forgotten, prove
from shardkit.prepare.lineage.forget.reasons import CODES, REASONS
from shardkit.prepare.lineage.forget.tables import provenance, tables
from shardkit.prepare.lineage.forget.write import Kept, totals, write
from shardkit.prepare.result import example_counts
from shardkit.prepare.shrink.origin import originals
from shardkit.records import Exclusion, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.memory import give_back
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.sequences import is_tokenized, sequence_recipe

_NAMED = 5


def run(config: ForgetConfig, on_progress: Progress = silent) -> ForgetResult:
    """Write the dataset without what is named and prove it; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: where nothing is named, or nothing has the name.
        SourceError: where a folder of `also` is none.
        IntegrityError: where the input is damaged, or the proof fails.
        OutputError: where the output cannot be written.
    """
    dataset = Dataset.open(config.input, base=config.bases)
    criteria, decision = _decided(dataset, config, on_progress)
    kept = Kept.of(dataset, decision)
    forgotten = Forgotten.of(decision, kept.gone_sequences)
    tally = _tally(decision)
    if config.dry_run:
        return _result(config, None, forgotten, counts=tally.to_json(), report=decision.report())
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    with Output(
        config.output,
        stage="forget",
        recipe={
            **config.recipe(criteria.assets),
            # Whoever reads sequences looks for it here.
            **(sequence_recipe(dataset.recipe) if is_tokenized(dataset) else {}),
        },
        inputs=[dataset.id],
        protected=sorted({dataset.path, *(shard.holder.path for shard in dataset.shards)}),
        overwrite=config.overwrite,
    ) as output:
        unchanged = output.unchanged is not None
        done = output.unchanged
        if done is None:
            write(config, kept, output, on_progress)
            done = output.commit(_sealed(kept, tally, output))
        del decision, kept  # the proof makes the same of the output
        give_back()
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


def _decided(dataset: Dataset, config: ForgetConfig, on_progress: Progress) -> tuple[Criteria, Decision]:
    """What is asked for, by whole ids, and what goes. What was read of the datasets before is let go of."""
    ancestry = Ancestry(dataset)
    criteria = Criteria(assets=_whole_ids(ancestry, config), sources=config.sources, licences=config.licences)
    decision = _decide(ancestry, criteria, config, on_progress)
    _check_found(decision, criteria, config)
    del ancestry
    give_back()
    return criteria, decision


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
        hint=f"its sources are {', '.join(sources[:_NAMED]) or 'none'}{', ...' if len(sources) > _NAMED else ''}; "
        "`shardkit stats` shows licences, `shardkit trace` the origins of a picture",
    )


def _tally(decision: Decision) -> Tally:
    counts = np.bincount(decision.reasons, minlength=len(CODES)).tolist()
    left = Counter({code: number for code, number in zip(CODES[1:], counts[1:], strict=True) if number})
    return Tally(read=len(decision.reasons), kept=counts[0], excluded=left)


def _sealed(kept: Kept, tally: Tally, output: Output) -> Sealed:
    dataset, decision = kept.dataset, kept.decision
    return Sealed(
        tally=tally,
        splits=dataset.splits,
        tables=tables(kept),
        provenance=provenance(dataset, decision),
        exclusions=_exclusions(decision),
        files={entry.path: (dataset.path / entry.path).read_bytes() for entry in dataset.manifest.files},
        locations={dataset.id: dataset.path},
        totals=totals(kept, iter(output.receipts.values())),
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
        counts=example_counts(counts),
        report=report,
        proof=proof,
        also=tuple(holders(config.also, forgotten)),
    )
