"""The language of a text, for reports: which language loses how much. Nothing is removed for its language.

The model is py3langid's: a naive Bayes classifier over byte n-grams (Lui and Baldwin, "langid.py", ACL 2012, demos)
that is part of the package, 4.6 MB; nothing is fetched. docs/decisions says why this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import islice, pairwise
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


_BATCH = 4096
"""Texts that are gone through together, byte by byte."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Model:
    """The automaton that finds features in bytes, and what each feature says of each language.

    Scores are the same on every machine: weights are rounded to 1 / 1024 and the model's are half-precision numbers, so
    that all products and all sums are exact in double precision, in whatever order a machine adds.
    """

    codes: list[str]
    twice: list[tuple[int, int]]
    """Two places of one language."""
    moves: npt.NDArray[np.uint32]
    base: npt.NDArray[np.int64]
    """[states] where in `moves` the 256 moves of a state begin."""
    output: npt.NDArray[np.int32]
    """[states] the feature that is found there, -1 for none."""
    weights: npt.NDArray[np.float32]
    """[features, languages]"""
    prior: npt.NDArray[np.float64]
    encode: Callable[[str], bytes]

    def classify(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """The best language of each text and its probability, as py3langid's own classify gives them."""
        encoded = [self.encode(text) for text in texts]
        lengths = np.array([len(data) for data in encoded], np.int64)
        scores = self._scores(encoded, lengths)
        scores *= (1.0 / np.sqrt(np.maximum(lengths, 1)))[:, None]
        np.exp(scores - scores.max(axis=1, keepdims=True), out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        for one, other in self.twice:
            scores[:, one] += scores[:, other]
            scores[:, other] = 0.0
        best = scores.argmax(axis=1)
        return [(self.codes[place], float(row[place])) for place, row in zip(best.tolist(), scores, strict=True)]

    def _scores(self, encoded: Sequence[bytes], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """[n, languages]; zeros where a text has no feature."""
        found = np.zeros((len(encoded), len(self.codes)))
        text, feature, counts = self._features(encoded, lengths)
        weights = np.round(np.log1p(counts) * _STEPS) / _STEPS
        borders = np.searchsorted(text, np.arange(len(encoded) + 1)).tolist()
        for number, (begin, end) in enumerate(pairwise(borders)):
            if end > begin:
                own = self.weights[feature[begin:end]].astype(np.float64)
                found[number] = weights[begin:end] @ own + self.prior
        return found

    def _features(
        self, encoded: Sequence[bytes], lengths: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Text, feature and how often it is found there, ascending; all texts take a step at a time."""
        flat = np.frombuffer(b"".join(encoded), np.uint8)
        order = np.argsort(-lengths, kind="stable")
        starts = (np.cumsum(lengths) - lengths)[order]
        state = np.zeros(len(encoded), np.int64)
        keys = [np.empty(0, np.int64)]
        for step in range(int(lengths.max(initial=0))):
            going = int(np.searchsorted(-lengths[order], -step, side="left"))
            state = self.moves[self.base[state[:going]] + flat[starts[:going] + step]].astype(np.int64)
            feature = self.output[state]
            hit = np.flatnonzero(feature >= 0)
            keys.append((order[hit] << 32) | feature[hit])
        distinct, counts = np.unique(np.concatenate(keys), return_counts=True)
        return distinct >> 32, distinct & 0xFFFFFFFF, counts


@lru_cache(maxsize=1)
def _model() -> _Model:
    """Loaded once a process, in about a second; 150 MB."""
    loaded = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    # Languages with a two-letter code: dialects and historical forms take votes from the languages that people mean.
    loaded.set_languages({code for code in loaded.labels if len(code) == 2} | {_NO_LANGUAGE})
    return _Model(
        codes=list(loaded.nb_classes),
        twice=list(loaded._alias_pairs),
        moves=np.array(loaded.tk_nextmove, np.uint32),
        base=np.array(loaded._rowbase, np.int64),
        output=np.array(loaded.tk_output, np.int32),
        weights=np.asarray(loaded.nb_ptc, np.float32),
        prior=np.asarray(loaded.nb_pc, np.float64),
        encode=loaded._encode,
    )


def forget() -> None:
    """Let go of the model, where this process will identify nothing for a while."""
    _model.cache_clear()


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
    found: list[tuple[str, float]] = []
    waiting = iter(texts)
    while some := [text.lstrip()[:LOOKED_AT] for text in islice(waiting, _BATCH)]:
        found += _identify(some)
    return found


def declared(metadata: Mapping[str, Any]) -> str | None:
    """What a row's metadata says as `language` or `lang`, in small letters and without a region."""
    for name in ("language", "lang"):
        value = metadata.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip().lower().replace("_", "-").split("-")[0]
    return None


def _identify(texts: Sequence[str]) -> list[tuple[str, float]]:
    found = [(UNDETERMINED, 0.0)] * len(texts)
    spoken = [place for place, text in enumerate(texts) if any(map(str.isalpha, text))]
    if spoken:
        named = _model().classify([texts[place] for place in spoken])
        for place, (code, confidence) in zip(spoken, named, strict=True):
            known = code != _NO_LANGUAGE and confidence >= MIN_CONFIDENCE
            found[place] = (code if known else UNDETERMINED), confidence
    return found
