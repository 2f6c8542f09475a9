"""`shardkit trace`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import dataset_argument, look_options, print_result
from shardkit.prepare.lineage.trace import Tracer

_SEVEN = (
    ("source", ("source", "revision", "retrieved_at")),
    ("digest", ("digest", "licence")),
    ("decoder", ("decoder", "preprocessing")),
    ("relation", ("relation", "annotator")),
    ("group", ("group",)),
    ("derived", ("derived_recipe",)),
    ("tokenized", ("tokenizer", "processor")),
)
"""The seven fields of provenance, each with its columns."""


@click.command("trace")
@dataset_argument
@click.argument("wanted", metavar="[ID]", required=False)
@click.option("--source", "source", metavar="FILE:ROW",
              help="Go forward instead: what became of this raw row. The file as in tables/examples, or a longer path to it.")  # fmt: skip
@click.option("--run", type=click.Path(path_type=Path), metavar="DIR",
              help="The folder of a training run, for a batch whose plan was not saved with `shardkit plan --save`.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), metavar="FILE",
              help="The state of a loader as JSON, for a batch of its plan or of one that it went on from: a run that was "
                   "resumed with other settings or data.")  # fmt: skip
@look_options
def command(
    *,
    dataset: Path,
    wanted: str | None,
    source: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Say where a batch, a sequence, an example or an asset comes from: back to raw file and row, with licences.

    ID is a batch id (`batch_id` in log.jsonl of a run), or the id of a sequence, an example or an asset, or its first 8
    digits and more, as `shardkit head --json` shows them. With --source it goes forward: through which stages a raw row went, and where it is now.

    \b
    shardkit trace work/tokens 2a74536bfcf119e4821597a9821759a7/0/12/0of1 --run runs/first
    shardkit trace work/tokens 3528965b1a92 --json
    shardkit trace work/tokens --source obelics.parquet:279
    """
    if (wanted is None) == (source is None):
        raise click.UsageError("give an id or --source FILE:ROW" + ("" if source is None else ", not both"))
    tracer = Tracer(dataset, **given)
    answer = tracer.trace(wanted) if wanted is not None else tracer.source(source or "")
    print_result(answer, as_json=as_json, text="\n".join(_lines(answer)))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["kind"] == "source":
        yield f"{answer['input']}:{answer['position']}"
    else:
        yield f"{answer['kind']} {answer['asked']}"
    for row in answer.get("rows", ()) or answer.get("history", ()):
        yield from _history(row)
    examples = answer.get("examples", ())
    for number, example in enumerate(examples):
        for sequence in answer["sequences"]:
            if sequence["example"] == number:
                yield "  " + _sequence(sequence)
        yield from _example(example)
    for asset in answer.get("assets", ()):
        yield from _asset(asset)
    for one in answer["datasets"]:
        yield f"dataset {one['id'][:12]}  " + (f"{one['stage']}  {one['path']}" if one["path"] else "not at hand")


def _sequence(sequence: Mapping[str, Any]) -> str:
    pack = f"pack {sequence['pack']}: " if "pack" in sequence else ""
    return (
        f"{pack}sequence {sequence['sequence_id']}, window {sequence['window']}, {sequence['num_tokens']} tokens "
        f"({sequence['num_supervised']} targets), {sequence['shard']} row {sequence['row']}"
    )


def _example(example: Mapping[str, Any]) -> Iterator[str]:
    yield f"  example {example['example_id']} of {example['source']}, {example['split']}, group {example['group'] or '-'}"
    if example["parent_id"]:
        yield f"    made from example {example['parent_id']}"
    yield f"    in {example['path']} row {example['row']}"
    file = example["file"]
    raw = f" ({file['size']} bytes, xxh3 {file['xxh3']})" if file else ""
    yield f"    from {example['input']}:{example['position']}{raw}"
    stated = [f"{name} {value}" for name, value in example["stated"].items() if value]
    if stated:
        yield f"    stated: {', '.join(stated)}"
    for relation in example["relations"]:
        facts = [relation["annotator"], None if relation["confidence"] is None else f"{relation['confidence']:.4f}"]
        told = " ".join(fact for fact in facts if fact)
        assets = " ".join(asset[:12] for asset in relation["assets"])
        yield f"    {relation['kind']} ({relation['scope']}) {assets}{' by ' + told if told else ''}".rstrip()
    if example["text"]:
        yield f"    {example['text']}"


def _asset(asset: Mapping[str, Any]) -> Iterator[str]:
    frame = f" frame {asset['frame']}" if asset["frame"] else ""
    yield (
        f"  asset {asset['asset_id']}{frame}: {asset['media_type']} {asset['height']}x{asset['width']}, "
        f"stored {asset['stored_xxh3']}, in {asset['examples']} examples"
    )
    for row in asset["provenance"]:
        yield f"    from {row['input']}:{row['position']}, {row['origin'] or 'no origin'}"
        for name, columns in _SEVEN:
            values = [f"{column} {row[column]}" for column in columns if row[column]]
            if values:
                yield f"      {name}: " + ", ".join(values)


def _history(row: Mapping[str, Any]) -> Iterator[str]:
    if row["example_id"]:
        yield f"  example {row['example_id']}"
    for step in row["history"]:
        if step["outcome"] == "kept":
            yield f"    {step['stage']}: kept, {step['split']}, {step['shard']} row {step['row']}"
        else:
            yield f"    {step['stage']}: left out, {step['outcome']} ({step['detail']})"
        for link in step["links"]:
            facts = ", ".join(f"{name} {value}" for name, value in link.items() if name != "table")
            yield f"      {link['table']}: {facts}"
    for example in row["examples"]:
        yield f"    now in {example['path']} row {example['row']}"
        for sequence in example["sequences"]:
            yield "    " + _sequence(sequence)
