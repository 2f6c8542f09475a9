"""`rlaif`: what is asked of a policy whose answers a model judges; a prompt as ids, and as text in its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.sequence.recipes.prompts import PromptRecipe

if TYPE_CHECKING:
    from shardkit.records import Example


@dataclass(frozen=True, kw_only=True, slots=True)
class Rlaif(PromptRecipe):
    """The turns before the last answer. The JSON has `answer`, that answer's text, where it is not blank."""

    NAME: ClassVar[str] = "rlaif"
    VERSION: ClassVar[int] = 2
    MAX_TOKENS: ClassVar[int] = 1024

    open_thinking_ratio: float = 0.5
    """Share of the prompts that end with an open think block; the others end with an empty one."""

    def beside(self, example: Example, last: str) -> dict[str, Any]:
        del example
        return {"answer": last} if last.strip() else {}
