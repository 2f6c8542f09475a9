"""`shardkit rollout-prompts`."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import click
import orjson

from shardkit.cli.common import (
    Whole,
    base_option,
    dataset_argument,
    quiet_option,
    remote_options,
    say,
    train_split_option,
    write_stdout,
)
from shardkit.errors import ConfigError
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings


@click.command("rollout-prompts")
@dataset_argument
@train_split_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order.")
@click.option("--epochs", type=Whole(min=1), default=1, show_default=True, help="Where the last one ends.")
@click.option("--after", metavar="EPOCH/STEP", help="Go on behind this place, that of the last prompt that is done.")
@click.option("--limit", type=Whole(min=1), metavar="N", help="At most N prompts.")
@click.option("--rank", type=Whole(min=0), default=0, show_default=True, help="Of several samplers, this one.")
@click.option("--world", type=Whole(min=1), default=1, show_default=True, help="Number of samplers.")
@base_option
@remote_options
@click.option(
    "--json", is_flag=True, expose_value=False, help="Changes nothing: stdout is a JSON object a line anyway."
)
@quiet_option
def command(
    *,
    dataset: Path,
    split: str | None,
    seed: int,
    epochs: int,
    after: str | None,
    limit: int | None,
    rank: int,
    world: int,
    bases: tuple[Path, ...],
    remote: RemoteSettings,
    quiet: bool,
) -> None:
    """Stream the prompts of a dataset of the recipe rlaif or agent to a sampler outside, a JSON object a line.

    Each line has its place, epoch and step. With --after the same order goes on behind a place, for any number of samplers.

    \b
    shardkit rollout-prompts work/prompts --limit 100
    shardkit rollout-prompts work/prompts --epochs 3 --after 0/99 --rank 1 --world 4
    """
    from shardkit.loader.prompts import prompts

    found = prompts(
        Dataset.open(dataset, base=bases, remote=remote),
        split=split,
        seed=seed,
        epochs=epochs,
        after=_place(after),
        rank=rank,
        world_size=world,
    )
    number = 0
    for prompt in islice(found, limit):
        write_stdout(orjson.dumps(prompt).decode() + "\n")
        number += 1
    if not number:
        say(f"{dataset}: no prompt is {'left behind ' + after if after else 'here'} for this sampler", quiet=quiet)


def _place(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", text)
    if found is None:
        raise ConfigError(
            f"--after {text!r} is no place", hint="write --after EPOCH/STEP, as the lines have them: 0/99"
        )
    return int(found[1]), int(found[2])
