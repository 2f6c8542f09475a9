"""Which control tokens a recipe uses: named by the user, or those of a known family that the tokenizer has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

AUTO = "auto"
"""As a control token's name in a recipe: the one of the first family below that the tokenizer has whole."""

FAMILIES: tuple[Mapping[str, str], ...] = (
    {
        "bos": "<|im_start|>",
        "eos": "<|im_end|>",
        "image_start": "<|vision_start|>",
        "image_patch": "<|image_pad|>",
        "image_end": "<|vision_end|>",
        "im_start": "<|im_start|>",
        "im_end": "<|im_end|>",
        "think_start": "<think>",
        "think_end": "</think>",
        "call_start": "<tool_call>",
        "call_end": "</tool_call>",
        "response_start": "<tool_response>",
        "response_end": "</tool_response>",
    },
    {
        "bos": "<bos>",
        "eos": "<eos>",
        "image_start": "<image_start>",
        "image_patch": "<image_patch>",
        "image_end": "<image_end>",
    },
)
"""Names as MiniMind and Qwen-VL have them, then those of the first multimodal row schema, which has no chat marks."""


def resolve(wanted: Mapping[str, str], present: Collection[str], *, add: bool = False) -> dict[str, str]:
    """The token name of each part that `wanted` lists: a name, "" for none, or "auto".

    Args:
        present: control tokens of the tokenizer.
        add: missing ones will be appended to the tokenizer, so a name need not be present.

    Raises:
        ConfigError: where a token is missing, or the image patch is no token of its own.
    """
    auto = [part for part, name in wanted.items() if name == AUTO]
    able = [names for names in FAMILIES if all(part in names for part in auto)]
    # The family with the fewest tokens to add; the first of equals.
    family = min(able, key=lambda names: sum(names[part] not in present for part in auto))
    names = {part: family[part] if name == AUTO else name for part, name in wanted.items()}
    missing = [(part, name) for part, name in names.items() if name and name not in present]
    if missing and not add:
        raise ConfigError(
            f"the tokenizer has no control token {', '.join(f'{name} ({part})' for part, name in missing)}; "
            f"it has {_some(list(present))}",
            hint=f"name one with --set {missing[0][0]}=TOKEN, or append what is missing with --add-control-tokens",
        )
    patch = names.get("image_patch")
    if patch is not None and (not patch or list(names.values()).count(patch) > 1):
        raise ConfigError(
            f"image_patch={patch!r} marks no image slots: it must be a token with no other part in the recipe",
            hint="name a token of its own with --set image_patch=TOKEN",
        )
    return names


def _some(names: list[str], limit: int = 40) -> str:
    """The names in one line; of a long list the first ones and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more if names else "none"
