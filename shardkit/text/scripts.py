"""The script that a text is written in: Latin, Han, Cyrillic, ..."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache

NO_SCRIPT = "none"
"""Of a text without a letter: numbers, signs, white space."""

_NAMES = {"CJK": "han", "HIRAGANA": "kana", "KATAKANA": "kana", "HALFWIDTH": "kana", "FULLWIDTH": "latin"}
"""First word of a letter's Unicode name -> its script, where that is not the word itself."""


def script_of(text: str) -> str:
    """The script of most letters of `text`, in lower case; the first by name of equally many.

    Signs, digits and white space count for none, so a sentence with many numbers is still of its words' script. Kana make
    a text Japanese however much Han stands beside them.
    """
    if text.isascii():
        return "latin" if any(map(str.isalpha, text)) else NO_SCRIPT
    found: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        script = _script(letter)
        if script:
            found[script] += count
    if not found:
        return NO_SCRIPT
    if "kana" in found and found["han"] + found["kana"] > found.total() / 2:
        return "kana"
    return min(found, key=lambda script: (-found[script], script))


@lru_cache(maxsize=1 << 16)
def _script(letter: str) -> str:
    """The script of a letter; "" of any other character."""
    if not letter.isalpha():
        return ""
    word = unicodedata.name(letter, "unnamed").split()[0]
    return _NAMES.get(word, word.partition("-")[0].lower())
