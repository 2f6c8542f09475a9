"""`text-replay`: the texts of any example as ordinary text, for a share of text in training on pictures or dialogues.

bos text LF text eos

A model that is trained on pictures or dialogues alone forgets how to go on with a text. The share is the mixture's;
this recipe only makes the sequences, with the objective `text`, so that their loss is weighed apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.recipes.finish import finish
from shardkit.sequence.recipes.plain_text import PlainText

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example, Segment
    from shardkit.sequence.recipes.built import Built, Encoder

_NO_PROSE = ("tools", "tool_calls")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextReplay(PlainText):
    """Texts, pages, captions, interleaved documents, dialogues and the chosen side of preferences.

    Images are left out and counted, and so are tools, tool calls and rejected answers. Who says what is not written
    down: turns stand one after the other, and all of them are targets.
    """

    NAME: ClassVar[str] = "text-replay"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 1024

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        """`processor` is not used."""
        del processor
        said = [segment for segment in example.segments if segment.text]
        prose = [segment for segment in said if _is_prose(segment)]
        draft = self.draft(prose, tokenizer)
        draft.changes["texts_left_out"] = len(said) - len(prose)
        return finish(example, [draft], max_tokens, overlong)


def _is_prose(segment: Segment) -> bool:
    names = (segment.name or "").split(".")
    return names[0] != "rejected" and names[-1] not in _NO_PROSE
