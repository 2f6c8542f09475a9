"""`shardkit tokenize`: examples to sequences, for one tokenizer and one recipe.

    input datasets -> units, one a shard of examples -> chunks of rows -> workers -> one shard of sequences a unit

The output is a view: its example shards are those of the inputs, where the images stay.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shardkit.digest import fingerprint
from shardkit.engine import map_ordered, silent
from shardkit.errors import ConfigError
from shardkit.media.processors import hf
from shardkit.prepare.tokenize.chunk import Chunk, Job, Left, Tokenized, forget, tokenize_chunk
from shardkit.prepare.tokenize.columns import lengths_of, totals_of
from shardkit.prepare.tokenize.config import TokenizeConfig, TokenizeResult
from shardkit.prepare.tokenize.settings import read_recipe
from shardkit.prepare.tokenize.view import Unit, View, open_view
from shardkit.records import Exclusion, Tally
from shardkit.sequence.recipes import OVERLONG, bind, names_of
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.sequences import lengths_schema
from shardkit.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardkit.engine.progress import Progress
    from shardkit.store.units import UnitWriter

CHUNK_ROWS = 256
BLOCK_ROWS = 1024
"""Sequences of a block of checked reading."""
LEFT = "rows_left_out"
"""In a receipt: rows of the unit without a sequence."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """Everything that is decided before the first row is read."""

    config: TokenizeConfig
    view: View
    tokenizer: Tokenizer
    job: Job
    recipe: dict[str, Any]
    """The stage's recipe, as it stands in the manifest."""


def run(config: TokenizeConfig, on_progress: Progress = silent) -> TokenizeResult:
    """Build the sequences and commit them; or say that they are there already; or only count them (dry run).

    Raises:
        ConfigError: for an impossible setting or a missing control token.
        SourceError: with overlong="error", where an example is too long.
        IntegrityError: where an input is damaged.
        OutputError: where the output cannot be written.
    """
    plan = planned(config)
    forget()
    try:
        if config.dry_run:
            return _count(plan, on_progress)
        if config.output is None:
            raise ConfigError("there is no output", hint="name one with -o, or use --dry-run or --show N")
        with Output(
            config.output,
            stage="tokenize",
            recipe=plan.recipe,
            inputs=[dataset.id for dataset in plan.view.inputs],
            protected=plan.view.places,
            overwrite=config.overwrite,
        ) as output:
            if output.unchanged is not None:
                return _result(config, output.unchanged, unchanged=True)
            _write_units(plan, output, on_progress)
            return _result(config, output.commit(_seal(plan, output)), unchanged=False)
    finally:
        forget()


def planned(config: TokenizeConfig) -> Planned:
    """What a run of `config` will do.

    Raises:
        ConfigError: for an impossible setting or a missing control token.
        IntegrityError: where an input is damaged.
    """
    recipe = read_recipe(config.recipe, config.settings, config.chat_template)
    max_tokens = recipe.MAX_TOKENS if config.max_tokens is None else config.max_tokens
    if max_tokens < 2:
        raise ConfigError("a sequence needs room for two tokens", hint="raise --max-tokens")
    if config.overlong not in OVERLONG:
        raise ConfigError(
            f"overlong {config.overlong!r} is none of {', '.join(OVERLONG)}", hint="choose one with --overlong"
        )
    plain = Tokenizer.load(config.tokenizer)
    recipe = bind(recipe, plain.controls, add=config.add_control_tokens)
    tokenizer = plain.with_controls(names_of(recipe))
    described = {
        "tokenizer": tokenizer.digest,
        "vocab_size": tokenizer.vocab_size,
        "added_control_tokens": [name for name in tokenizer.controls if name not in plain.controls],
        "recipe": recipe.recipe(),
        "max_tokens": max_tokens,
        "overlong": config.overlong,
    }
    # Worker processes may stand in another folder, hence absolute paths.
    job = Job(
        tokenizer=config.tokenizer.absolute(),
        digest=tokenizer.digest,
        recipe=recipe,
        max_tokens=max_tokens,
        overlong=config.overlong,
        fingerprint=fingerprint(described),
        bases=tuple(base.absolute() for base in config.bases),
    )
    view = open_view(config.inputs, bases=config.bases)
    return Planned(config=config, view=view, tokenizer=tokenizer, job=job, recipe=described)


