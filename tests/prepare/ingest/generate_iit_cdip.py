"""IIT-CDIP as published: a folder a document with ID.tif of all pages and ID.xml or ID.txt with their text."""

from __future__ import annotations

from pathlib import Path

from tests.prepare.ingest.builders import tiff

BROKEN = "aaa07a00"
"""Its text has a page more than its pictures."""


def record(stem: str, texts: list[str]) -> bytes:
    """The record of a document: text escaped twice, every page ended by a mark."""
    pages = "".join(f"{text}\npgNbr={number}\n" for number, text in enumerate(texts, start=1))
    escaped = pages.replace("&", "&amp;amp;").replace("<", "&amp;lt;")
    return (
        f"<?xml version='1.0' encoding='UTF-8'?>\n<root><record><tid>{stem}</tid><dd>19830102</dd>"
        f"<dt>LETTER</dt><ti>Smith &amp; Sons</ti><ot>{escaped}</ot></record></root>\n"
    ).encode()


def pages(number: int) -> list[str]:
    """One to three pages."""
    return [f"Document {number}\npage {page} of Smith & Sons" for page in range(1, 2 + number % 3)]


def write(folder: Path, count: int = 20) -> int:
    """`count` documents, of which every fourth has a text file; one is broken. The number of pages of the others."""
    total = 0
    for number in range(count):
        stem = f"aaa{number:02d}a00"
        place = folder / "imagesa" / "a" / "a" / "a" / stem
        place.mkdir(parents=True)
        texts = pages(number)
        (place / f"{stem}.tif").write_bytes(tiff(len(texts)))
        if stem == BROKEN:
            texts = [*texts, "a page too many"]
        else:
            total += len(texts)
        if number % 4 == 3 and stem != BROKEN:
            (place / f"{stem}.txt").write_text("\f".join(texts) + "\f", encoding="utf-8")
        else:
            (place / f"{stem}.xml").write_bytes(record(stem, texts))
    return total
