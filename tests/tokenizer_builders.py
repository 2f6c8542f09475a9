"""Small tokenizers, as parsed tokenizer.json files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenizers.pre_tokenizers import ByteLevel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MINIMIND = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
EARLIER = ("<pad>", "<bos>", "<eos>", "<image>", "<image_start>", "<image_patch>", "<image_end>")


def byte_level(
    controls: Sequence[str] = MINIMIND,
    *,
    functional: Sequence[str] = ("<think>", "</think>"),
    merges: Sequence[tuple[str, str]] = (),
    words: Sequence[str] = (),
    model: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Byte-level BPE: control tokens first, then the 256 bytes, then what `merges` make, then `words`.

    Args:
        controls: special added tokens.
        functional: added tokens with special=false.
        merges: pairs of pieces, in order.
        words: further vocabulary entries, which no merge makes.
        model: more fields of the model.
    """
    names = [*controls, *functional, *sorted(ByteLevel.alphabet()), *(a + b for a, b in merges), *words]
    vocab = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": vocab[name],
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": name in controls,
            }
            for name in (*controls, *functional)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
            **(model or {}),
        },
    }


def spelled(word: str) -> list[tuple[str, str]]:
    """Merges that build `word` letter by letter."""
    return [(word[:end], word[end]) for end in range(1, len(word))]
