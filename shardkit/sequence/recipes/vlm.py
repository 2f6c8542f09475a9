"""`vlm`: texts and images of an example in their order; the text is the target.

bos image_start patch*n image_end A cat. eos
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.captions import CAPTIONS, alternatives, single_images
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.ends import Ends
from shardkit.sequence.recipes.finish import finish, has_roles
from shardkit.sequence.recipes.refused import Refused
from shardkit.sequence.recipes.with_images import WithSlots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder

_OBJECTIVE_OF = {"caption": "caption", "ocr": "ocr"}
"""Relation kind -> objective of its text; the text of every other kind is just text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vlm(WithSlots, Ends):
    """Caption, page and interleaved examples; an example without images is an ordinary text.

    An image with no text behind it stays: eos follows from it. Only an image that is left in a window without any
    target goes, and is counted. Slots carry the labels and the reading order that the dataset has, unless images are
    shown in random parts or mirrored.
    """

    NAME: ClassVar[str] = "vlm"
    VERSION: ClassVar[int] = 2
    MAX_TOKENS: ClassVar[int] = 4096
    CONTROLS: ClassVar[tuple[str, ...]] = ("bos", "eos", *WithSlots.CONTROLS)
    TARGETS: ClassVar[tuple[str, ...]] = ("text", "caption", "ocr")

    captions: str = "all"
    """Of several captions of one image: all (a sequence each), one (another in each pass), joined, or first."""
    seed: int = 0
    """From which captions=one draws the order of an example's captions."""
    one_image_rows: bool = False
    """Cut an example into sequences of one image each, for models that take one image a row."""

    def _check(self) -> None:
        if self.captions not in CAPTIONS:
            raise ConfigError(
                f"captions={self.captions!r} is none of {', '.join(CAPTIONS)}",
                hint="choose one with --set captions=NAME",
            )

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        if has_roles(example):
            return Built(reason="has_roles", detail="a segment has a role or a name")
        assert processor is not None, "vlm has an image processor"
        drafts: list[Draft] = []
        try:
            for number, texts in enumerate(alternatives(example, self.captions, self.seed)):
                chosen: list[list[int]] = texts
                if self.one_image_rows:
                    chosen = [row for one in texts for row in single_images(example, one)]
                rows = [self._draft(example, row, tokenizer, processor, number) for row in chosen]
                # Of an image alone only the end would be learned.
                drafts += [row for row in rows if row.has_target] or rows[:1] if self.one_image_rows else rows
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        return finish(example, drafts, max_tokens, overlong, has_bos=bool(self.bos))

    def _draft(
        self, example: Example, chosen: Iterable[int], tokenizer: Encoder, processor: Processor, alternative: int
    ) -> Draft:
        controls = tokenizer.controls
        separator = tokenizer.encode(self.separator)
        objectives = objectives_of(example)
        draft = Draft(alternative)
        draft.add_control(controls, self.bos)
        for index in chosen:
            segment = example.segments[index]
            if segment.image is not None:
                self.show(draft, example, segment.image, controls, processor)
            elif segment.text:
                objective = 0 if segment.supervised is False else objectives[index]
                draft.add_text(tokenizer.encode(segment.text), objective, separator, blank=segment.text.isspace())
        draft.add_control(controls, self.eos, draft.last_objective() if self.supervise_eos else 0)
        return draft


def objectives_of(example: Example) -> list[int]:
    """The objective of each segment, by the first relation that covers it; a relation without segments covers all."""
    found = [OBJECTIVES["text"]] * len(example.segments)
    for relation in reversed(example.relations):
        objective = OBJECTIVES[_OBJECTIVE_OF.get(relation.kind, "text")]
        for index in relation.segments or range(len(found)):
            found[index] = objective
    return found
