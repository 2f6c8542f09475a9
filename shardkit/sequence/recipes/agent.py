"""`agent`: what is asked of a policy that calls tools, and `gt`, what its answer is judged by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.sequence.recipes.prompts import PromptRecipe
from shardkit.sequence.recipes.refused import Refused

if TYPE_CHECKING:
    from shardkit.records import Example


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent(PromptRecipe):
    """The turns before the last answer, their tools, and the row's `gt`: any JSON that is not empty."""

    NAME: ClassVar[str] = "agent"
    VERSION: ClassVar[int] = 2
    MAX_TOKENS: ClassVar[int] = 4096

    gt: str = "gt"
    """The field of the row that holds it."""

    def beside(self, example: Example, last: str) -> dict[str, Any]:
        del last
        value = json.loads(example.metadata).get(self.gt)
        if value in (None, "", [], {}):
            raise Refused("no_gt", f"the row has no {self.gt}")
        return {"gt": value}
