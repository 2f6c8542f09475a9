"""`shardkit plan`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from shardkit.cli.common import (
    Whole,
    choice_option,
    dataset_argument,
    global_batch_option,
    limit_options,
    max_tokens_option,
    packer_option,
    print_result,
    remote_read_options,
    say,
    train_split_option,
)
from shardkit.errors import ConfigError, OutputError
from shardkit.sequence.plan import TAILS, Mixture, Plan, PlanSettings
from shardkit.sequence.plan.budget import parse_budget, spend
from shardkit.sequence.plan.mixture import SUBSET_UNITS, UNITS, natural
from shardkit.sequence.plan.report import describe
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.sequence.plan.subset import attainable, subset_amounts
from shardkit.store.dataset import Dataset
from shardkit.store.files import output_errors, output_is
from shardkit.store.plans import save_plan
from shardkit.store.remote import RemoteSettings


@click.command("plan")
@dataset_argument
@train_split_option
@max_tokens_option
@limit_options
@global_batch_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order.")
@packer_option
@choice_option("--tail", TAILS, default="drop")
@click.option(
    "--mixture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='TOML: by = "token", weights = {web = 3, ocr = 1}, more in docs/plan.md. [default: every sequence once an epoch]',
)
@click.option(
    "--budget",
    metavar="UNIT=N",
    help="Say how many steps and epochs a budget is, and what these deliver: tokens=N, examples=N, steps=N, or compute=N in "
    "units of the cost formula.",
)
@click.option(
    "--subset",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a mixture file that trains on the budget's worth of the data only, in every epoch. For ablations.",
)
@click.option("--epoch", type=Whole(min=0), default=0, show_default=True, help="The epoch that is described.")
@click.option("--world", "worlds", type=Whole(min=1), multiple=True, metavar="W", help="Balance W ranks. Repeatable.")
@click.option("--save", is_flag=True, help="Keep the plan in DATASET/.cache, so that loaders need not count batches.")
@remote_read_options
def command(
    *,
    dataset: Path,
    split: str | None,
    max_tokens: int | None,
    mixture: Path | None,
    epoch: int,
    worlds: tuple[int, ...],
    budget: str | None,
    subset: Path | None,
    save: bool,
    bases: tuple[Path, ...],
    remote: RemoteSettings,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Say what an epoch will be, before a GPU is hired: batches, fill, what a pack holds, shares of the sources.

    \b
    shardkit plan work/tokens --max-tokens 4096 --global-batch 64 --world 8 --world 16
    shardkit plan work/tokens --max-tokens 4096 --max-patches 8192 --mixture mixture.toml --json
    shardkit plan work/tokens --max-tokens 4096 --budget tokens=10_000 --subset small.toml
    """
    spent = None if budget is None else parse_budget(budget)
    if subset is not None and (spent is None or spent[0] not in SUBSET_UNITS):
        raise ConfigError(
            "a subset of what budget?", hint=f"give --budget UNIT=N with --subset, of {', '.join(SUBSET_UNITS)}"
        )
    opened = Dataset.open(dataset, base=bases, remote=remote)
    chosen = choose_split(opened, split)
    plan = Plan(
        read_lengths(opened, chosen),
        PlanSettings(max_tokens=max_tokens or opened.recipe["max_tokens"], **settings),
        mixture=None if mixture is None else Mixture.of(mixture),
        identity=identity(opened, chosen),
    )
    figures = {"dataset": opened.where, "id": opened.id, "split": chosen, **describe(plan, epoch, worlds)}
    if spent is not None:
        figures["budget"] = spend(plan, *spent)
    if subset is not None and spent is not None:
        figures["subset"] = str(subset)
        figures["subset_holds"], short = _write_subset(subset, plan, *spent)
        figures["subset_short"] = list(short)
        if short:
            say(
                f"{', '.join(short)}: less is there than the shares ask for; the subset has all of it, and more of the others",
                quiet=quiet,
            )
        say(f"wrote {subset}", quiet=quiet)
    if save:
        with output_is("the plan", "leave out --save"):
            path = save_plan(opened.path, plan.digest, _blocks(plan, epoch), _about(plan, epoch))
        figures["saved"] = str(path)
        say(f"saved {path}", quiet=quiet)
    print_result(figures, as_json=as_json, text=_text(figures))


