"""The pages of docs/ agree with the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardkit.cli import COMMANDS
from shardkit.store.schema import EXAMPLES, PROVENANCE, TABLES
from tools.cli_docs import PAGE, render

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


def test_the_command_line_page_is_what_help_says():
    assert PAGE.read_text(encoding="utf-8") == render(), "run python tools/cli_docs.py"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_in_its_help(name):
    section = render().split(f"\n## shardkit {name}\n")[1].split("\n## ")[0]
    assert f"shardkit {name} " in section.split("Usage:")[1].split("\n", 1)[1]


def _columns(page: str, table: str) -> list[str]:
    """The first cells of the table under the heading that names `table`."""
    section = re.split(r"\n#+ ", page.split(f"`{table}`\n", 1)[1])[0]
    return [
        name for row in re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    ]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_is_documented_column_by_column(table):
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    assert _columns(page, f"tables/{table}.parquet") == TABLES[table].names


def test_provenance_is_documented_column_by_column():
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    assert _columns(page, "provenance/provenance.parquet") == PROVENANCE.names


def test_the_columns_of_an_example_shard_are_documented():
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    image = EXAMPLES.field("images").type.value_type
    assert _columns(page, "shards/<split>/<unit>-<n>-<digest>.arrow") == EXAMPLES.names
    for struct in ("segments", "images", "relations"):
        fields = [field.name for field in EXAMPLES.field(struct).type.value_type]
        assert _columns(page, struct) == fields
    assert _columns(page, "layout") == [field.name for field in image.field("layout").type.value_type]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_pages_are_there():
    assert {page.name for page in PAGES} >= {
        "README.md", "CHANGELOG.md", "architecture.md", "formats.md", "ingest.md", "resume.md", "adding-a-format.md", "glossary.md", "cli.md",
    }  # fmt: skip


def test_make_targets_of_the_readme_exist():
    readme, makefile = (ROOT / "README.md").read_text(encoding="utf-8"), (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE))
    assert named >= {"demo", "test"}
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
