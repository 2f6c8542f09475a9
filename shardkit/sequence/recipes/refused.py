"""An example that a recipe cannot lay out."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - an answer about an example, not a failure
    """`reason` is a name of REASONS of the recipes, `detail` one sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
