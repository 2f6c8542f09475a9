"""The form of a text in which two texts count as the same."""

from __future__ import annotations

import unicodedata


def normalize(text: str) -> str:
    """The compared form of `text`: equal forms are what deduplication calls equal texts.

    Two texts are equal when they differ only in
      - canonical or compatibility forms: composed or decomposed accents, full-width letters, ligatures (NFKC);
      - case, by full case folding, so that sharp s equals ss (casefold);
      - white space: any run of what `str.isspace` accepts equals one space, and none counts at either end.
    Digits, punctuation, marks and invisible characters (zero width space, soft hyphen) stay and tell texts apart.
    Texts that are canonically equal in Unicode's sense always have one form, and the form of a form is itself.
    """
    if text.isascii():
        # Most web text; the folds below change nothing else in ASCII.
        return " ".join(text.lower().split())
    # Folding can undo composition and composing can bring back what folds, hence Unicode's order for a compatibility
    # caseless match (definition D146): decompose first, or a mark below would stop the fold of the mark beside it.
    folded = unicodedata.normalize("NFD", text).casefold()
    folded = unicodedata.normalize("NFKD", folded).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())
