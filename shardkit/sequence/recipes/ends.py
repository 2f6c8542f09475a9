"""What recipes share that lay texts between two control tokens: bos text LF text eos."""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.sequence.recipes.controls import AUTO


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    bos: str = AUTO
    """Control token before everything; "" for none, "auto" for the tokenizer's."""
    eos: str = AUTO
    """Control token behind everything."""
    supervise_eos: bool = True
    """Whether eos is a target."""
    separator: str = "\n"
    """Stands between two texts with no image between them; a target like the text behind it."""
