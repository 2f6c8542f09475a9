"""Options and output that every command shares."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import click
import orjson
from tqdm import tqdm

from shardkit.cli.failure import AnsweredError, leave_stdout
from shardkit.engine.cores import num_cores
from shardkit.engine.progress import Progress, silent
from shardkit.errors import ConfigError, OutputError, ShardkitError
from shardkit.records.counts import MOST
from shardkit.sequence.packers import PACKERS
from shardkit.store.remote import RemoteSettings
from shardkit.store.units import SHARD_FORMATS

Command = TypeVar("Command", bound=Callable[..., Any])
Number = TypeVar("Number")


class Whole(click.IntRange):
    """A whole number that is no larger than anything can be counted: sums of it stay below 64 bits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number: int = super().convert(value, param, ctx)
        if number > MOST:
            self.fail(f"{value} is above {MOST}, which is the most.", param, ctx)
        return number


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress on stderr.")
silent_option = click.option(
    "--quiet", is_flag=True, expose_value=False, help="Changes nothing: there is no progress anyway."
)
"""--quiet of a command that says nothing on stderr."""
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace a dataset of ours at -o, after the new one is safe on disk."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would happen; write nothing.")
workers_option = click.option(
    "--workers",
    type=Whole(min=1),
    default=num_cores,
    show_default="one a core",
    help="Worker processes. The result does not depend on it.",
)
base_option = click.option(
    "--base",
    "bases",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Where to look for inputs that were moved: a dataset, or a folder of datasets. Repeatable.",
)
dataset_argument = click.argument("dataset", type=click.Path(path_type=Path))
datasets_argument = click.argument("datasets", type=click.Path(path_type=Path), nargs=-1, required=True)
output_option = click.option(
    "-o", "--out", "output", type=click.Path(path_type=Path), help="The dataset to write. [required without --dry-run]"
)
train_split_option = click.option(
    "--split", metavar="NAME", help="[default: train, or everything where it was never split]"
)
max_tokens_option = click.option(
    "--max-tokens", type=Whole(min=1), metavar="L", help="Tokens of a pack. [default: the dataset's]"
)
global_batch_option = click.option(
    "--global-batch", type=Whole(min=1), default=1, show_default=True, help="Packs of a step."
)
packer_option = click.option(
    "--packer", type=click.Choice(list(PACKERS)), default="best-fit", show_default=True, help="Fills the packs."
)

max_removed_option = click.option(
    "--max-removed-per-source",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="SHARE",
    help="Commit nothing where a source of 1,000 examples or more would lose a larger share.",
)
embedding_column_option = click.option(
    "--embedding-column", metavar="NAME", help="The column of the vectors, where there are several."
)
embedding_field_option = click.option(
    "--embedding-field", metavar="NAME",
    help="A metadata field that holds the vector of each example as a list of numbers, with or instead of files.",
)  # fmt: skip


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator for several options, in the order in which --help shows them."""

    def apply(function: Command) -> Command:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def choice_option(
    name: str, meanings: Mapping[str, str], about: str = "", *, default: str | None = None
) -> Callable[[Command], Command]:
    """An option that takes a key of `meanings`; its help says what each of them means."""
    said = "; ".join(f"{choice}: {meaning}" for choice, meaning in meanings.items())
    choices = click.Choice(list(meanings))
    return click.option(
        name, type=choices, default=default, show_default=default is not None, help=f"{about} {said}.".lstrip()
    )


cache_option = click.option(
    "--cache",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where this host keeps what it fetches of a dataset behind a URL. [default: ~/.cache/shardkit]",
)
cache_limit_option = click.option(
    "--cache-limit",
    type=Whole(min=1),
    metavar="BYTES",
    help="Shards that are kept there; those used longest ago go first. [default: 100 GiB]",
)


def remote_options(function: Command) -> Command:
    """--cache and --cache-limit of a command that takes URLs; it gets them as `remote`."""

    @functools.wraps(function)
    def command(*, cache: Path | None, cache_limit: int | None, **given: Any) -> Any:
        remote = RemoteSettings()
        if cache is not None:
            remote = replace(remote, cache=cache.absolute())
        if cache_limit is not None:
            remote = replace(remote, limit=cache_limit)
        return function(remote=remote, **given)

    return cast(Command, cache_option(cache_limit_option(command)))


stage_options = options(workers_option, overwrite_option, dry_run_option, base_option, json_option, quiet_option)
"""What every command that writes a dataset takes."""
shard_options = options(
    click.option("--shards", type=click.Choice(list(SHARD_FORMATS)), default="arrow", show_default=True),
    click.option(
        "--shard-size",
        type=Whole(min=1),
        default=256_000_000,
        show_default=True,
        metavar="BYTES",
        help="A shard closes when its payload reaches this.",
    ),
)
"""Of what every command takes that writes shards of examples."""
read_options = options(base_option, json_option, quiet_option)
"""What every command that only reads a dataset takes."""
remote_read_options = options(base_option, remote_options, json_option, quiet_option)
"""The same of one that takes a URL, too."""
look_options = options(base_option, remote_options, json_option, silent_option)
"""The same of one that answers at once, without a word on stderr."""
limit_options = options(
    click.option("--max-images", type=Whole(min=1), metavar="N", help="Images of a pack."),
    click.option("--max-patches", type=Whole(min=1), metavar="N", help="Image patches of a pack."),
    click.option(
        "--max-attention",
        type=Whole(min=1),
        metavar="N",
        help="Pairs of tokens of a pack that attend to one another: the sum of the squares of its sequences' lengths.",
    ),
)
"""What a pack may hold beside tokens."""


def write_stdout(text: str) -> None:
    """Hand `text` to stdout at once: whoever reads it need not wait, and whoever kills us loses a line at most.

    Raises:
        OutputError: where it refuses, like a file on a full disk.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # a reader that goes away is no failure
    except OSError as error:
        leave_stdout()  # what is left would fail again at the end
        raise OutputError.from_os(error, "stdout") from error


