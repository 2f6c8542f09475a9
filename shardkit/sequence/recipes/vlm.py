"""`vlm`: texts and images of an example in their order; the text is the target.

bos image_start patch*n image_end A cat. eos
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.errors import ConfigError
from shardkit.media.processors import PROCESSORS
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.captions import CAPTIONS, alternatives
from shardkit.sequence.recipes.controls import AUTO
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.finish import finish, has_roles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder

_OBJECTIVE_OF = {"caption": "caption", "ocr": "ocr"}
"""Relation kind -> objective of its text; the text of every other kind is just text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vlm:
    """Caption, page and interleaved examples; an example without images is an ordinary text.

    An image with no text behind it stays: eos follows from it. Only an image that is left in a window without any
    target goes, and is counted.
    """

    NAME: ClassVar[str] = "vlm"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096
    CONTROLS: ClassVar[tuple[str, ...]] = ("bos", "eos", "image_start", "image_patch", "image_end")
    TARGETS: ClassVar[tuple[str, ...]] = ("text", "caption", "ocr")
    PROMPTS: ClassVar[bool] = False

    bos: str = AUTO
    """Control token before everything; "" for none, "auto" for the tokenizer's."""
    eos: str = AUTO
    """Control token behind everything."""
    image_start: str = AUTO
    """Control token before the slots of an image; may be ""."""
    image_patch: str = AUTO
    """Control token that stands for one slot."""
    image_end: str = AUTO
    """Control token behind the slots; may be ""."""
    supervise_eos: bool = True
    """Whether eos is a target."""
    separator: str = "\n"
    """Stands between two texts with no image between them; a target like the text behind it."""
    captions: str = "all"
    """Of several captions of one image: all (a sequence each), first, or joined."""
    processor: str = "square"
    """Image processor, by its name in shardkit.media.processors."""
    image_size: int = 224
    """Pixels; see the processor."""
    patch: int = 14
    """Pixels along the side of a patch."""
    merge: int = 2
    """Patches along the side of a slot."""

    def __post_init__(self) -> None:
        for field, value, known in (("captions", self.captions, CAPTIONS), ("processor", self.processor, PROCESSORS)):
            if value not in known:
                raise ConfigError(
                    f"{field}={value!r} is none of {', '.join(known)}", hint=f"choose one with --set {field}=NAME"
                )

    def recipe(self) -> dict[str, Any]:
        return {
            "name": self.NAME,
            "version": self.VERSION,
            **asdict(self),
            "image_processor": self.image_processor().recipe(),
        }

    @property
    def patch_pixels(self) -> int:
        return self.patch * self.patch

    def image_processor(self) -> Processor:
        return PROCESSORS[self.processor](image_size=self.image_size, patch=self.patch, merge=self.merge)

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        if has_roles(example):
            return Built(reason="has_roles", detail="a segment has a role or a name")
        assert processor is not None, "vlm has an image processor"
        drafts = [self._draft(example, chosen, tokenizer, processor) for chosen in alternatives(example, self.captions)]
        room = max_tokens - bool(self.bos) - 1
        longest = max((end - start for draft in drafts for start, end in draft.spans), default=0)
        if longest > room:
            return Built(
                reason="image_too_long",
                detail=f"an image takes {longest} tokens; {max_tokens} leave room for {room} beside bos and a target",
            )
        return finish(example, drafts, max_tokens, overlong)

    def _draft(self, example: Example, chosen: Iterable[int], tokenizer: Encoder, processor: Processor) -> Draft:
        controls = tokenizer.controls
        before, after = ([controls[name]] if name else [] for name in (self.image_start, self.image_end))
        separator = tokenizer.encode(self.separator)
        objectives = _objectives(example)
        draft = Draft()
        draft.add_control(controls, self.bos)
        for index in chosen:
            segment = example.segments[index]
            if segment.image is not None:
                image = example.images[segment.image]
                geometry = processor.geometry(image.height, image.width)
                draft.add_image(segment.image, geometry, before, controls[self.image_patch], after)
            elif segment.text:
                objective = 0 if segment.supervised is False else objectives[index]
                draft.add_text(tokenizer.encode(segment.text), objective, separator)
        # What the end is a target of: the last text's objective, so that no objective gets tokens of another.
        last = next((o for o in reversed(draft.objectives) if o), OBJECTIVES["text"])
        draft.add_control(controls, self.eos, last if self.supervise_eos else 0)
        return draft


def _objectives(example: Example) -> list[int]:
    """The objective of each segment, by the first relation that covers it; a relation without segments covers all."""
    found = [OBJECTIVES["text"]] * len(example.segments)
    for relation in reversed(example.relations):
        objective = OBJECTIVES[_OBJECTIVE_OF.get(relation.kind, "text")]
        for index in relation.segments or range(len(found)):
            found[index] = objective
    return found
