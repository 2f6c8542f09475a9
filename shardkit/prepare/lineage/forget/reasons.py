"""Why forget leaves a row out: the closed table of its reason codes."""

from __future__ import annotations

ASSET = "forgotten_asset"
SOURCE = "forgotten_source"
LICENCE = "forgotten_licence"
DERIVED = "forgotten_derived"

REASONS: dict[str, str] = {
    ASSET: "the example shows a picture that was asked to be forgotten",
    SOURCE: "the example, or a picture in it, comes from a source that was asked to be forgotten",
    LICENCE: "the example, or a picture in it, came under a licence that was asked to be forgotten",
    DERIVED: "the example was made from one that is forgotten, or has its caption",
}
"""Code -> what it says of the row. It names no address and no id: what is forgotten is not repeated."""

CODES = ("", *REASONS)
"""By number; 0 is none."""
