"""What a stage that makes one dataset of others has to say when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class StageResult:
    path: Path | None
    dataset_id: str | None
    """None after a dry run."""
    unchanged: bool
    counts: Mapping[str, Any]
    """In examples: read, kept, excluded, excluded_by_reason."""
    report: Mapping[str, Any]
    """As in the manifest; the page of the stage in docs/ says what stands in it."""

    @property
    def dry_run(self) -> bool:
        return self.dataset_id is None

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "dataset": None if self.path is None else str(self.path),
            "id": self.dataset_id,
            "unchanged": self.unchanged,
            **self.counts,
            **self.report,
        }


def example_counts(counts: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest counts in examples, out of all that it counts."""
    return {name: counts[name] for name in ("read", "kept", "excluded", "excluded_by_reason")}


def stage_result(
    output: Path | None,
    dataset: Dataset | None,
    counts: Mapping[str, Any],
    report: Mapping[str, Any],
    *,
    unchanged: bool = False,
) -> StageResult:
    """The result of a run.

    Args:
        dataset: what was committed, or was there; None after a dry run.
        counts: in examples; what else a manifest counts is left out.
    """
    return StageResult(
        path=output if dataset else None,
        dataset_id=dataset.id if dataset else None,
        unchanged=unchanged,
        counts=example_counts(counts),
        report=report,
    )
