"""`shardkit inspect`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import dataset_argument, look_options, print_result
from shardkit.cli.spelled import plain, sequence_lines
from shardkit.prepare.report.inspect import inspect


@click.command("inspect")
@dataset_argument
@click.argument("wanted", metavar="[ID]", required=False)
@click.option("--split", metavar="NAME", help="Without an ID: the first example of this split.")
@look_options
def command(*, dataset: Path, wanted: str | None, as_json: bool, **given: Any) -> None:
    """Show one example whole: its texts and pictures in order, where it comes from, and its sequences.

    ID is that of an example or a sequence, or its first 8 digits and more (`shardkit head` shows some); without one it is
    the first example.

    \b
    shardkit inspect work/clean
    shardkit inspect work/tokens 3528965b1a92
    """
    answer = inspect(dataset, wanted, **given)
    print_result(answer, as_json=as_json, text="\n".join(_lines(answer)))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    for number, example in enumerate(answer["examples"]):
        yield from map(plain, _example(example, answer["assets"]))
        for sequence in answer["sequences"]:
            if sequence["example"] == number:
                yield from ("  " + line for line in sequence_lines(sequence))


def _example(example: Mapping[str, Any], assets: list[Mapping[str, Any]]) -> Iterator[str]:
    yield f"example {example['example_id']} of {example['source']}, {example['split']}, group {example['group'] or '-'}"
    yield f"  from {example['input']}:{example['position']}, in {example['shard']} row {example['row']}"
    for segment in example["segments"]:
        yield "  " + _segment(segment, example["images"])
    for relation in example["relations"]:
        by = f" by {relation['annotator']}" if relation["annotator"] else ""
        yield f"  {relation['kind']}: segments {relation['segments']}, images {relation['images']}{by}"
    if example["metadata"]:
        yield f"  metadata {json.dumps(example['metadata'], ensure_ascii=False)}"
    for asset in assets:
        yield from _origins(asset, example)


def _segment(segment: Mapping[str, Any], images: list[Mapping[str, Any]]) -> str:
    part = " ".join(str(segment[name]) for name in ("role", "name") if segment[name])
    part += " (no target)" if segment["supervised"] is False else ""
    if segment["image"] is None:
        return f"{part + ': ' if part else ''}{json.dumps(segment['text'] or '', ensure_ascii=False)}"
    image = images[segment["image"]]
    more = [
        f"{image['num_labels']} labels" if image["num_labels"] else "",
        "reading order" if image["reading_order"] else "",
        f"{image['num_layout']} places of text" if image["num_layout"] else "",
    ]
    facts = ", ".join(fact for fact in more if fact)
    return (
        f"{part + ': ' if part else ''}[image {segment['image']}: {image['height']} x {image['width']} "
        f"{image['media_type']}, {image['size']} bytes{', ' + facts if facts else ''}, {image['asset_id']}]"
    )


def _origins(asset: Mapping[str, Any], example: Mapping[str, Any]) -> Iterator[str]:
    for row in asset["provenance"]:
        if row["example_id"] == example["example_id"]:
            facts = (row["origin"], row["revision"], row["licence"] and f"licence {row['licence']}")
            yield f"  asset {asset['asset_id'][:12]} from " + (", ".join(filter(None, facts)) or "an unnamed origin")
