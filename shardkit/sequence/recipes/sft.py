"""`sft`: a dialogue in MiniMind's chat layout; only what the assistant says is a target.

Ids come from the structure: marks are control tokens, and each text is encoded alone, with control tokens off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.chat import lay_out
from shardkit.sequence.recipes.chat_recipe import AnswerRecipe
from shardkit.sequence.recipes.dialogue import read_dialogue
from shardkit.sequence.recipes.finish import finish
from shardkit.sequence.recipes.refused import Refused

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class Sft(AnswerRecipe):
    """Dialogues of `shardkit ingest chat`; plain texts, preference pairs and images are refused with a reason.

    A window may begin in the middle of a turn and keeps its targets; only its first token is none.
    """

    NAME: ClassVar[str] = "sft"
    VERSION: ClassVar[int] = 2
    MAX_TOKENS: ClassVar[int] = 1024
    TARGETS: ClassVar[tuple[str, ...]] = ("answer",)

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        drafts = []
        show = self.shows(example, tokenizer, processor)
        try:
            dialogue = read_dialogue(example.segments, images=show is not None)
            for epoch in range(self.alternatives):
                drawn = dialogue.opened(self.opening([dialogue], example, epoch))
                pieces = lay_out(drawn, empty_think=self.shows_empty_think(example, epoch), ends=self.supervise_eos)
                drafts.append(self.encoded(pieces, tokenizer, epoch, OBJECTIVES["answer"], show))
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        return finish(example, drafts, max_tokens, overlong)
