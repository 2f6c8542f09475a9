"""`pretrain`: the text of an example, every token of it a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.controls import AUTO
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.finish import finish, has_roles
from shardkit.sequence.recipes.text_only import TextOnly

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class Pretrain(TextOnly):
    """bos text eos; images are left out and counted."""

    NAME: ClassVar[str] = "pretrain"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 340
    CONTROLS: ClassVar[tuple[str, ...]] = ("bos", "eos")
    TARGETS: ClassVar[tuple[str, ...]] = ("text",)

    bos: str = AUTO
    """Control token before the text; "" for none, "auto" for the tokenizer's."""
    eos: str = AUTO
    """Control token behind it."""
    supervise_eos: bool = True
    """Whether eos is a target."""
    separator: str = "\n"
    """Stands between two texts of an example; a target like the text behind it."""

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        """`processor` is not used."""
        del processor
        if has_roles(example):
            return Built(reason="has_roles", detail="a segment has a role or a name")
        draft = Draft()
        draft.add_control(tokenizer.controls, self.bos)
        separator = tokenizer.encode(self.separator)
        for segment in example.segments:
            if segment.text:
                objective = OBJECTIVES["none" if segment.supervised is False else "text"]
                draft.add_text(tokenizer.encode(segment.text), objective, separator)
        draft.add_control(tokenizer.controls, self.eos, OBJECTIVES["text"] if self.supervise_eos else 0)
        return finish(example, [draft], max_tokens, overlong)
