"""What a recipe makes of an example, and what it needs for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.sequence import Sequence

REASONS = {
    "bad_reading_order": "reading_order of an image names a slot twice, or one that the processed image does not have",
    "bad_tools": "its tools or tool calls are not the JSON from which they are laid out",
    "control_strings": "what the chat template makes of its texts may be part of a control token's name: whose it is cannot be told",
    "has_images": "it is a dialogue or a preference with images, which this recipe does not lay out; vlm-sft and vlm-dpo do",
    "has_roles": "its segments have roles or names (a dialogue, a preference); this recipe does not lay them out",
    "image_too_long": "an image's slots leave no room for a target within --max-tokens",
    "last_turn": "its last turn is not the assistant's, so nothing says where the prompt ends",
    "no_dialogue": "its segments are no dialogue: one has no role, or a name that is no part of a turn (a preference)",
    "no_gt": "it has no gt, by which an answer would be judged",
    "no_image": "it has no image, and the recipe is one of pages",
    "no_pair": "it is no preference pair: a segment is neither chosen nor rejected, or a side is missing",
    "no_prompt": "nothing is asked before the last answer",
    "no_targets": "no text of it is a target, or white space alone",
    "prompts_differ": "the chosen and the rejected side part at what is no answer",
    "same_answers": "the chosen and the rejected answer are the same",
    "slots_mismatch": "an image takes another number of slots than compress_to says",
    "template_refused": "the chat template does not render it",
    "too_long": "it is longer than --max-tokens and --overlong is drop, or it is a pair or a prompt, which have no windows",
}
"""Why a recipe leaves an example out. The list is closed."""

CHANGES = {
    "images_dropped": "images that stand in no sequence: the recipe takes no images, or what was cut away held them",
    "images_trailing": "of these, places of images with no text behind them, which no text attends to",
    "labels_truncated": "ocr_labels of an image beyond its number of slots",
    "pages_without_layout": "pages whose layout has no line with text: their text is the one that ingest stored",
    "texts_left_out": "texts of a dialogue that are no prose: rejected answers, tools, tool calls",
    "examples_windowed": "examples that became several windows",
    "examples_truncated": "examples cut at --max-tokens; no eos follows the cut",
    "tokens_truncated": "tokens behind such a cut",
    "alternatives_without_targets": "alternatives of an example no window of which has a target: their passes skip it",
    "windows_without_images": "windows of a dialogue with images that show none: turns behind them that are longer than --max-tokens, or before them",
    "windows_without_page": "windows of a page that no longer show it: text of a page that is longer than --max-tokens",
    "windows_without_targets": "windows left out because no token of them is a target",
}
"""What a recipe alters, by name, counted over the kept examples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """The sequences of one example, or the reason why there are none."""

    sequences: tuple[Sequence, ...] = ()
    reason: str = ""
    """A name of REASONS; "" where there are sequences."""
    detail: str = ""
    changes: Mapping[str, int] = field(default_factory=dict)
    """Counts by a name of CHANGES."""


class Encoder(Protocol):
    """What a recipe asks of a tokenizer."""

    @property
    def controls(self) -> Mapping[str, int]: ...

    def encode(self, text: str) -> list[int]:
        """The ids of a data text; never a control token's."""


class Recipe(Protocol):
    """A frozen dataclass whose fields are all in its fingerprint."""

    NAME: ClassVar[str]
    MAX_TOKENS: ClassVar[int]
    """What --max-tokens is where it is not given."""
    CONTROLS: ClassVar[tuple[str, ...]]
    """Fields that name control tokens."""
    TARGETS: ClassVar[tuple[str, ...]]
    """Objectives that its sequences can have."""
    PROMPTS: ClassVar[bool]
    """Whether its sequences are prompts, which have no target."""

    @property
    def patch_pixels(self) -> int:
        """Pixels of one patch of its image processor."""

    def recipe(self) -> dict[str, Any]:
        """Name, version and every field, for fingerprints."""

    def image_processor(self) -> Processor | None:
        """The processor that `build` takes; None for a recipe without images."""

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built: ...
