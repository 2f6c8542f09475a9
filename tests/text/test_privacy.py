"""Marks of texts: what is taken for an e-mail address or a telephone number, and what is not."""

from __future__ import annotations

import time

import pytest

from shardkit.text.privacy import has_email, has_phone


@pytest.mark.parametrize(
    "text",
    ["write to a.b+c@example.org.", "<someone@sub.example.co.uk>", "mail:x_1@example.com, or", "\u90ae\u7bb1 li@example.cn"],
)  # fmt: skip
def test_addresses(text):
    assert has_email(text)


@pytest.mark.parametrize("text", ["", "a@b", "@someone", "an at sign @ example.org", "x@.org", "a@-b.org", "1@2.3"])
def test_no_addresses(text):
    assert not has_email(text)


@pytest.mark.parametrize(
    "text",
    [
        "call +49 30 1234567 now", "+1 (212) 555-0100", "(212) 555-0100", "212-555-0100", "Tel. 030/1234567", "0171 123 45 67",
        "06 12 34 56 78", "13812345678", "\u7535\u8bdd13812345678\u8054\u7cfb", "0049-30-1234567", "tel:+8613812345678",
    ],
)  # fmt: skip
def test_numbers(text):
    assert has_phone(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "2024-05-01", "05.03.2019 12:30:15", "1,234,567.89", "$ 1234567", "ISBN 9783161484100", "pi is 3.14159265358979",
        "1080x1920", "12345678901234567890", "page 555", "192.168.100.200", "2019/2020", "v1.2.3", "[0.1386294361119]",
    ],
)  # fmt: skip
def test_no_numbers(text):
    assert not has_phone(text)


@pytest.mark.parametrize(
    "text", ["0" * 100_000, "1-" * 50_000, "a." * 50_000 + "@", "+1" + " 1" * 50_000, "a@" + "a." * 50_000]
)
def test_no_text_takes_long(text):
    start = time.process_time()
    has_email(text)
    has_phone(text)
    assert time.process_time() - start < 2
