"""Why select leaves a row out: the closed table of its reason codes."""

from __future__ import annotations

FALSE = "not_selected"
UNKNOWN = "not_selected_unknown"

REASONS: dict[str, str] = {
    FALSE: "a part of the condition does not hold of the example, or of one of its images",
    UNKNOWN: "a part of the condition cannot be judged: a column that it asks for is not known of the example",
}
"""Code -> what it says of the row."""
