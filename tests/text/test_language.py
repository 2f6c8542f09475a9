from __future__ import annotations

import json

import numpy as np
import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from shardkit.text import language
from shardkit.text.language import LOOKED_AT, MIN_CONFIDENCE, identify, model

SENTENCES = {
    "en": "The cat sat on the mat and looked at the dog.",
    "de": "Der Hund schaut der Katze beim Schlafen zu.",
    "fr": "Le chat dort sur le tapis devant la porte de la maison.",
    "es": "El perro mira al gato mientras duerme en la alfombra.",
    "zh": "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u6563\u6b65\u3002",
    "ja": "\u4eca\u65e5\u306f\u5929\u6c17\u304c\u3044\u3044\u306e\u3067\u3001\u516c\u5712\u3092\u6563\u6b69\u3057\u307e\u3059\u3002",
    "ko": "\uc624\ub298\uc740 \ub0a0\uc528\uac00 \uc88b\uc544\uc11c \uacf5\uc6d0\uc744 \uc0b0\ucc45\ud569\ub2c8\ub2e4.",
    "ru": "\u0421\u0435\u0433\u043e\u0434\u043d\u044f \u0445\u043e\u0440\u043e\u0448\u0430\u044f \u043f\u043e\u0433\u043e\u0434\u0430, \u0438 \u043c\u044b \u0438\u0434\u0451\u043c \u0433\u0443\u043b\u044f\u0442\u044c.",
}


def test_sentences_get_their_language() -> None:
    found = identify(SENTENCES.values())
    assert [code for code, _ in found] == list(SENTENCES)
    assert all(MIN_CONFIDENCE <= confidence <= 1 for _, confidence in found)


@pytest.mark.parametrize("text", ["", "  \n", "1234 5678", "$12.50", "...", "\U0001f600", "\ud800"])
def test_without_a_letter_nothing_is_known(text: str) -> None:
    assert identify([text]) == [("und", 0.0)]


@pytest.mark.parametrize(
    "text",
    ["ok", "cat", "hello", "Invoice No. 20231", "Total 12.00 EUR", "http://example.com/a/b?c=1", "<p class='a'>"],
)
def test_a_word_or_markup_has_no_language(text: str) -> None:
    ((code, confidence),) = identify([text])
    assert code == "und"
    assert confidence < MIN_CONFIDENCE


def test_two_chinese_characters_are_enough() -> None:
    assert [code for code, _ in identify(["\u4f60\u597d"])] == ["zh"]


def test_only_the_beginning_counts() -> None:
    text = (SENTENCES["en"] * 20)[:LOOKED_AT]
    assert identify([text]) == identify([text + SENTENCES["fr"] * 50]) == identify(["\n\n " + text])


def test_every_code_is_iso_639_1() -> None:
    codes = set(language._model().codes) - {"zxx"}
    assert {"en", "zh", "ar", "hi", "sw"} < codes
    assert all(len(code) == 2 for code in codes)


def test_scores_do_not_depend_on_the_order_of_addition() -> None:
    known = language._model()
    features, counts = np.arange(1, 4001, 17), np.arange(1, 237)
    weights = np.round(np.log1p(counts) * 1024) / 1024
    forth, back = (
        weights[way] @ known.weights[features[way]].astype(np.float64) for way in (slice(None), slice(None, None, -1))
    )
    assert np.array_equal(forth, back)
    # The rounding of weights to 1 / 1024 is what makes sums exact: it must not carry the sums elsewhere.
    plain = np.log1p(counts) @ known.weights[features].astype(np.float64)
    assert np.abs(forth - plain).max() < 2.5


def test_many_texts_together_get_what_the_library_gives_each() -> None:
    loaded = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    loaded.set_languages({code for code in loaded.labels if len(code) == 2} | {"zxx"})
    texts = [
        *SENTENCES.values(),
        "SHOUTED WORDS OF A TITLE",
        "a\u0308rger",
        "one",
        "x" * 299 + "\u00e9",
        "\U0001f600 ok",
    ]
    for text, (code, confidence) in zip(texts, language._model().classify(texts), strict=True):
        expected, probability = loaded.classify(text)
        assert code == expected
        assert confidence == pytest.approx(probability, abs=2e-3)
    assert language._model().classify(texts[::-1]) == language._model().classify(texts)[::-1]
    assert [identify([text])[0] for text in texts] == identify(texts)


def test_the_model_is_named_with_its_version() -> None:
    name, _, number = model().partition("/")
    assert name == "py3langid"
    assert number.split(".")[0].isdigit()


def test_real_chats_are_told_apart(shared) -> None:
    rows = (shared / "data" / "chat" / "sft.jsonl").read_text(encoding="utf-8").splitlines()
    texts = ["\n".join(turn["content"] or "" for turn in json.loads(row)["conversations"]) for row in rows]
    codes = [code for code, _ in identify(texts)]
    # The first half of the file is Chinese, the second English.
    right = sum(code == expected for code, expected in zip(codes, ["zh"] * 160 + ["en"] * 160, strict=True))
    assert right >= 310
