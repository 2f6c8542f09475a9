"""`ocr`: a page and what is written on it; the text is the target, the page's slots carry labels and reading order.

bos image_start patch*n image_end LINE LF LINE eos
bos image_start patch*n image_end <bbox_050_050_500_500>LINE LF <bbox_...>LINE eos          boxes=true; boxes are ordinary text
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from shardkit.errors import ConfigError
from shardkit.media.processors import PixelBudget, Processor
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.ends import Ends
from shardkit.sequence.recipes.finish import finish, has_roles
from shardkit.sequence.recipes.heads import completed_order, cut_labels
from shardkit.sequence.recipes.page import box_text, page_lines
from shardkit.sequence.recipes.refused import Refused
from shardkit.sequence.recipes.with_images import WithSlots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardkit.media.processors import Geometry
    from shardkit.records import Example, Image
    from shardkit.sequence.recipes.built import Encoder

TEXTS = ("segments", "layout")
LABELS = ("given", "text", "none")
PIXEL_BUDGET = PixelBudget()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Page:
    """An image and the texts behind it, up to the next one."""

    image: int
    texts: list[tuple[str, bool]]
    """Text, whether it is a target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ocr(WithSlots, Ends):
    """Examples with at least one image; several are pages one after the other. Text before the first is left out.

    A page that has labels and no text stays, for the head that reads them: its end is its only token to learn.
    """

    NAME: ClassVar[str] = "ocr"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096
    CONTROLS: ClassVar[tuple[str, ...]] = ("bos", "eos", *WithSlots.CONTROLS)
    TARGETS: ClassVar[tuple[str, ...]] = ("ocr",)

    processor: Processor = PIXEL_BUDGET
    """Image processor, by its name in shardkit.media.processors."""
    text: str = "segments"
    """Where a page's text is from: segments (as ingest stored it), or layout (its lines in reading order)."""
    boxes: bool = False
    """Whether the box of each line stands before it, as text; the lines are then those of the layout."""
    labels: str = "given"
    """Labels of the slots: given (the row's ocr_labels), text (ids of the page's lines, end to end), or none."""

    def _check(self) -> None:
        if self.shows_parts:
            raise ConfigError(
                "a page in random parts or mirrored is not what its text says",
                hint="leave crop_percent at 100 and mirror at false, or take another recipe",
            )
        for name, value, known in (("text", self.text, TEXTS), ("labels", self.labels, LABELS)):
            if value not in known:
                raise ConfigError(
                    f"{name}={value!r} is none of {', '.join(known)}", hint=f"choose one with --set {name}=NAME"
                )

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        if has_roles(example):
            return Built(reason="has_roles", detail="a segment has a role or a name")
        if all(segment.image is None for segment in example.segments):
            return Built(reason="no_image", detail="none of its segments is an image")
        assert processor is not None, "ocr has an image processor"
        try:
            draft = self._draft(example, tokenizer, processor)
        except Refused as refused:
            return Built(reason=refused.reason, detail=refused.detail)
        built = finish(example, [draft], max_tokens, overlong, has_bos=bool(self.bos))
        blind = sum(not sequence.slots for sequence in built.sequences)
        return replace(built, changes={**built.changes, "windows_without_page": blind}) if blind else built

    def _draft(self, example: Example, tokenizer: Encoder, processor: Processor) -> Draft:
        controls = tokenizer.controls
        before, patch, after = self.span(controls)
        separator = tokenizer.encode(self.separator)
        draft = Draft()
        draft.add_control(controls, self.bos)
        for page in _pages(example):
            image = example.images[page.image]
            geometry = self.geometry(image, processor)
            labels, num_cut = cut_labels(self._labels(page, image, tokenizer), geometry.slots)
            order = completed_order(image.reading_order, geometry.slots)
            draft.add_image(page.image, geometry, before, patch, after, ocr_labels=labels, reading_order=order)
            draft.changes["labels_truncated"] += num_cut
            for text, is_target in self._texts(page, image, geometry, draft):
                objective = OBJECTIVES["ocr"] if is_target else 0
                draft.add_text(tokenizer.encode(text), objective, separator, blank=text.isspace())
            draft.has_target |= bool(labels and self.eos and self.supervise_eos)
        draft.add_control(controls, self.eos, OBJECTIVES["ocr"] if self.supervise_eos else 0)
        return draft

    def _texts(self, page: _Page, image: Image, geometry: Geometry, draft: Draft) -> list[tuple[str, bool]]:
        """The texts of a page, and whether each is a target."""
        if self.text == "segments" and not self.boxes:
            return page.texts
        lines = page_lines(image.layout)
        if not lines:
            draft.changes["pages_without_layout"] += 1
            return page.texts
        boxes = [box_text(line.box, image, geometry) if self.boxes and line.box else "" for line in lines]
        text = "\n".join(box + line.text for box, line in zip(boxes, lines, strict=True))
        return [(text, all(is_target for _, is_target in page.texts))]

    def _labels(self, page: _Page, image: Image, tokenizer: Encoder) -> list[int] | tuple[int, ...] | None:
        if self.labels != "text":
            return image.ocr_labels if self.labels == "given" else None
        lines = [line.text for line in page_lines(image.layout)]
        lines = lines or [line for text, _ in page.texts for line in text.splitlines()]
        return [label for line in lines for label in tokenizer.encode(line)]


def _pages(example: Example) -> Iterator[_Page]:
    page: _Page | None = None
    for segment in example.segments:
        if segment.image is not None:
            if page is not None:
                yield page
            page = _Page(image=segment.image, texts=[])
        elif page is not None and segment.text:
            page.texts.append((segment.text, segment.supervised is not False))
    if page is not None:
        yield page
