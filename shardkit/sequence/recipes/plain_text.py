"""What recipes share that make ordinary text: bos text LF text eos, every token but the first a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.ends import Ends
from shardkit.sequence.recipes.text_only import TextOnly

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardkit.records import Segment
    from shardkit.sequence.recipes.built import Encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class PlainText(Ends, TextOnly):
    CONTROLS: ClassVar[tuple[str, ...]] = ("bos", "eos")
    TARGETS: ClassVar[tuple[str, ...]] = ("text",)

    def draft(self, segments: Iterable[Segment], tokenizer: Encoder) -> Draft:
        """The texts among `segments`, in order."""
        draft = Draft()
        draft.add_control(tokenizer.controls, self.bos)
        separator = tokenizer.encode(self.separator)
        for segment in segments:
            if segment.text:
                objective = OBJECTIVES["none" if segment.supervised is False else "text"]
                draft.add_text(tokenizer.encode(segment.text), objective, separator, blank=segment.text.isspace())
        draft.add_control(tokenizer.controls, self.eos, OBJECTIVES["text"] if self.supervise_eos else 0)
        return draft
