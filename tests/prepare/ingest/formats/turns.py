"""Drafts of single rows of chat, and what stands in them."""

from __future__ import annotations

from shardkit.prepare.ingest.formats import chat
from tests.prepare.ingest.builders import config, reader, record

USER, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


def draft(row, tmp_path):
    (one,) = chat.drafts(record(row), config(format="chat"), reader(tmp_path))
    return one


def shape(draft) -> list[tuple[str | None, str | None, str | None]]:
    return [(segment.role, segment.name, segment.text) for segment in draft.segments]


URI = "data:image/png;base64,AAAA"


def pictures(draft) -> list[tuple[str | None, str | int | None]]:
    return [(s.role, s.text if s.kind == "text" else s.image) for s in draft.segments]
