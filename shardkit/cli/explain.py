"""`shardkit explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import dataset_argument, look_options, print_result
from shardkit.prepare.report.explain import explain


@click.command("explain")
@dataset_argument
@click.argument("example_id", metavar="ID")
@look_options
def command(*, dataset: Path, example_id: str, as_json: bool, **given: Any) -> None:
    """Say why an example went or stayed, by its id or the first 8 digits and more of it, as `shardkit head` shows them.

    \b
    shardkit explain work/clean 3528965b1a92
    """
    answer = explain(dataset, example_id, **given)
    print_result(answer, as_json=as_json, text="\n".join(_lines(answer)))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    by = answer["left_out_by"] or answer
    yield f"{answer['example_id']}  {answer['outcome']}  (stage {by['stage']})"
    if answer["detail"]:
        yield f"  {answer['detail']}"
    for place in answer["places"]:
        yield f"  from {place['input']}:{place['position']}, source {place['source']}, {place['shard']} row {place['row']}"
    for link in answer["links"]:
        yield "  " + _link(link, answer["example_id"])


def _link(link: Mapping[str, Any], own: str) -> str:
    if link["table"] == "edges":
        side = "beside" if link["removed_id"] == own else "for"
        other = link["kept_id"] if link["removed_id"] == own else link["removed_id"]
        return f"{link['level']} {link['score']:.4f}, {side} {other}: {link['evidence']}"
    if link["table"] == "near":
        other = link["other_id"] if link["example_id"] == own else link["example_id"]
        return f"{link['level']} {link['score']:.4f}, {link['outcome']}, with {other}: {link['evidence']}"
    facts = ", ".join(f"{name} {value}" for name, value in link.items() if name not in ("table", "example_id"))
    return f"{link['table']}: {facts}"
