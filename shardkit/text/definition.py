"""The parsed content of a tokenizer.json, rewritten: without its control tokens, or with more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenizers.pre_tokenizers import ByteLevel

if TYPE_CHECKING:
    from collections.abc import Sequence

_BYTES = frozenset(ByteLevel.alphabet())
_PLAIN = [byte for byte in range(256) if chr(byte) in _BYTES]
_BYTE_OF = {chr(byte): byte for byte in _PLAIN}
_BYTE_OF |= {chr(256 + place): byte for place, byte in enumerate(byte for byte in range(256) if byte not in _PLAIN)}
"""Letter that stands for a byte -> the byte: itself where it can be printed, else the next letter from U+0100 on."""


def data_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """`definition` with nothing left that could make the id of an added token.

    Taking the added tokens out stops the library from finding them inside a text. The model itself might still spell
    one: where it merges up to it, or looks whole words up (`ignore_merges`). So its vocabulary entry goes too, with the
    merges that lead to it or on from it. What can no longer be spelled is dropped by a BPE model; other models say
    their unknown token, which stays for that reason (`unknown_id`). Dropout, a random choice, is off.
    """
    model = definition["model"]
    controls = {int(token["id"]) for token in definition.get("added_tokens") or ()} - {unknown_id(definition)}
    vocab = model["vocab"]
    if isinstance(vocab, list):
        # Unigram: the place in the list is the id, so the entry stays and its text goes; no part of a text matches it.
        model = {**model, "vocab": [["" if i in controls else piece, score] for i, (piece, score) in enumerate(vocab)]}
    else:
        gone = {piece for piece, i in vocab.items() if i in controls}
        model = {**model, "vocab": {piece: i for piece, i in vocab.items() if piece not in gone}}
        if model["type"] == "BPE":
            unknown, prefix = model.get("unk_token"), model.get("continuing_subword_prefix") or ""
            merges = [pair for pair in model["merges"] if gone.isdisjoint(_parts(pair, prefix))]
            model |= {"merges": merges, "unk_token": None if unknown in gone else unknown, "dropout": None}
    return {**definition, "added_tokens": [], "post_processor": None, "model": model}


def unknown_id(definition: dict[str, Any]) -> int | None:
    """The id that a model other than BPE says of what it cannot spell. No text can ask for it by name."""
    model = definition["model"]
    if isinstance(model["vocab"], list):
        return None if model.get("unk_id") is None else int(model["unk_id"])
    return None if model["type"] == "BPE" else model["vocab"].get(model.get("unk_token"))


def _parts(pair: str | list[str], prefix: str) -> tuple[str, str, str]:
    """The two pieces of a merge and what they become; older files write the two with a space between."""
    left, right = pair.split(" ") if isinstance(pair, str) else pair
    return left, right, left + right.removeprefix(prefix)


def with_added_tokens(definition: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """`definition` with `names` as special added tokens: under the ids that the vocabulary gives them, or the next ones."""
    added = list(definition.get("added_tokens") or ())
    model = definition["model"]
    vocab = model["vocab"]
    free = next_id(definition)
    there = vocab if isinstance(vocab, dict) else {piece: place for place, (piece, _) in enumerate(vocab)}
    new: dict[str, int] = {}
    for name in names:
        known = there.get(name)
        if known is None:
            known, free = free, free + 1
        new[name] = known
        added.append(
            {
                "id": known,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        )
    if isinstance(vocab, dict):
        # With an entry of its own the token keeps its id even where the vocabulary has holes.
        model = {**model, "vocab": {**vocab, **new}}
    return {**definition, "added_tokens": added, "model": model}


def next_id(definition: dict[str, Any]) -> int:
    """One more than the highest id in `definition`."""
    vocab = definition["model"]["vocab"]
    ids = range(len(vocab)) if isinstance(vocab, list) else vocab.values()
    return 1 + max([*ids, *(int(token["id"]) for token in definition.get("added_tokens") or ())], default=-1)


def keeps_every_text(definition: dict[str, Any]) -> bool:
    """Whether every text comes back from its ids: byte-level BPE, no normalizer, no added space, all 256 bytes."""
    model = definition["model"]
    return (
        model["type"] == "BPE"
        and not (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"))
        and definition.get("normalizer") is None
        and _is_byte_level(definition.get("pre_tokenizer"), "pretokenizers")
        and _is_byte_level(definition.get("decoder"), "decoders")
        and model["vocab"].keys() >= _BYTES
    )


def spelling(definition: dict[str, Any], name: str) -> bytes:
    """What an entry of the vocabulary stands for: its bytes, or its text in UTF-8 with the mark of a space as a space."""
    if _is_byte_level(definition.get("decoder"), "decoders"):
        known = [_BYTE_OF.get(letter) for letter in name]
        if None not in known:
            return bytes(byte for byte in known if byte is not None)
    return name.replace("\u2581", " ").encode()


def _is_byte_level(part: dict[str, Any] | None, steps: str) -> bool:
    """Whether `part` maps bytes to their letters, or back, and beside that only splits."""
    chain = [] if part is None else part.get(steps, [part])
    bytes_only = [step for step in chain if step["type"] != "Split" or step["behavior"] == "Removed"]
    if len(bytes_only) != 1 or bytes_only[0]["type"] != "ByteLevel":
        return False
    return steps == "decoders" or not bytes_only[0].get("add_prefix_space", True)
