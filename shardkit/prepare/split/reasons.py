"""Why split leaves a row out: the closed table of its reason codes."""

from __future__ import annotations

CONFLICT = "split_conflict"

REASONS: dict[str, str] = {
    CONFLICT: "new data ties the row to rows of a split that is held out more strictly than its own",
}
"""Code -> what it says of the row."""
