"""`vlm-dpo`: a preference pair with images, two documents of one sequence; each shows the images of its own turns.

chosen    prompt with its images  answer that was preferred          documents = (0, length of the first)
rejected  prompt with its images  the other answer
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shardkit.sequence.recipes.chat_with_images import ChatWithImages
from shardkit.sequence.recipes.dpo import Dpo


@dataclass(frozen=True, kw_only=True, slots=True)
class VlmDpo(ChatWithImages, Dpo):
    """Pairs with images or without; one without any has the ids of `dpo`. An image of the prompt has slots on both sides."""

    NAME: ClassVar[str] = "vlm-dpo"
    VERSION: ClassVar[int] = 1
    MAX_TOKENS: ClassVar[int] = 4096
