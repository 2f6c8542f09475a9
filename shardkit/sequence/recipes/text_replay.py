"""`text-replay`: the texts of any example as ordinary text, for a share of text in training on pictures or dialogues.

bos text LF text eos

A model that is trained on pictures or dialogues alone forgets how to go on with a text. The share is the mixture's;
this recipe only makes the sequences, with the objective `text`, so that their loss is weighed apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.controls import AUTO
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.finish import finish
from shardkit.sequence.recipes.text_only import TextOnly

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example, Segment
    from shardkit.sequence.recipes.built import Built, Encoder

_NO_PROSE = ("tools", "tool_calls")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextReplay(TextOnly):
    """Texts, pages, captions, interleaved documents, dialogues and the chosen side of preferences.

    Images are left out and counted, and so are tools, tool calls and rejected answers. Who says what is not written
    down: turns stand one after the other, and all of them are targets.
    """

    NAME: ClassVar[str] = "text-replay"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 1024
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
        draft = Draft()
        draft.add_control(tokenizer.controls, self.bos)
        separator = tokenizer.encode(self.separator)
        for segment in example.segments:
            if not segment.text:
                continue
            if not _is_prose(segment):
                draft.changes["texts_left_out"] += 1
                continue
            objective = OBJECTIVES["none" if segment.supervised is False else "text"]
            draft.add_text(tokenizer.encode(segment.text), objective, separator)
        draft.add_control(tokenizer.controls, self.eos, OBJECTIVES["text"] if self.supervise_eos else 0)
        return finish(example, [draft], max_tokens, overlong)


def _is_prose(segment: Segment) -> bool:
    names = (segment.name or "").split(".")
    return names[0] != "rejected" and names[-1] not in _NO_PROSE
