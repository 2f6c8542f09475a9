"""What a container gives: records in order, or exclusions in their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardkit.errors import SourceError
from shardkit.prepare.ingest.reasons import sentence
from shardkit.records import Exclusion


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One record of the source, before its format looks at it."""

    input: str
    """Name of the input it is counted under, relative to the input root."""
    position: str
    """Line, record number, member or stem."""
    value: Any
    """A row (dict), a tar sample or a pair of files: what the container's name says."""
    folder: str = ""
    """Folder of the input, relative to the input root: where its relative paths begin."""
    changes: Counter[str] = field(default_factory=Counter)
    """What was altered to read it, by name."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Its row in a table beside the archive, where there is one."""


def exclusion(input_name: str, position: str, reason: str, detail: str) -> Exclusion:
    """An exclusion whose detail is fit to print."""
    return Exclusion(input=input_name, position=position, reason=reason, detail=sentence(detail))


def refused(input_name: str, what: str) -> SourceError:
    """The error for an input whose record borders cannot be trusted."""
    return SourceError(
        what,
        where=input_name,
        hint="fetch or write the file again, or keep the whole records before the damage with --salvage",
    )
