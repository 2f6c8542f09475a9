"""Marks of texts that may hold personal data: whether there is an e-mail address or a telephone number.

Marks are for filtering and change nothing. They follow the written form, so a number written like a telephone number is
taken for one; dates, prices, decimals and long bare numbers (ISBN, ids) are not.
"""

from __future__ import annotations

import re

_EMAIL = re.compile(
    r"(?<![\w.+%-])[A-Za-z0-9](?:[A-Za-z0-9_%+-]|\.(?!\.)){0,63}@"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}(?![A-Za-z0-9_-])"
)
_BEFORE = r"(?<![\w.,/#$\u20ac\u00a3-])"
_BEHIND = r"(?![\w/-]|[.,][0-9])"
_PHONE = re.compile(
    rf"(?:(?:{_BEFORE}(?:"
    # +49 30 1234567, +1 (212) 555-0100, 0049-30-1234567
    r"(?:\+|00)[1-9][0-9]{0,2}(?:[ .\-/]?\(?[0-9]{1,5}\)?){2,6}"
    # (212) 555-0100, (030) 123 45 67
    r"|\([0-9]{2,5}\)[ .\-]?[0-9]{2,5}(?:[ .\-][0-9]{2,5}){1,3}"
    # 212-555-0100, 212.555.0100, 212 555 0100
    r"|[2-9][0-9]{2}([ .\-])[0-9]{3}\1[0-9]{4}"
    # 030 1234567, 030/123456, 06-12345678: a trunk zero, an area, a number
    r"|0[1-9][0-9]{0,4}[ /\-][0-9]{5,9}"
    # 06 12 34 56 78 and 0171 123 45 67
    r"|0[1-9][0-9]{0,3}([ .\-])[0-9]{2,4}(?:\2[0-9]{2,4}){2,3}"
    # a Chinese mobile number, bare or in groups
    r"|1[3-9][0-9]([ \-]?)[0-9]{4}\3[0-9]{4}"
    rf"){_BEHIND})"
    # 138... directly behind or before Chinese characters, which the borders above take for word characters
    r"|(?<![0-9.])1[3-9][0-9]{9}(?![0-9.]))"
)
_RUN = re.compile(r"[0-9][0-9 ().\-/]{5,}[0-9]")
"""What every number has in it; most texts have none, and this is faster to look for."""
_MIN_DIGITS, _MAX_DIGITS = 7, 15
"""Of a telephone number: the international rule (E.164) ends at 15."""


def has_email(text: str) -> bool:
    """Whether an e-mail address stands in `text`."""
    return "@" in text and _EMAIL.search(text) is not None


def has_phone(text: str) -> bool:
    """Whether something written like a telephone number stands in `text`."""
    if _RUN.search(text) is None:
        return False
    for found in _PHONE.finditer(text):
        digits = sum(sign.isdigit() for sign in found[0])
        if _MIN_DIGITS <= digits <= _MAX_DIGITS:
            return True
    return False
