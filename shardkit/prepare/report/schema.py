"""`shardkit schema`: the closed tables of shardkit as data, so that programs need not read its source."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from shardkit import errors
from shardkit.errors import ShardkitError
from shardkit.media.processors import PROCESSORS
from shardkit.prepare.decontaminate import reasons as decontaminate
from shardkit.prepare.dedup import reasons as dedup
from shardkit.prepare.ingest import reasons as ingest
from shardkit.prepare.lineage.forget import reasons as forget
from shardkit.prepare.select import reasons as select
from shardkit.prepare.split import reasons as split
from shardkit.sequence import recipes as tokenize
from shardkit.store.schema import FORMAT_VERSIONS, TABLES

REASONS = {
    "ingest": ingest.REASONS,
    "dedup": dedup.REASONS,
    "decontaminate": decontaminate.REASONS,
    "select": select.REASONS,
    "split": split.REASONS,
    "tokenize": tokenize.REASONS,
    "forget": forget.REASONS,
}
"""Stage -> code of an exclusion -> what it says."""

OTHER_CODES = {0: "done, or unchanged", 2: "usage", 130: "interrupted (SIGINT)", 143: "terminated (SIGTERM)"}


def schema() -> dict[str, Any]:
    """reasons by stage, exit codes, tables with their columns, recipes and image processors with their settings, versions."""
    kinds: list[type[ShardkitError]] = [ShardkitError, *ShardkitError.__subclasses__()]
    return {
        "reasons": REASONS,
        "exit_codes": {
            **{str(code): meaning for code, meaning in OTHER_CODES.items()},
            **{str(kind.exit_code): kind.__name__ for kind in kinds},
        },
        "errors": (errors.__doc__ or "").strip(),
        "tables": {name: {field.name: str(field.type) for field in table} for name, table in TABLES.items()},
        "recipes": {name: _settings(tokenize.configure(kind, {}).recipe()) for name, kind in tokenize.RECIPES.items()},
        "processors": {name: _settings(asdict(kind())) for name, kind in PROCESSORS.items()},
        "format_versions": FORMAT_VERSIONS,
    }


def _settings(recipe: dict[str, Any]) -> dict[str, Any]:
    """Setting -> its default."""
    return {key: value for key, value in recipe.items() if key not in ("name", "version", "image_processor")}
