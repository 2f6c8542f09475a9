"""Why split leaves a row out: the closed table of its reason codes."""

from __future__ import annotations

CONFLICT = "split_conflict"
BRIDGE = "split_bridge"
MISSING_TIME = "missing_time"
BAD_TIME = "bad_time"

REASONS: dict[str, str] = {
    CONFLICT: "new data ties the row to rows of a split that is held out more strictly than its own",
    BRIDGE: "the row is tied to rows of the older split that lie in different splits and cannot be left out any more",
    MISSING_TIME: "the row has no time, and the splits are parted by time",
    BAD_TIME: "the row's time cannot be read, and the splits are parted by time",
}
"""Code -> what it says of the row."""
CODES = (None, *REASONS)
"""Of a row: None where it stays."""
