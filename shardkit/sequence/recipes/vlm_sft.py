"""`vlm-sft`: a dialogue with images in MiniMind's chat layout; only what the assistant says is a target.

im_start user LF image_start patch*n image_end TEXT im_end LF im_start assistant LF ... TEXT im_end LF
                                                                                        ~~~~ targets ~
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from shardkit.sequence.recipes.chat_with_images import ChatWithImages
from shardkit.sequence.recipes.sft import Sft

if TYPE_CHECKING:
    from shardkit.media.processors import Processor
    from shardkit.records import Example
    from shardkit.sequence.recipes.built import Built, Encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class VlmSft(ChatWithImages, Sft):
    """Dialogues of `shardkit ingest chat`, with images in turns of any role or without; a dialogue without any has the ids
    of `sft`. Nothing stands between an image and a text but what the dataset has there.
    """

    NAME: ClassVar[str] = "vlm-sft"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096

    def build(
        self, example: Example, tokenizer: Encoder, processor: Processor | None, max_tokens: int, overlong: str
    ) -> Built:
        built = Sft.build(self, example, tokenizer, processor, max_tokens, overlong)
        blind = sum(not sequence.slots for sequence in built.sequences) if example.images else 0
        return replace(built, changes={**built.changes, "windows_without_images": blind}) if blind else built
