"""`pretrain`: the text of an example, every token of it a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.finish import finish, has_roles
from shardkit.sequence.recipes.plain_text import PlainText

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain(PlainText):
    """bos text eos; images are left out and counted."""

    NAME: ClassVar[str] = "pretrain"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 340

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        """`processor` is not used."""
        del processor
        if has_roles(example):
            return Built(reason="has_roles", detail="a segment has a role or a name")
        return finish(example, [self.draft(example.segments, tokenizer)], max_tokens, overlong)
