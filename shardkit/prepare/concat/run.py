"""`shardkit concat`: datasets in, one view of all their rows out. Nothing is packed anew.

    inputs by id -> do they fit -> entries of their shards, tables joined -> commit

The result holds every shard of each input with equal digests: to a reader of one of them it is an append.
"""

from __future__ import annotations

from shardkit.errors import ConfigError
from shardkit.prepare.concat.config import CONCAT_VERSION, ConcatConfig
from shardkit.prepare.concat.fit import check_fit
from shardkit.prepare.concat.join import Joined
from shardkit.prepare.named import open_by_id
from shardkit.prepare.result import StageResult, stage_result
from shardkit.records import Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.sequences import is_tokenized, sequence_recipe, tokenizer_files


def run(config: ConcatConfig) -> StageResult:
    """Join the inputs and commit the view; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: where the inputs are not of one kind.
        IntegrityError: where an input is damaged.
        OutputError: where the output cannot be written.
    """
    datasets = open_by_id(config.inputs, base=config.bases)
    if not datasets:
        raise ConfigError("there is nothing to join", hint="name two datasets or more")
    check_fit(datasets)
    joined = Joined(datasets=tuple(datasets))
    tally = Tally(read=joined.num_rows, kept=joined.num_rows)
    tables = joined.tables()
    if config.dry_run:
        return _result(config, None, joined, tally)
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    first = datasets[0]
    with Output(
        config.output,
        stage="concat",
        # Sequences have one recipe all of them, and whoever reads them looks for it here.
        recipe=sequence_recipe(first.recipe) if is_tokenized(first) else {"version": CONCAT_VERSION},
        inputs=[dataset.id for dataset in datasets],
        protected=sorted(set(joined.locations.values())),
        overwrite=config.overwrite,
    ) as output:
        if output.unchanged is not None:
            return _result(config, output.unchanged, joined, tally, unchanged=True)
        sealed = Sealed(
            tally=tally,
            splits=joined.splits,
            shards=joined.shards,
            sequences=joined.sequences,
            tables=tables,
            provenance=joined.provenance(),
            files=tokenizer_files(first),
            locations=joined.locations,
            totals=joined.totals(),
            format_versions={"concat": CONCAT_VERSION},
        )
        return _result(config, output.commit(sealed), joined, tally)


def _result(
    config: ConcatConfig, dataset: Dataset | None, joined: Joined, tally: Tally, *, unchanged: bool = False
) -> StageResult:
    """`report`: shards, of examples and of sequences, all of which lie in the inputs; by_split and by_source as in the
    manifest."""
    report = {"shards": len(joined.shards) + len(joined.sequences), **joined.totals()}
    return stage_result(config.output, dataset, tally.to_json(), report, unchanged=unchanged)
