"""Text files: marks and encodings that they tell, line ends, and what is refused because it would be a guess."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest.formats.text_file import decoded, json_of
from shardkit.prepare.ingest.reasons import Bad

TEXT = "Gr\u00fc\u00dfe \u4e2d\u6587 \U0001f600"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_a_mark_tells_the_encoding(encoding):
    changes: Counter[str] = Counter()
    assert decoded(f"\ufeff{TEXT}\r\nb\r\n".encode(encoding), changes) == f"{TEXT}\nb"
    wide = {} if encoding == "utf-8" else {"transcoded_text": 1}
    assert changes == {"byte_order_mark": 1, "crlf_text": 1, **wide}


@pytest.mark.parametrize(
    ("data", "reason", "says"),
    [
        (TEXT.encode("utf-16-le"), "invalid_utf8", "iconv"),
        (
            "Gr\u00fc\u00dfe".encode("latin-1"),
            "invalid_utf8",
            "byte 2, 0xfc, is no UTF-8; convert the file first: iconv",
        ),
        ("\u4e2d\u6587".encode("gbk"), "invalid_utf8", "iconv"),
        (b"\xff\xfea", "bad_encoding", "is no UTF-16-LE"),
        (b"\xfe\xff\xd8\x00\x00a", "bad_encoding", "is no UTF-16-BE"),
        (b"\xef\xbb\xbf\xff", "invalid_utf8", "byte 0, 0xff, is no UTF-8"),
    ],
)
def test_nothing_is_guessed(data, reason, says):
    with pytest.raises(Bad) as bad:
        decoded(data, Counter())
    assert bad.value.reason == reason
    assert says in bad.value.detail


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_json_beside_a_picture_may_be_wide_too(encoding):
    changes: Counter[str] = Counter()
    assert json_of(f'\ufeff{{"text": "{TEXT}"}}'.encode(encoding), changes) == f'{{"text": "{TEXT}"}}'.encode()
    assert changes == ({} if encoding == "utf-8" else {"transcoded_text": 1})
    assert json_of(b"[1]", changes) == b"[1]"
    with pytest.raises(Bad) as bad:
        json_of(b"\xff\xfea", changes)
    assert bad.value.reason == "bad_encoding"
