"""`shardkit head`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import Whole, dataset_argument, look_options, print_result
from shardkit.prepare.report.head import head
from shardkit.store.remote import as_url


@click.command("head")
@dataset_argument
@click.option("-n", "--number", type=Whole(min=1), default=5, show_default=True, metavar="N")
@click.option("--split", metavar="NAME", help="Only examples of this split.")
@look_options
def command(*, dataset: Path, as_json: bool, **given: Any) -> None:
    """Show the first examples of a dataset, in short.

    \b
    shardkit head work/clean -n 3
    """
    examples = head(dataset, **given)
    text = "\n".join(_line(example) for example in examples) or "the dataset is empty"
    print_result({"dataset": as_url(dataset) or str(dataset), "examples": examples}, as_json=as_json, text=text)


def _line(example: Mapping[str, Any]) -> str:
    images = " ".join(f"[{image['height']}x{image['width']} {image['media_type']}]" for image in example["images"])
    parts = (
        example["example_id"],
        example["split"],
        example["source"],
        example["group"] or "-",
        images,
        example["text"],
    )
    return "  ".join(part for part in parts if part)