def _tokenized(plan: Planned, units: list[Unit], on_progress: Progress) -> Iterator[tuple[Unit, Iterator[Tokenized]]]:
    """Each unit with what becomes of its chunks, in order; a unit's chunks are to be taken before the next unit."""
    chunks = chain.from_iterable(map(_chunks, units))  # made as they are taken: a row of a chunk is a Python integer
    total = sum(unit.examples.num_rows for unit in units)
    results = map_ordered(partial(tokenize_chunk, plan.job), chunks, workers=plan.config.workers)

    def counted() -> Iterator[Tokenized]:
        done = 0
        for tokenized in results:
            done += tokenized.kept + len(tokenized.excluded)
            on_progress(done, total)
            yield tokenized

    steps = counted()
    for unit in units:
        yield unit, islice(steps, -(-unit.examples.num_rows // CHUNK_ROWS))


def _chunks(unit: Unit) -> list[Chunk]:
    rows = unit.rows
    return [
        Chunk(
            dataset=unit.dataset.path.absolute(),
            shard=unit.shard,
            referenced=unit.index,
            rows=tuple(rows[first : first + CHUNK_ROWS]),
        )
        for first in range(0, len(rows), CHUNK_ROWS)
    ]


def _write_units(plan: Planned, output: Output, on_progress: Progress) -> None:
    todo = [unit for unit in plan.view.units if unit.name not in output.receipts]
    for unit, parts in _tokenized(plan, todo, on_progress):
        # Units are finished in order, so the shards of those before this one are known.
        shard = sum(len(receipt.shards) for receipt in output.receipts.values() if receipt.index < unit.index)
        with output.unit(unit.index, unit.name, shards="sequences", shard_size=0, split=unit.split) as writer:
            _write_unit(plan, writer, unit, parts, shard)


def _write_unit(plan: Planned, writer: UnitWriter, unit: Unit, parts: Iterator[Tokenized], shard: int) -> None:
    """Write the sequences of `unit` as shard number `shard`, and what the tables say of them."""
    left: list[int] = []
    totals: Counter[str] = Counter()
    first = 0

    def counted() -> Iterator[pa.RecordBatch]:
        for part in parts:
            left.extend(one.row for one in part.excluded)
            writer.tally.add(_tally(part))
            for one in part.excluded:
                writer.exclude(_exclusion(unit, one))
            for source, count in part.examples.items():
                writer.count_source(source, {"examples": count})
            totals["examples"] += part.kept
            yield part.sequences

    def blocks() -> Iterator[pa.RecordBatch]:
        nonlocal first
        for block in _blocks(counted()):
            lengths = lengths_of(block, plan.job.recipe, shard=shard, first=first, split=unit.split)
            writer.append_batch("lengths", lengths)
            for source, counts in totals_of(block, lengths).items():
                writer.count_source(source, +counts)
                totals.update(+counts)
            first += block.num_rows
            yield block

    found = blocks()
    opening = next(found, None)
    if opening is not None:
        writer.add_shard_of_batches(chain([opening], found), opening.schema, totals)
    writer.finish(notes={LEFT: left})


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of BLOCK_ROWS; the last one has what is left."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= BLOCK_ROWS:
            joined = pa.concat_batches(waiting)
            # Taken, not sliced: a slice would be written with what its buffers hold besides.
            yield joined.take(pa.array(np.arange(BLOCK_ROWS)))
            waiting = [joined.slice(BLOCK_ROWS)]
            rows -= BLOCK_ROWS
    if rows:
        yield pa.concat_batches(waiting).take(pa.array(np.arange(rows)))


def _tally(part: Tokenized) -> Tally:
    reasons = Counter(one.reason for one in part.excluded)
    return Tally(read=part.kept + len(part.excluded), kept=part.kept, excluded=reasons, changes=Counter(+part.changes))


def _exclusion(unit: Unit, left: Left) -> Exclusion:
    return Exclusion(input=unit.dataset.id, position=left.example_id, reason=left.reason, detail=left.detail)


def _seal(plan: Planned, output: Output) -> Sealed:
    """What the commit needs beside the units: the view, its tables, the tokenizer."""
    tally = Tally()
    kept = {}
    for unit in plan.view.units:
        receipt = output.receipts[unit.name]
        tally.add(receipt.restored_tally())
        kept[unit.index] = np.isin(unit.rows, receipt.notes[LEFT], invert=True)
    processor = plan.recipe["recipe"].get("image_processor")
    return Sealed(
        tally=tally,
        splits=plan.view.splits,
        shards=plan.view.shards,
        tables={
            "examples": plan.view.examples(kept),
            "assets": plan.view.assets(kept),
            "lengths": [lengths_schema(plan.job.recipe.TARGETS).empty_table()],
        },
        provenance=plan.view.provenance(
            kept,
            tokenizer=plan.tokenizer.digest,
            processor=None if processor is None else f"{processor['name']}/{processor['version']}",
            recipe=plan.job.fingerprint,
        ),
        files={f"tokenizer/{name}": data for name, data in _model_files(plan).items()},
        locations=plan.view.locations,
    )


def _model_files(plan: Planned) -> dict[str, bytes]:
    """The tokenizer, and the image processor where Hugging Face has one that does the same."""
    return {**plan.tokenizer.files(), **hf.files(plan.job.recipe.image_processor())}


def _result(config: TokenizeConfig, dataset: Dataset, *, unchanged: bool) -> TokenizeResult:
    counts = dataset.manifest.counts
    sums: Counter[str] = Counter()
    for shard in dataset.manifest.sequences:
        sums.update(shard.counts)
    return TokenizeResult(
        path=config.output, dataset_id=dataset.id, unchanged=unchanged, counts=counts, totals=dict(sums)
    )


def _count(plan: Planned, on_progress: Progress) -> TokenizeResult:
    """The same work with nothing written."""
    tally = Tally()
    sums: Counter[str] = Counter()
    for _, parts in _tokenized(plan, list(plan.view.units), on_progress):
        for part in parts:
            tally.add(_tally(part))
            lengths = lengths_of(part.sequences, plan.job.recipe, shard=0, first=0, split="")
            for counts in totals_of(part.sequences, lengths).values():
                sums.update(counts)
            sums["examples"] += part.kept
    return TokenizeResult(path=None, dataset_id=None, unchanged=False, counts=tally.to_json(), totals=dict(+sums))
