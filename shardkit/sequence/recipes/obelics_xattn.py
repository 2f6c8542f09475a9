"""`obelics-xattn`: texts and images of an example in their order, for models that look at images by cross-attention.

bos image image A cat. image A dog. eos          one token an image; its pixels are tiles, which stand nowhere in the text

A text attends to the images of the run before it (shardkit.sequence.intervals). An image that no text follows would be
decoded for nothing: it is left out and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from shardkit.media.processors import Processor, Tiles
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.ends import Ends
from shardkit.sequence.recipes.finish import finish, has_roles
from shardkit.sequence.recipes.refused import Refused
from shardkit.sequence.recipes.vlm import objectives_of
from shardkit.sequence.recipes.with_images import WithImages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardkit.records import Example, Segment
    from shardkit.sequence.recipes.built import Encoder

TILES = Tiles()


@dataclass(frozen=True, kw_only=True, slots=True)
class ObelicsXattn(WithImages, Ends):
    """Interleaved documents, captions and pages; a text without images is an ordinary text.

    Text before the first image attends to none, nor does a window that begins behind the image of its text.
    """

    NAME: ClassVar[str] = "obelics-xattn"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096
    CONTROLS: ClassVar[tuple[str, ...]] = ("bos", "eos", "image_patch")
    TARGETS: ClassVar[tuple[str, ...]] = ("text", "caption", "ocr")

    processor: Processor = TILES
    """Image processor, by its name in shardkit.media.processors."""
    join_blank: bool = True
    """White space alone between two images is left out, so that both are of one run; behind the last it is no text."""

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        if has_roles(example):
            return Built(reason="has_roles", detail="a segment has a role or a name")
        assert processor is not None, "obelics-xattn has an image processor"
        try:
            draft = self._draft(example, tokenizer, processor)
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        return finish(example, [draft], max_tokens, overlong, trim=True, has_bos=bool(self.bos))

    def _draft(self, example: Example, tokenizer: Encoder, processor: Processor) -> Draft:
        controls = tokenizer.controls
        separator = tokenizer.encode(self.separator)
        objectives = objectives_of(example)
        draft = Draft()
        draft.add_control(controls, self.bos)
        shown, draft.changes["images_trailing"] = self._shown(example.segments)
        for index in shown:
            segment = example.segments[index]
            if segment.image is not None:
                geometry = self.geometry(example.images[segment.image], processor)
                draft.add_image(segment.image, geometry, [], controls[self.image_patch], [], tokens=1)
            elif segment.text:
                objective = 0 if segment.supervised is False else objectives[index]
                draft.add_text(tokenizer.encode(segment.text), objective, separator, blank=segment.text.isspace())
        draft.add_control(controls, self.eos, draft.last_objective() if self.supervise_eos else 0)
        return draft

    def _shown(self, segments: Sequence[Segment]) -> tuple[list[int], int]:
        """The segments to lay out, as indices, and the number of images left out because no text follows them."""
        shown: list[int] = []
        blank: list[int] = []
        behind_image = False
        for index, segment in enumerate(segments):
            if segment.image is not None:
                shown += [index] if behind_image else [*blank, index]
                behind_image, blank = True, []
            elif self.join_blank and not (segment.text or "").strip():
                blank.append(index)
            elif segment.text:
                shown += [*blank, index]
                behind_image, blank = False, []
        length = len(shown)
        while shown and segments[shown[-1]].image is not None:
            shown.pop()
        return shown, length - len(shown)