def _write_subset(path: Path, plan: Plan, unit: str, budget: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """A mixture file with the shares of the plan, or of the data as they are, and the budget as its subset.

    Returns:
        What the subset holds of every unit, and the sources that have less than their share of it.
    """
    order = {"seed": plan.settings.seed, "window": plan.settings.window}
    mixture = replace(plan.mixture or natural(plan.lengths, SUBSET_UNITS[unit]), subset=(unit, budget))
    mixture, short = attainable(plan.lengths, mixture, **order)
    holds = subset_amounts(plan.lengths, mixture, **order)
    with output_is("the subset", "choose another path with --subset"), output_errors(path):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(mixture.to_toml())
        except FileExistsError as error:
            raise OutputError(
                "something is there already", where=str(path), hint="name another file, or remove that one"
            ) from error
    return holds, short


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
    per_pack, delay, least = figures["per_pack"], figures["delay"], figures["least_packs"]
    width = max(map(len, ["autocorrelation", *figures["sources"]]))
    batches = f"{figures['steps']} batches of {figures['global_batch']} packs"
    held = f"{figures['packs']} packs, {figures['sequences']} sequences, {figures['tokens']} tokens"
    tail = f"{figures['packs_left_out']} packs left out, {figures['packs_filled_up']} filled up"
    lines = [
        f"{figures['dataset']}\t{figures['plan']}",
        f"epoch {figures['epoch']} of {figures['split']}: {batches} from {held}",
        f"fill {figures['fill']:.4f} (by {least['by']} there are {least['number']} packs at least), padding {figures['padding']:.4f}, {tail}",
        f"a sequence waits {delay['mean']:.1f} packs on average, {delay['max']} at most (bound: {delay['bound']})",
        f"autocorrelation of sequences per pack {figures['autocorrelation']:.3f}",
        f"{'a pack has':{width}} " + " ".join(f"{name:>14}" for name in per_pack["tokens"]),
        *(f"{name:{width}} " + " ".join(f"{value:>14.1f}" for value in per_pack[name].values()) for name in per_pack),
        f"{'share by':{width}} " + " ".join(f"{name:>10}" for name in UNITS) + "     passes     of run",
    ]
    for name, source in figures["sources"].items():
        cells = " ".join(f"{source['shares'][unit]:>10.4f}" for unit in UNITS)
        lines.append(f"{name:{width}} {cells} {source['passes']:>10.2f} {source['passes_of_run']:>10}")
    if figures["mixture"]:
        gap = figures["mixture"]["largest_gap"]
        lines.append(
            f"largest gap to the shares by {figures['mixture']['by']}: {gap['draw_in_sequences']:.3f} sequences in the order "
            f"of the draw, {gap['inside_block_as_share']:.4f} of a block inside it"
        )
    lines += [
        f"{world} ranks: the costliest rank of a step works {ratio:.3f} times the mean"
        for world, ratio in figures["straggler"].items()
    ]
    if "budget" in figures:
        spent = figures["budget"]
        known = "about " if spent["estimated"] else ""
        reached = "" if spent["reached"] else ", where nothing comes any more: the budget is not reached"
        lines.append(
            f"{spent['budget']} {spent['unit']} are {known}{spent['steps']} steps, {known}{spent['epochs']:.3f} epochs{reached}: "
            + ", ".join(f"{number} {unit}" for unit, number in spent["delivered"].items())
        )
    if "subset" in figures:
        holds = ", ".join(f"{number} {unit}" for unit, number in figures["subset_holds"].items())
        lines.append(f"the subset holds {holds}")
    return "\n".join(lines)
