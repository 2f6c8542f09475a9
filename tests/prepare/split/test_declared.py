from __future__ import annotations

import json

import pytest

from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.split.declared import fact_key, path_key


def facts(group: str | None = None, assets: tuple[str, ...] = (), **metadata) -> Facts:
    return Facts(
        example_id="0" * 32, source="web", group=group, metadata=json.dumps(metadata), assets=assets, frames=(0,) * len(assets),
        pixels=(), stored=(), num_pixels=0, num_bytes=0, raw_text="", text="", parts=b"", roles=b"", named=False, kinds=frozenset(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("group_by", "given", "expected"),
    [
        (None, facts(group="book"), "book"),
        (None, facts(), None),
        (None, facts(group="a" * 64, assets=("a" * 64,)), None),
        ("@source", facts(), "web"),
        ("site", facts(site="s1"), "s1"),
        ("site", facts(site=7), "7"),
        ("site", facts(site="  "), None),
        ("site", facts(site=None), None),
        ("site", facts(other=1), None),
        ("doc.site", facts(doc={"site": "deep"}), "deep"),
        ("source", facts(source="field"), "field"),
        ("@domain", facts(url="https://www.news.example.co.uk/a?b"), "example.co.uk"),
        ("@domain", facts(url="https://user.github.io/x"), "user.github.io"),
        ("@domain", facts(), None),
    ],
)
def test_key_of_a_row(group_by: str | None, given: Facts, expected: str | None):
    assert fact_key(group_by)(given) == expected


def test_key_of_a_path_and_of_a_member_of_a_tar():
    key = path_key("@path:([^/]+)_[0-9]+_[0-9]+")
    assert key("pages/kant_0001_002.png", "kant_0001_002") == "kant"
    assert key("00000.tar", "hegel_0001_002") == "hegel"
    assert key("00000.tar", "17") is None
    assert path_key("@path")("a/b.jsonl", "3") == "a/b.jsonl"


def test_domains_are_looked_up_without_a_connection(monkeypatch: pytest.MonkeyPatch):
    import socket

    from shardkit.prepare.ingest import group

    def refuse(*_args, **_kwargs):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    group._suffixes.cache_clear()
    group._registered.cache_clear()
    assert fact_key("@domain")(facts(url="http://a.b.example.org")) == "example.org"
