"""`shardkit plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from shardkit.cli.common import dataset_argument, print_result, read_options, say
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan import TAILS, Mixture, Plan, PlanSettings
from shardkit.sequence.plan.report import describe
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.store.dataset import Dataset
from shardkit.store.plans import save_plan


@click.command("plan")
@dataset_argument
@click.option("--split", metavar="NAME", help="[default: train, or everything where it was never split]")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), metavar="L", help="Tokens of a pack. [default: the dataset's]"
)
@click.option("--max-images", type=click.IntRange(min=1), metavar="N", help="Images of a pack.")
@click.option("--max-patches", type=click.IntRange(min=1), metavar="N", help="Image patches of a pack.")
@click.option("--global-batch", type=click.IntRange(min=1), default=1, show_default=True, help="Packs of a step.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order.")
@click.option("--packer", type=click.Choice(list(PACKERS)), default="best-fit", show_default=True)
@click.option(
    "--tail",
    type=click.Choice(list(TAILS)),
    default="drop",
    show_default=True,
    help="; ".join(f"{name}: {meaning}" for name, meaning in TAILS.items()) + ".",
)
@click.option(
    "--mixture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='TOML: by = "token", weights = {web = 3, ocr = 1}. [default: every sequence once an epoch]',
)
@click.option("--epoch", type=click.IntRange(min=0), default=0, show_default=True, help="The epoch that is described.")
@click.option(
    "--world", "worlds", type=click.IntRange(min=1), multiple=True, metavar="W", help="Balance W ranks. Repeatable."
)
@click.option("--save", is_flag=True, help="Keep the plan in DATASET/.cache, so that loaders need not count batches.")
@read_options
def command(
    *,
    dataset: Path,
    split: str | None,
    max_tokens: int | None,
    mixture: Path | None,
    epoch: int,
    worlds: tuple[int, ...],
    save: bool,
    bases: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Say what an epoch will be, before a GPU is hired: batches, fill, what a pack holds, shares of the sources.

    \b
    shardkit plan work/tokens --max-tokens 4096 --global-batch 64 --world 8 --world 16
    shardkit plan work/tokens --max-tokens 4096 --max-patches 8192 --mixture mixture.toml --json
    """
    opened = Dataset.open(dataset, base=bases)
    chosen = choose_split(opened, split)
    plan = Plan(
        read_lengths(opened, chosen),
        PlanSettings(max_tokens=max_tokens or opened.recipe["max_tokens"], **settings),
        mixture=None if mixture is None else Mixture.of(mixture),
        identity=identity(opened, chosen),
    )
    figures = {"dataset": str(dataset), "id": opened.id, "split": chosen, **describe(plan, epoch, worlds)}
    if save:
        path = save_plan(opened.path, plan.digest, _blocks(plan, epoch), _about(plan, epoch))
        figures["saved"] = str(path)
        say(f"saved {path}", quiet=quiet)
    print_result(figures, as_json=as_json, text=_text(figures))


def _blocks(plan: Plan, epoch: int) -> list[dict[str, Any]]:
    survey = plan.survey(epoch)
    counts = np.diff(survey.first_packs).tolist()
    return [
        {"epoch": epoch, "block": block, "first_pack": first, "num_packs": count, "draw": str(draw.to_json())}
        for block, (first, count, draw) in enumerate(
            zip(survey.first_packs.tolist(), counts, survey.draws, strict=False)
        )
    ]


def _about(plan: Plan, epoch: int) -> dict[str, Any]:
    return {
        "of": plan.identity,
        "settings": asdict(plan.settings),
        "mixture": plan.mixture.to_json() if plan.mixture else None,
        "num_steps": {str(epoch): plan.num_steps(epoch)},
    }


def _text(figures: Mapping[str, Any]) -> str:
    per_pack = figures["per_pack"]
    units = ("sequences", "tokens", "images", "patches", "supervised", "cost")
    width = max(map(len, ["source", *figures["sources"]]))
    batches = f"{figures['steps']} batches of {figures['global_batch']} packs"
    held = f"{figures['packs']} packs, {figures['sequences']} sequences, {figures['tokens']} tokens"
    tail = f"{figures['packs_left_out']} packs left out, {figures['packs_filled_up']} filled up"
    lines = [
        f"{figures['dataset']}\t{figures['plan']}",
        f"epoch {figures['epoch']} of {figures['split']}: {batches} from {held}",
        f"fill {figures['fill']:.4f}, padding {figures['padding']:.4f}, {tail}",
        f"{'a pack has':{width}} " + " ".join(f"{name:>14}" for name in per_pack["tokens"]),
        *(f"{name:{width}} " + " ".join(f"{value:>14.1f}" for value in per_pack[name].values()) for name in per_pack),
        f"{'source':{width}} " + " ".join(f"{name:>18}" for name in units) + "   passes",
    ]
    for name, source in figures["sources"].items():
        cells = " ".join(f"{source[unit]:>10} ({source['shares'][unit]:5.3f})" for unit in units)
        lines.append(f"{name:{width}} {cells}   {source['passes']:.2f}")
    lines += [
        f"{world} ranks: the costliest rank of a step works {ratio:.3f} times the mean"
        for world, ratio in figures["straggler"].items()
    ]
    return "\n".join(lines)
