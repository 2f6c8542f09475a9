"""`sft`: a dialogue in MiniMind's chat layout; only what the assistant says is a target.

Ids come from the structure: marks are control tokens, and each text is encoded alone, with control tokens off. Drawn
augmentations (a random system prompt, removal of empty think blocks) are no part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.chat import Refused, lay_out
from shardkit.sequence.recipes.controls import AUTO
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.finish import finish
from shardkit.sequence.recipes.text_only import TextOnly

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder

_END = "im_end"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sft(TextOnly):
    """Dialogues of `shardkit ingest chat`; plain texts, preference pairs and images are refused with a reason.

    A window may begin in the middle of a turn and keeps its targets; only its first token is none.
    """

    NAME: ClassVar[str] = "sft"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 1024
    CONTROLS: ClassVar[tuple[str, ...]] = (
        "im_start", "im_end", "think_start", "think_end", "call_start", "call_end", "response_start", "response_end",
    )  # fmt: skip
    TARGETS: ClassVar[tuple[str, ...]] = ("answer",)

    im_start: str = AUTO
    """Control token before a turn; "auto" for the tokenizer's."""
    im_end: str = AUTO
    """Control token behind it."""
    think_start: str = AUTO
    """Control token before the reasoning of an answer."""
    think_end: str = AUTO
    """Control token behind it."""
    call_start: str = AUTO
    """Control token before a tool call."""
    call_end: str = AUTO
    """Control token behind it."""
    response_start: str = AUTO
    """Control token before the result of a tool."""
    response_end: str = AUTO
    """Control token behind it."""
    empty_think: bool = True
    """Whether an answer without reasoning begins with an empty think block, as the template has it; never a target."""
    supervise_eos: bool = True
    """Whether the mark that closes an answer, and the line feed behind it, are targets."""

    def __post_init__(self) -> None:
        for part in self.CONTROLS:
            if not getattr(self, part):
                raise ConfigError(
                    f"{part}='' names no control token; the chat layout needs it",
                    hint=f"name one with --set {part}=TOKEN, or leave it to {part}={AUTO}",
                )

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        """`processor` is not used."""
        del processor
        try:
            pieces = lay_out(example.segments, empty_think=self.empty_think)
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        draft = Draft()
        closes = False
        for piece in pieces:
            # The line feed behind a closing mark shares its lot.
            closes = piece.mark == _END or (closes and not piece.mark)
            objective = OBJECTIVES["answer"] if piece.target and (self.supervise_eos or not closes) else 0
            if piece.mark:
                draft.add_control(tokenizer.controls, getattr(self, piece.mark), objective)
            else:
                draft.add_text(tokenizer.encode(piece.text), objective, [])
        return finish(example, [draft], max_tokens, overlong)
