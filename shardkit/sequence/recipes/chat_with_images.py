"""What recipes of dialogues share that lay out images in the turns, each where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from shardkit.sequence.recipes.chat_recipe import ChatRecipe
from shardkit.sequence.recipes.with_images import WithSlots

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Encoder
    from shardkit.sequence.recipes.chat_recipe import Show
    from shardkit.sequence.recipes.draft import Draft


@dataclass(frozen=True, kw_only=True)
class ChatWithImages(WithSlots, ChatRecipe):
    """Stands before a recipe of dialogues among the bases of another one."""

    CONTROLS: ClassVar[tuple[str, ...]] = (*ChatRecipe.CONTROLS, *WithSlots.CONTROLS)

    def __post_init__(self) -> None:
        ChatRecipe.__post_init__(self)
        WithSlots.__post_init__(self)

    def recipe(self) -> dict[str, Any]:
        """Name, version and all fields, those of the processor beside them."""
        return {**ChatRecipe.recipe(self), **self.stated_processor()}

    def shows(self, example: Example, tokenizer: Encoder, processor: Processor | None) -> Show | None:
        assert processor is not None, f"{self.NAME} has an image processor"
        controls = tokenizer.controls

        def show(draft: Draft, number: int) -> None:
            self.show(draft, example, number, controls, processor)

        return show
