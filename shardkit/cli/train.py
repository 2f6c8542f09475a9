"""`shardkit train`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from shardkit.cli.common import (
    Whole,
    base_option,
    choice_option,
    global_batch_option,
    limit_options,
    max_tokens_option,
    packer_option,
    parse_numbers,
    progress_bar,
    quiet_option,
    remote_options,
    say,
    write_stdout,
)
from shardkit.errors import ConfigError
from shardkit.trainer.config import (
    DECODERS,
    DEVICES,
    PARTS,
    POSITIONS,
    PRECISIONS,
    SCHEDULES,
    TASKS,
    THETA,
    TrainConfig,
)
from shardkit.trainer.sizes import PRESETS
from shardkit.trainer.stages import Stage, one_stage, read_stages

if TYPE_CHECKING:
    from shardkit.trainer.evaluate import RightAgainstPermuted
    from shardkit.trainer.loop import Record

LINES = 10
"""Losses that are shown of a run, beside the first."""


@click.command("train")
@choice_option("--task", TASKS)
@click.option("--data", type=click.Path(path_type=Path), help="A tokenized dataset.")
@click.option("--steps", type=Whole(min=1), help="The step after which the run ends.")
@click.option(
    "--stages",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Several stages one after the other: a table [[stage]] for each, with name, steps, and what it has other than "
    "these options say (docs/training.md). Then --steps is left out.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The run's folder: log and checkpoints.")
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint in --out.")
@click.option(
    "--resume-from",
    type=Whole(min=0),
    metavar="STEP",
    help="Go on from the checkpoint of this step instead of the latest.",
)
@click.option(
    "--init", type=click.Path(path_type=Path), metavar="RUN", help="Begin with the latest weights of another run."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order and of the first weights.")
@click.option("--preset", type=click.Choice(list(PRESETS)), default="smoke", show_default=True, help="Model size.")
@click.option(
    "--positions", type=click.Choice(POSITIONS), default="rotary", show_default=True, help="Kind of positions."
)
@click.option("--theta", type=float, default=THETA, show_default=True, help="Base of rotary positions.")
@max_tokens_option
@limit_options
@global_batch_option
@packer_option
@click.option(
    "--mixture",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Shares of the sources, as for `shardkit plan`. [default: everything once an epoch]",
)
@choice_option("--decoder", DECODERS, "Pixels of stored pictures.", default="pillow")
@click.option(
    "--micro-steps",
    type=Whole(min=1),
    default=1,
    show_default=True,
    help="Parts in which a rank computes its share of a step.",
)
@click.option("--lr", type=float, default=1e-3, show_default=True, help="Learning rate after the warm-up.")
@click.option("--warmup", type=Whole(min=0), default=20, show_default=True, help="Steps of the warm-up.")
@choice_option("--schedule", SCHEDULES, "Of the learning rate.", default="constant")
@click.option("--weight-decay", type=float, default=0.01, show_default=True, help="Of matrices.")
@click.option("--clip", type=float, default=1.0, show_default=True, help="Largest norm of the gradient.")
@click.option("--freeze", type=click.Choice(PARTS), multiple=True, help="A part that keeps its weights. Repeatable.")
@click.option(
    "--objective-weight",
    "objective_weights",
    multiple=True,
    metavar="NAME=W",
    help="Weight of an objective in the loss; give one for each of the dataset, or none (all 1). Repeatable.",
)
@click.option(
    "--beta",
    type=float,
    default=0.1,
    show_default=True,
    help="Tasks dpo and vlm-dpo: how strongly the reference holds.",
)
@click.option(
    "--eval-every",
    type=Whole(min=0),
    default=0,
    metavar="N",
    show_default=True,
    help="Log the loss on --eval-split by source and objective every N steps; 0 never.",
)
@click.option(
    "--eval-split",
    default="val",
    metavar="NAME",
    show_default=True,
    help="What is evaluated; of a dataset that was never split everything.",
)
@click.option(
    "--objective-norms-every",
    type=Whole(min=0),
    default=50,
    metavar="N",
    show_default=True,
    help="Log the gradient norm of each objective alone every N steps, at the cost of a pass for each; 0 never.",
)
@click.option("--checkpoint-every", type=Whole(min=1), default=50, show_default=True, help="Steps.")
@click.option("--keep-last", type=Whole(min=1), default=2, show_default=True, help="Checkpoints to keep.")
@click.option(
    "--tensorboard", type=click.Path(path_type=Path), metavar="DIR", help="Write the log's numbers for TensorBoard too."
)
@choice_option("--device", DEVICES, "Where the run computes.", default="cpu")
@choice_option("--precision", PRECISIONS, "What a step computes with.", default="fp32")
@click.option("--compile", is_flag=True, help="Compile the feed-forward layers (torch.compile).")
@click.option("--threads", type=Whole(min=1), help="CPU threads. [default: one a core; a run keeps its own]")
@click.option(
    "--eval-permuted",
    is_flag=True,
    help="At the end, on val: the loss with the right images against that with images permuted across groups.",
)
@base_option
@remote_options
@click.option("--json", is_flag=True, expose_value=False, help="Changes nothing: stdout is one JSON object anyway.")
@quiet_option
def command(
    *, objective_weights: tuple[str, ...], stages: Path | None, eval_permuted: bool, quiet: bool, **given: Any
) -> int:
    """Train the bundled model on the packed stream of a tokenized dataset.

    A run that was killed goes on with --resume, and on a CPU ends with the same bits. The last line of stdout is JSON
    with step, loss and weights_digest.

    \b
    shardkit train --task vlm-align --data work/tokens --steps 1000 --out runs/first
    shardkit train --task vlm-align --data work/tokens --steps 1000 --out runs/first --resume
    shardkit train --stages stages.toml --out runs/staged
    torchrun --nproc-per-node 2 -m shardkit train --task lm --data work/tokens --steps 100 --out runs/two --global-batch 8
    """
    try:
        import torch  # noqa: F401  # the one command that needs it says so in one sentence
    except ModuleNotFoundError:
        raise ConfigError("training needs torch", hint="install it: pip install 'shardkit[train]'") from None
    from shardkit.trainer.evaluate import evaluate
    from shardkit.trainer.loop import train
    from shardkit.trainer.ranks import AnotherRankFailed, failing_together, joined_ranks

    given["resume"] |= given["resume_from"] is not None
    try:
        with joined_ranks(given["device"]):
            with failing_together():
                run = _stages(
                    stages,
                    {**given, "objective_weights": parse_numbers(objective_weights, "--objective-weight", float)},
                )
                if eval_permuted and run[-1].config.task != "vlm-align":
                    raise ConfigError(
                        f"--eval-permuted compares images, the run ends with task {run[-1].config.task}",
                        hint="leave it out, or train with --task vlm-align",
                    )
            result = train(run, _reporter(run[-1].last, quiet=quiet), lambda note: say(note, quiet=quiet))
    except AnotherRankFailed as other:
        return other.code  # that rank has said why
    if result.rank:
        return 0
    say(f"step {result.step}: loss {result.loss:.4f}; the run is in {given['out']}", quiet=quiet)
    line: dict[str, Any] = {"step": result.step, "loss": result.loss, "weights_digest": result.weights_digest}
    if eval_permuted:
        figure = evaluate(result.model, result.config)
        line["right_against_permuted"] = asdict(figure)
        say(_seen(figure), quiet=quiet)
    write_stdout(orjson.dumps(line, option=orjson.OPT_SORT_KEYS).decode() + "\n")
    return 0


def _stages(file: Path | None, given: dict[str, Any]) -> list[Stage]:
    if file is None:
        for name in ("task", "data", "steps"):
            if given[name] is None:
                raise click.UsageError(f"Missing option '--{name}' (or '--stages').")
        return one_stage(TrainConfig(**given))
    if given.pop("steps") is not None:
        raise click.UsageError("'--steps' is said in the file of '--stages', for each stage.")
    return read_stages(file, given)


def _reporter(steps: int, *, quiet: bool) -> Callable[[Record], None]:
    """Draws the bar, and says some of the losses in lines that stay."""
    bar = progress_bar("train", quiet=quiet)
    every = max(1, steps // LINES)

    def report(record: Record) -> None:
        step = record["step"]
        bar(step, steps, f"loss {record['loss']:.4f}")
        if step == 1 or step % every == 0:
            parts = ", ".join(f"{name} {loss:.4f}" for name, loss in record["loss_by_objective"].items())
            say(f"step {step}/{steps}  loss {record['loss']:.4f}  ({parts})", quiet=quiet)

    return report


def _seen(figure: RightAgainstPermuted) -> str:
    if figure.difference is None:
        return f"right against permuted images, {figure.split}: no image could be permuted with one of another group"
    error = "" if figure.standard_error is None else f" +- {figure.standard_error:.2g} (standard error over groups)"
    return (
        f"right against permuted images, {figure.split}, {figure.num_groups} groups: loss {figure.right:.4f} against "
        f"{figure.permuted:.4f}, difference {figure.difference:+.3g}{error}; {figure.num_left_out} images left out"
    )
