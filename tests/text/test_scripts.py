from __future__ import annotations

import pytest

from shardkit.text.scripts import script_of


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("The cat, 3 dogs", "latin"),
        ("na\u00efve caf\u00e9", "latin"),
        ("\u4eca\u5929\u5929\u6c14\u5f88\u597d ok", "han"),
        ("use GPU \u663e\u5361\u7684\u4eba", "latin"),
        ("\u4eca\u65e5\u306f\u5929\u6c17", "kana"),
        ("\u041f\u0440\u0438\u0432\u0435\u0442 you", "cyrillic"),
        ("\uc624\ub298", "hangul"),
        ("\uff21\uff22", "latin"),
        ("a\u03b1", "greek"),
        ("", "none"),
        ("12.50 % \u3002 \U0001f600", "none"),
        ("\ud800", "none"),
    ],
)
def test_a_text_is_of_the_script_of_most_letters(text: str, script: str) -> None:
    assert script_of(text) == script
