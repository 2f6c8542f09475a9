"""The command line: one thin file a command. Only this floor prints and ends the process."""

from __future__ import annotations

import contextlib
import importlib
import keyword
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import click

from shardkit import __version__
from shardkit.cli.failure import AnsweredError, leave_stdout, report_error, report_stop, report_usage
from shardkit.errors import ShardkitError, guess

COMMANDS = {
    "ingest": "raw dumps to hashed shards with provenance",
    "import": "prepared sets of others: hf, mds, webdataset",
    "dedup": "remove duplicates, across several datasets at once",
    "decontaminate": "leave out what benchmarks hold",
    "select": "the examples of which a condition holds",
    "concat": "datasets as one, their shards by reference",
    "split": "train, val and test that share nothing",
    "shrink": "the same examples with smaller pictures",
    "tokenizer": "train a tokenizer on datasets, or measure one on them",
    "tokenize": "examples to sequences, for one tokenizer and recipe",
    "plan": "what an epoch will be: batches, fill, shares",
    "padding": "what padded batches would waste, beside packs",
    "train": "the bundled trainer",
    "rollout-prompts": "prompts for a sampler outside, from any place on",
    "verify": "check every file of a dataset against its manifest",
    "audit": "prove from the shards that no split leaks",
    "stats": "what a dataset holds, and what became of every raw row",
    "report": "the same as pages of HTML, with pictures of duplicates and leaks",
    "export": "a dataset as others read it: hf, webdataset, jsonl, parquet, croissant",
    "head": "the first examples of a dataset",
    "inspect": "one example whole: texts, pictures, origin, sequences",
    "explain": "why an example went or stayed",
    "trace": "from a batch back to the raw row, or from a raw row forward",
    "forget": "a dataset without an asset, a source or a licence",
    "schema": "reasons, error codes and options, as data",
}
"""Command -> one line of help. The code is in shardkit/cli/<command>.py and is imported when it is run."""


class _ReaderGoneError(Exception):
    """The reader of stdout went away (`| head`)."""


class _Text(click.types.StringParamType):
    """A text that tables and manifests can hold. A shell hands over any bytes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!r} is no UTF-8.", param, ctx)
        return text


_TEXT = _Text()


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None  # click would end the process as if something were wrong

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}{guess(args[0], COMMANDS)}.", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"shardkit.cli.{name}{'_' * keyword.iskeyword(name)}")
        if "pyarrow" in sys.modules:  # loaded by the command; `shardkit --help` goes without
            importlib.import_module("shardkit.store.pandas_free").spare_pandas()
        command: click.Command = module.command
        for one in (command, *getattr(command, "commands", {}).values()):
            for parameter in one.params:
                if parameter.type is click.STRING:
                    parameter.type = _TEXT
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="shardkit")
def cli() -> None:
    """Raw OCR, caption and OBELICS dumps to leak-free shards, and a packed stream that resumes exactly.

    \b
    shardkit ingest caption pairs.csv -o work/captions
    shardkit dedup work/captions work/pages -o work/clean
    shardkit split work/clean -o work/split --ratios train=0.9,val=0.05,test=0.05
    shardkit tokenize work/split -o work/tokens --tokenizer DIR --recipe vlm --max-tokens 1024
    shardkit train --task vlm-align --data work/tokens --steps 100 --out runs/first
    """


class Terminated(BaseException):
    """SIGTERM arrived."""


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with the exit code of DESIGN section 12."""
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code instead of ending the process."""
    with contextlib.suppress(ValueError):  # not the main thread: the host process decides about signals
        signal.signal(signal.SIGTERM, _terminated)
    words = sys.argv[1:] if argv is None else argv
    as_json = "--json" in words
    try:
        result: Any = cli.main(args=argv, prog_name="shardkit", standalone_mode=False)
    except ShardkitError as error:
        report_error(error, as_json=as_json)
        return error.exit_code
    except AnsweredError as answered:
        report_error(answered.error, as_json=False)
        return answered.error.exit_code
    except click.ClickException as error:
        report_usage(error, as_json=as_json)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        report_stop("interrupted", 130, words, as_json=as_json)
        return 130
    except Terminated:
        report_stop("terminated", 143, words, as_json=as_json)
        return 143
    except _ReaderGoneError:
        leave_stdout()  # nothing is wrong, and nothing more can be said there
        return 0
    return result if isinstance(result, int) else 0


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated
