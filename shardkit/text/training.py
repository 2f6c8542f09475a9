"""Byte-level BPE learnt from texts, as the files of a tokenizer.

    texts -> pieces by a pattern -> counts -> merges, the most frequent pair first
    ids      control tokens | the 256 bytes, by their letters | a merge each

Equal texts give equal files, in any order and with any number of threads: only counts are looked at, and pairs of equal
count are taken by their ids. Control tokens are unknown while it learns: where a text spells one, it is text.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

import orjson
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from shardkit.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardkit.text.reserved import Reserved

TRAINING_VERSION = 1
"""A change of what equal texts are turned into gets a new number."""
_ALPHABET = frozenset(pre_tokenizers.ByteLevel.alphabet())
NUM_BYTES = len(_ALPHABET)

PATTERNS: dict[str, str | None] = {
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "gpt2": None,
}
"""Name -> where a text is cut before pairs are counted; no token reaches over a cut. qwen2 leaves each digit alone and joins
a sign with the word behind it; gpt2 is the one built into ByteLevel, which MiniMind's file has."""


def train(batches: Iterable[Sequence[str]], *, vocab_size: int, reserved: Reserved, pattern: str) -> dict[str, Any]:
    """The parsed tokenizer.json learnt from texts, which come in batches.

    It has fewer than `vocab_size` entries where the texts run out of pairs.

    Raises:
        ConfigError: where `vocab_size` leaves no room for control tokens and bytes, a control token is the letter of a
            byte, or there is no such pattern.
    """
    check_settings(vocab_size=vocab_size, reserved=reserved, pattern=pattern)
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = _pre_tokenizer(pattern)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(reserved.names),
        initial_alphabet=sorted(_ALPHABET),
        show_progress=False,
    )
    backend.train_from_iterator(map(list, batches), trainer)
    definition: dict[str, Any] = orjson.loads(backend.to_str())
    for token in definition["added_tokens"]:
        token["special"] = token["content"] in reserved.special
    return definition


def check_settings(*, vocab_size: int, reserved: Reserved, pattern: str) -> None:
    """Raise what `train` would, before any text is read."""
    if pattern not in PATTERNS:
        raise ConfigError(f"there is no pattern {pattern!r}", hint=f"choose one with --pattern: {', '.join(PATTERNS)}")
    letters = [name for name in reserved.names if name in _ALPHABET]
    if letters:
        raise ConfigError(
            f"the control token {letters[0]!r} is the letter of a byte; no text with that byte could be spelled",
            hint="name it otherwise in the file of --control-tokens, for instance <a>",
        )
    least = len(reserved.names) + NUM_BYTES
    if vocab_size < least:
        raise ConfigError(
            f"--vocab-size {vocab_size} is below {least}: {len(reserved.names)} control tokens and {NUM_BYTES} bytes",
            hint="raise --vocab-size, or name fewer control tokens with --control-tokens",
        )


def tokenizer_config(reserved: Reserved, chat_template: str | None) -> bytes:
    """The tokenizer_config.json with which `transformers` reads the tokenizer as it is."""
    names = reserved.names
    config: dict[str, Any] = {
        "added_tokens_decoder": {
            str(place): {
                "content": name,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": name in reserved.special,
            }
            for place, name in enumerate(names)
        },
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": name for role, name in reserved.roles.items()},
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    if chat_template is not None:
        config["chat_template"] = chat_template
    return orjson.dumps(config, option=orjson.OPT_INDENT_2) + b"\n"


TEMPLATE_MARKS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")  # fmt: skip
"""Control tokens that the package's template writes."""


def library() -> str:
    """What learns: name and version, for the record."""
    return f"tokenizers/{metadata.version('tokenizers')}"


def _pre_tokenizer(pattern: str) -> pre_tokenizers.PreTokenizer:
    expression = PATTERNS[pattern]
    if expression is None:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
