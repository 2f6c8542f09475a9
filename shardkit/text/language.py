"""The language of a text, for reports: which language loses how much. Nothing is removed for its language.

The model is py3langid's: a naive Bayes classifier over byte n-grams (Lui and Baldwin, "langid.py", ACL 2012, demos)
that is part of the package, 4.6 MB; nothing is fetched. docs/decisions says why this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
from py3langid.langid import MODEL_FILE, LanguageIdentifier

UNDETERMINED = "und"
"""ISO 639-2 for a text whose language is not known."""
MIN_CONFIDENCE = 0.3
"""Below it no language is named: of single words and part numbers the model's best guess is mostly wrong."""
LOOKED_AT = 300
"""Characters of a text that are looked at, its first: on whole pages more change nothing but the time."""
_NO_LANGUAGE = "zxx"
"""The model's class of numbers, markup and identifiers."""
_STEPS = 1024


class _Exact(LanguageIdentifier):  # type: ignore[misc]  # the library has no types
    """Scores that are the same on every machine.

    Weights are rounded to 1 / 1024 and the model's are half-precision numbers, so that all products and all sums are
    exact in double precision: the order in which a machine adds cannot change the answer.
    """

    def _sparse_score(self, visits: Mapping[int, int], table: npt.NDArray[np.float16]) -> npt.NDArray[np.float64]:
        places = np.fromiter(visits.keys(), np.int64, len(visits))
        counts = np.fromiter(visits.values(), np.float64, len(visits))
        weights = np.round(np.log1p(counts) * _STEPS) / _STEPS
        scores: npt.NDArray[np.float64] = weights @ table[places].astype(np.float64) + self.nb_pc.astype(np.float64)
        return scores


@lru_cache(maxsize=1)
def _identifier() -> Any:
    """Loaded once a process, in about a second; 90 MB."""
    identifier = _Exact.from_model_file(MODEL_FILE, norm_probs=True)
    # Languages with a two-letter code: dialects and historical forms take votes from the languages that people mean.
    identifier.set_languages({code for code in identifier.labels if len(code) == 2} | {_NO_LANGUAGE})
    return identifier


def model() -> str:
    """Name and version of the model: with another one languages may differ."""
    return f"py3langid/{version('py3langid')}"


def identify(texts: Iterable[str]) -> list[tuple[str, float]]:
    """The language of each text as an ISO 639-1 code, and the confidence in it, from 0 to 1.

    `und` stands where there is too little to go by: no letter, markup and numbers alone, or a confidence below
    MIN_CONFIDENCE. A text in two languages gets the one that its beginning has more of.

        "The cat sat on the mat and looked at the dog."    en
        "12.50 / 3"                                        und
    """
    return [_identify(text) for text in texts]


def declared(metadata: Mapping[str, Any]) -> str | None:
    """What a row's metadata says as `language` or `lang`, in small letters and without a region."""
    for name in ("language", "lang"):
        value = metadata.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip().lower().replace("_", "-").split("-")[0]
    return None


def _identify(text: str) -> tuple[str, float]:
    beginning = text.lstrip()[:LOOKED_AT]
    if not any(map(str.isalpha, beginning)):
        return UNDETERMINED, 0.0
    code, confidence = _identifier().classify(beginning)
    known = code != _NO_LANGUAGE and confidence >= MIN_CONFIDENCE
    return (code if known else UNDETERMINED), confidence
