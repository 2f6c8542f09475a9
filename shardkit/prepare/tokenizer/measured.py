"""How many characters a token holds, by the script of the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.text.scripts import script_of
from shardkit.text.tokenizer import Tokenizer


@dataclass(kw_only=True, slots=True, eq=False)
class Measured:
    """Sums over encoded texts. Each text counts whole for the script of most of its letters."""

    num_entries: int
    """Entries of the vocabulary that a text can be encoded to."""
    uses: npt.NDArray[np.int64]
    """[vocab_size] times that each id came."""
    texts: Counter[str] = field(default_factory=Counter)
    """By script, as the next two."""
    characters: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    changed: int = 0
    """Texts that do not come back from their ids."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Measured:
        """Of no text yet."""
        return cls(num_entries=len(tokenizer.entries), uses=np.zeros(tokenizer.vocab_size, np.int64))

    def add_texts(self, tokenizer: Tokenizer, texts: Sequence[str]) -> None:
        encoded = tokenizer.encode_batch(texts)
        for text, ids in zip(texts, encoded, strict=True):
            script = script_of(text)
            self.texts[script] += 1
            self.characters[script] += len(text)
            self.tokens[script] += len(ids)
            self.changed += not tokenizer.keeps(text, ids)
        flat = np.fromiter((token for ids in encoded for token in ids), np.int64)
        self.uses += np.bincount(flat, minlength=len(self.uses))

    def add(self, other: Measured) -> None:
        """Count what another process measured with the same tokenizer, too."""
        self.uses += other.uses
        self.texts.update(other.texts)
        self.characters.update(other.characters)
        self.tokens.update(other.tokens)
        self.changed += other.changed

    def rate(self, script: str | None = None) -> float:
        """Characters a token, of one script or of all texts; 0 where there is no token."""
        characters, tokens = (
            counts.total() if script is None else counts[script] for counts in (self.characters, self.tokens)
        )
        return characters / tokens if tokens else 0.0

    @property
    def scripts(self) -> list[str]:
        """Most characters first."""
        return sorted(self.characters, key=lambda script: (-self.characters[script], script))

    def to_json(self) -> dict[str, Any]:
        return {
            "texts": self.texts.total(),
            "characters": self.characters.total(),
            "tokens": self.tokens.total(),
            "characters_per_token": round(self.rate(), 3),
            "changed_texts": self.changed,
            "by_script": {
                script: {
                    "texts": self.texts[script],
                    "characters": self.characters[script],
                    "tokens": self.tokens[script],
                    "characters_per_token": round(self.rate(script), 3),
                }
                for script in self.scripts
            },
        }


def rates(measured: Mapping[str, Any]) -> list[str]:
    """A line for each script of what `to_json` gives, then one for all."""
    rows = [*measured["by_script"].items(), ("all", measured)]
    return [
        f"  {script:<10} {one['characters_per_token']:>6.2f} characters a token"
        f"  ({one['characters']} characters, {one['tokens']} tokens, {one['texts']} texts)"
        for script, one in rows
    ]
