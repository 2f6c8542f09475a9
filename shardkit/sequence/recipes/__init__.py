"""Recipes: example -> sequences. A recipe is one file and one line here.

configure(RECIPES["vlm"], {"image_size": "56"})   ->  Vlm(processor=Square(image_size=56))
bind(recipe, tokenizer.controls)                  ->  the same with the names of the tokenizer's control tokens
recipe.build(example, tokenizer, processor, ...)  ->  Built: sequences, or a reason
"""

from __future__ import annotations

from typing import Any

from shardkit.sequence.recipes.agent import Agent
from shardkit.sequence.recipes.built import CHANGES, REASONS, Built, Encoder, Recipe
from shardkit.sequence.recipes.configure import bind, configure, names_of, recorded_processor
from shardkit.sequence.recipes.dpo import Dpo
from shardkit.sequence.recipes.obelics_xattn import ObelicsXattn
from shardkit.sequence.recipes.ocr import Ocr
from shardkit.sequence.recipes.overlong import OVERLONG
from shardkit.sequence.recipes.pretrain import Pretrain
from shardkit.sequence.recipes.rlaif import Rlaif
from shardkit.sequence.recipes.sft import Sft
from shardkit.sequence.recipes.text_replay import TextReplay
from shardkit.sequence.recipes.vlm import Vlm
from shardkit.sequence.recipes.vlm_dpo import VlmDpo
from shardkit.sequence.recipes.vlm_sft import VlmSft

RECIPES: dict[str, type[Any]] = {
    "pretrain": Pretrain,
    "sft": Sft,
    "dpo": Dpo,
    "rlaif": Rlaif,
    "agent": Agent,
    "vlm": Vlm,
    "vlm-sft": VlmSft,
    "vlm-dpo": VlmDpo,
    "obelics-xattn": ObelicsXattn,
    "ocr": Ocr,
    "text-replay": TextReplay,
}
"""Name -> recipe, a frozen dataclass that keeps the promises of `Recipe`."""

__all__ = [
    "CHANGES",
    "OVERLONG",
    "REASONS",
    "RECIPES",
    "Built",
    "Encoder",
    "Recipe",
    "bind",
    "configure",
    "names_of",
    "recorded_processor",
]
