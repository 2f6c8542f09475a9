"""What recipes share that make sequences with images: a processor, its settings, and how many slots a model expects.

Their classes have no slots of their own: a recipe is made of these and of another base, and two bases with slots cannot be
joined.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.errors import ConfigError
from shardkit.media.processors import Processor, Square
from shardkit.sequence.recipes.controls import AUTO
from shardkit.sequence.recipes.heads import completed_order, cut_labels
from shardkit.sequence.recipes.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardkit.media.processors import Geometry
    from shardkit.records import Example, Image
    from shardkit.sequence.recipes.draft import Draft

SQUARE = Square()
MAX_SLOTS = 1 << 20
"""Slots of an image, far over any sequence: a size with a zero too many must not lay out tokens without end."""


@dataclass(frozen=True, kw_only=True)
class WithImages:
    """Settings of the processor are settings of the recipe: `configure` hands them on, `recipe` lists them."""

    NAME: ClassVar[str]
    VERSION: ClassVar[int]
    PROMPTS: ClassVar[bool] = False

    image_patch: str = AUTO
    """Control token that stands for one slot of an image; where an image is one token, for the image."""
    processor: Processor = SQUARE
    """Image processor, by its name in shardkit.media.processors; or hf:DIR, which stands for one of them."""
    compress_to: int = 0
    """Slots of an image that the model's tower gives; 0 = any number. Images that take another number are refused."""

    def __post_init__(self) -> None:
        if self.compress_to < 0:
            raise ConfigError(
                f"compress_to is {self.compress_to}", hint="give the model's number: --set compress_to=N, 0 for none"
            )
        slots = self.processor.fixed_slots
        if self.compress_to and slots not in (None, self.compress_to):
            raise ConfigError(
                f"the {self.processor.NAME} processor gives every image {slots} slots, compress_to is {self.compress_to}",
                hint="change the size or the patches with --set, or set compress_to to what the model was built with",
            )
        self._check()

    def _check(self) -> None:
        """Refuse settings that contradict one another."""

    def recipe(self) -> dict[str, Any]:
        """Name, version and all fields, the processor's beside them: what goes into the fingerprint."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"name": self.NAME, "version": self.VERSION, **own, **self.stated_processor()}

    def stated_processor(self) -> dict[str, Any]:
        """The processor in a recipe: its settings as if they were the recipe's, its name, and what it says of itself."""
        return {
            **settings_of(self.processor),
            "processor": self.processor.NAME,
            "image_processor": self.processor.recipe(),
        }

    @property
    def patch_pixels(self) -> int:
        return self.processor.patch**2

    def image_processor(self) -> Processor:
        return self.processor

    @property
    def shows_parts(self) -> bool:
        """Whether an image is shown in random parts or mirrored: then what is known of its slots does not hold."""
        return self.processor.mirror or self.processor.crop_percent < 100

    def geometry(self, image: Image, processor: Processor) -> Geometry:
        """Of an image of an example.

        Raises:
            Refused: where its slots are not those of `compress_to`, or more than MAX_SLOTS.
        """
        geometry = processor.geometry(image.height, image.width)
        if geometry.slots > MAX_SLOTS:
            raise Refused("image_too_long", f"an image takes {geometry.slots} slots; no sequence has so many tokens")
        if self.compress_to and geometry.slots != self.compress_to:
            raise Refused(
                "slots_mismatch",
                f"an image of {image.height} x {image.width} takes {geometry.slots} slots, "
                f"compress_to is {self.compress_to}",
            )
        return geometry


@dataclass(frozen=True, kw_only=True)
class WithSlots(WithImages):
    """An image is a span of tokens: image_start, one image_patch a slot, image_end."""

    CONTROLS: ClassVar[tuple[str, ...]] = ("image_start", "image_patch", "image_end")

    image_start: str = AUTO
    """Control token before the slots of an image; may be ""."""
    image_end: str = AUTO
    """Control token behind the slots; may be ""."""

    def span(self, controls: Mapping[str, int]) -> tuple[list[int], int, list[int]]:
        """Ids before the slots, of a slot, and behind them."""
        before, after = ([controls[name]] if name else [] for name in (self.image_start, self.image_end))
        return before, controls[self.image_patch], after

    def show(
        self, draft: Draft, example: Example, number: int, controls: Mapping[str, int], processor: Processor
    ) -> None:
        """Lay out image `number` of an example, with the labels and the reading order that it has.

        Raises:
            Refused: where its slots are not what they should be.
        """
        image = example.images[number]
        geometry = self.geometry(image, processor)
        labels, order = (None, None) if self.shows_parts else (image.ocr_labels, image.reading_order)
        labels, num_cut = cut_labels(labels, geometry.slots)
        draft.changes["labels_truncated"] += num_cut
        order = completed_order(order, geometry.slots)
        draft.add_image(number, geometry, *self.span(controls), ocr_labels=labels, reading_order=order)


def settings_of(processor: Processor) -> dict[str, Any]:
    """Its fields, by name."""
    return asdict(processor)  # type: ignore[call-overload,no-any-return]  # every processor is a dataclass