def print_result(result: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """One JSON object, or `text`, on stdout."""
    if as_json:
        write_stdout(orjson.dumps(result, option=orjson.OPT_SORT_KEYS).decode() + "\n")
    else:
        write_stdout((text if sys.stdout.isatty() else click.unstyle(text)) + "\n")


def print_verdict(result: Mapping[str, Any], error: ShardkitError | None, *, as_json: bool, text: str) -> None:
    """The answer of a command that looks for faults: where it found one, stdout has an answer with --json alone.

    Raises:
        AnsweredError: the `error`, which the object on stdout has, too.
        ShardkitError: the `error` itself, without --json.
    """
    if as_json:
        print_result({**result, "error": None if error is None else error.to_json()}, as_json=True, text=text)
    if error is not None:
        raise AnsweredError(error) if as_json else error
    if not as_json:
        print_result(result, as_json=False, text=text)


class Committed(Protocol):
    """What a stage answers that writes a dataset."""

    @property
    def path(self) -> Path | None: ...
    @property
    def dataset_id(self) -> str | None: ...
    @property
    def dry_run(self) -> bool: ...
    def to_json(self) -> dict[str, Any]: ...


def print_dataset(result: Committed, table: str, *, as_json: bool, quiet: bool) -> None:
    """The answer on stdout and its table on stderr; of a dry run the table is the answer."""
    if not result.dry_run:
        say(table, quiet=quiet)
    text = table if result.dry_run else f"{result.path}\t{result.dataset_id}"
    print_result(result.to_json(), as_json=as_json, text=text)


def say(text: str, *, quiet: bool = False) -> None:
    """A line on stderr for people."""
    if not quiet:
        click.echo(text, err=True)


def progress_bar(label: str, *, quiet: bool, unit: str = "it") -> Progress:
    """A progress callback that draws a bar on stderr, with rate and time left; silent with --quiet or off a terminal.

    Args:
        unit: what is counted; "B" is spoken as kB, MB, ...
    """
    if quiet or not sys.stderr.isatty():
        return silent
    bar: tqdm[Any] = tqdm(
        desc=label, leave=False, file=sys.stderr, unit=unit, unit_scale=unit == "B", dynamic_ncols=True, miniters=1
    )
    context = click.get_current_context(silent=True)
    if context is not None:
        context.call_on_close(bar.close)  # however the command ends, what it says last stands on a clear line

    def advance(done: int, total: int | None, note: str = "") -> None:
        if bar.total is None:
            bar.total, bar.n, bar.initial = total, done, done  # what an earlier run did says nothing about the rate
        bar.set_postfix_str(note, refresh=done == bar.n)  # a remark alone is news, too
        bar.update(done - bar.n)
        if total is not None and done >= total:
            bar.close()

    return advance


def parse_names(values: Sequence[str]) -> tuple[str, ...]:
    """The names of a repeatable option of which a value may hold several, parted by commas."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def parse_numbers(values: Sequence[str], option: str, kind: Callable[[str], Number]) -> dict[str, Number]:
    """`NAME=NUMBER` strings of a repeatable option as a dict.

    Raises:
        ConfigError: where a value is no such pair, or a name comes twice.
    """
    numbers: dict[str, Number] = {}
    for name, value in parse_pairs(values, option).items():
        try:
            numbers[name] = kind(value)
        except (ValueError, ZeroDivisionError):
            raise ConfigError(
                f"{option} {name}={value}: {value!r} is no number", hint=f"write {option} {name}=0.5"
            ) from None
    return numbers


def parse_pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` strings of a repeatable option as a dict.

    Raises:
        ConfigError: where a value has no `=` or a name comes twice.
    """
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise ConfigError(f"{option} {value!r} is not NAME=VALUE", hint=f"write {option} NAME=VALUE")
        if name in pairs:
            raise ConfigError(f"{option} names {name!r} twice", hint=f"give {option} {name}=... once")
        pairs[name] = rest
    return pairs
