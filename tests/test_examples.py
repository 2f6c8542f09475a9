"""What pages, --help and messages tell a reader to type is what the program knows: no option, name or import goes stale."""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shardkit.cli import COMMANDS, cli, run
from shardkit.loader import Batch
from tools.cli_docs import PAGE as CLI_PAGE
from tools.cli_docs import render

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]) if page != CLI_PAGE]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THE_READERS = {"batch", "model", "query", "key", "value", "parts"}
"""Names in Python blocks that stand for what is the reader's own."""


def blocks() -> Iterator[tuple[str, str, str]]:
    """Name, language and text of every block of code of the pages."""
    for page in PAGES:
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            yield f"{page.relative_to(ROOT)}-{number}", language, text


def commands_in(text: str) -> list[list[str]]:
    """The words behind `shardkit` of every line that is a command of ours."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        for part in line.strip().removeprefix("$ ").split(" && "):
            if re.match(r"shardkit [a-z]|torchrun .*-m shardkit ", part):
                words = shlex.split(part, comments=True)
                found.append(words[words.index("shardkit") + 1 :])
    return found


def examples_of_help() -> list[list[str]]:
    """Of every command, from the page that is made from --help."""
    return commands_in(re.sub(r"^Usage: .*$", "", render(), flags=re.MULTILINE))


EXAMPLES = [*examples_of_help(), *(words for _, _, text in blocks() for words in commands_in(text))]
PROGRAMS = {name: text for name, language, text in blocks() if language == "python"}


def test_there_are_examples_of_every_command_and_programs():
    assert {words[0] for words in examples_of_help()} == set(COMMANDS)
    assert len(EXAMPLES) > 80
    assert len(PROGRAMS) > 15


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_an_example_is_understood_and_leaves_nothing_where_its_files_are_not(words, tmp_path, monkeypatch, capsys):
    """In an empty folder every option is known (else 2) and possible (else 3), and the answer names what is not there."""
    monkeypatch.chdir(tmp_path)
    code = run(words)
    said = capsys.readouterr().err
    if words[0] == "schema" or "--reference" in words[:2]:
        assert code == 0  # the two that need no files
        return
    assert code == 4 or (code == 3 and "No such file or directory" in said), said
    assert "\nNext: " in said
    assert not list(tmp_path.iterdir())


def test_commands_and_options_that_sentences_name_are_there():
    commands = {name: _command([name]) for name in COMMANDS}
    known = {"--help", "--version", "--nproc-per-node"}  # the last is torchrun's
    for command in commands.values():
        for one in [command, *getattr(command, "commands", {}).values()]:
            known |= _options(one)
    for file in sorted([*(ROOT / "shardkit").rglob("*.py"), *PAGES]):
        text = file.read_text(encoding="utf-8")
        for said in re.findall(r"`shardkit ([a-z][^`]*)`", text):
            words = said.split()
            options = {word for word in words if re.match(r"--?[a-z]", word)}
            assert options <= {*_options(_command(words)), "--help"}, f"{file}: shardkit {said}"
        if file.suffix == ".py":
            options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))
            assert options <= known, f"{file}: {options - known}"


def _command(words: list[str]) -> click.Command:
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None, f"there is no command {words[0]}"
    if isinstance(command, click.Group) and len(words) > 1:
        command = command.get_command(context, words[1])
        assert command is not None, f"there is no command {' '.join(words[:2])}"
    return command


def _options(command: click.Command) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_a_page_uses_what_is_there(name):
    tree = ast.parse(PROGRAMS[name])
    ours: dict[str, object] = {}
    bound = {*dir(builtins), *THE_READERS, "__name__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert importlib.util.find_spec(node.module) or node.module == "tiny", node.module
            for one in node.names:
                bound.add(one.name)
                if node.module.startswith("shardkit"):
                    ours[one.name] = getattr(importlib.import_module(node.module), one.name)
        elif isinstance(node, ast.Import):
            bound |= {one.asname or one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    assert {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} <= bound
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ours:
            named = {one.arg: None for one in node.keywords}
            inspect.signature(ours[node.func.id]).bind(*node.args, **named)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "batch":
            assert node.attr in Batch.__dataclass_fields__ or hasattr(Batch, node.attr), f"batch.{node.attr}"
