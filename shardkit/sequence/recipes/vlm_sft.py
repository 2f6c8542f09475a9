"""`vlm-sft`: a dialogue with images in MiniMind's chat layout; only what the assistant says is a target.

im_start user LF image_start patch*n image_end TEXT im_end LF im_start assistant LF ... TEXT im_end LF
                                                                                        ~~~~ targets ~
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shardkit.sequence.recipes.chat_with_images import ChatWithImages
from shardkit.sequence.recipes.sft import Sft


@dataclass(frozen=True, kw_only=True, slots=True)
class VlmSft(ChatWithImages, Sft):
    """Dialogues of `shardkit ingest chat`, with images in turns of any role or without; a dialogue without any has the ids
    of `sft`. Nothing stands between an image and a text but what the dataset has there.
    """

    NAME: ClassVar[str] = "vlm-sft"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096
