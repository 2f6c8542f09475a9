"""auto: which format an input is of, by what it shows.

Each format has a rule over a sample. They are tried tier by tier in the order of TIERS; the first tier in which a rule
holds decides. Of a family (dialects of layouts, kinds of captions) the one dialect that shows is taken, and the format
that reads them all where several do. Where formats of two families hold, the input is refused, and both are named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from shardkit.errors import SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.line_pairs import CAPTIONS, partner
from shardkit.prepare.ingest.containers.tars import suffix
from shardkit.prepare.ingest.formats import chat, docbank, html, json_rows, markdown, mmocr, paddleocr, quads, word_list
from shardkit.prepare.ingest.formats.caption import CAPTION_HEADERS, IMAGE_HEADERS, is_list
from shardkit.prepare.ingest.formats.chat_spellings import exchanged
from shardkit.prepare.ingest.formats.paddleocr import names_image
from shardkit.prepare.ingest.formats.text import LABELS as TEXT_FILES
from shardkit.prepare.ingest.listing import next_step
from shardkit.prepare.ingest.reasons import plain
from shardkit.prepare.ingest.sample import ROWS, Sample, take

AUTO = "auto"
Rule = Callable[[Sample], bool]

_ROOT = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?(alto|PcGts|record|document)[\s>/]")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_OCR_PAGE = re.compile(rb"class\s*=\s*[\"'][^\"']*\bocr_page\b")
_CDIP = re.compile(rb"<(?:ot|ocr_text|LTDLWOCR)>")
_CAPTION_KEY = re.compile(rb"\"(?:caption|captions|top_caption|alt_text)\"\s*:")
_LABEL_KEY = re.compile(rb"\"(?:lines|text|words|reading_order|rec_texts)\"\s*:")
_STEMS = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*\{\s*\"[^\"]+\"\s*:\s*\[\s*\{[^{}]*\"transcription\"\s*:")
"""ArT and LSVT: the lines of each picture by its stem."""
_FORMS = re.compile(rb"\"documents\"\s*:\s*\[\s*\{")
_PICTURE_KEY = re.compile(rb"\.(?:jpe?g|png|tiff?|bmp|webp|gif)\"\s*:", re.IGNORECASE)
_TEXT_LIST = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*\[\s*\{(?=[^{}]{0,2000}\"text\"\s*:)(?=[^{}]{0,2000}\.(?:jpe?g|png|tiff?)\")"
)
_FETCHED = re.compile(rb"\"sha256\"\s*:|\"original_width\"\s*:")
"""What img2dataset writes of a picture beside it."""
_ODD = (".jp2", ".j2k", ".jpx", ".pbm", ".pgm", ".ppm", ".pnm")
_ADDRESSES = ("url", "image_url", "img_url")
_BESIDE = frozenset(
    ["similarity", "nsfw", "punsafe", "width", "height", "key", "status", "sample_id", "license", "top_caption", "hash"]
)
"""Columns that stand beside addresses of pictures, and not beside addresses of pages."""
_ASIDE = frozenset(["readme", "license", "licence", "source", "notice", "changelog", "contributing"])
"""Stems of files that describe a set."""


def resolved(config: IngestConfig) -> IngestConfig:
    """`config` with the format that `auto` finds; any other format stays.

    Raises:
        SourceError: where no format is found, or more than one.
    """
    return replace(config, format=detected(take(config), config)) if config.format == AUTO else config


def detected(sample: Sample, config: IngestConfig) -> str:
    """The format of a sample.

    Raises:
        SourceError: where no rule holds, or rules of two families.
    """
    where = ", ".join(sorted(map(str, config.paths)))
    for tier in TIERS:
        found = [name for name in tier if RULES[name](sample)]
        if not found:
            continue
        families = {FAMILIES.get(name, name) for name in found}
        if len(families) > 1:
            raise _ambiguous(_leading(found), sample, where)
        family = families.pop()
        special = [name for name in found if name != family]
        return special[0] if len(special) == 1 else family
    if sample.errors:
        raise sample.errors[0]
    hint = next_step(sample.names, "name the format; `shardkit ingest --help` has the list")
    odd = _odd_pictures(sample)
    if odd:
        hint = f"pictures are not looked for under names like {plain(odd[0])}: link them as .png, or name the format"
    raise SourceError("no known format shows in the input", where=where, hint=hint)


def _leading(found: Iterable[str]) -> list[str]:
    """One name a family, in the order of `found`."""
    names: dict[str, str] = {}
    for name in found:
        names.setdefault(FAMILIES.get(name, name), name)
    return list(names.values())


def _ambiguous(found: list[str], sample: Sample, where: str) -> SourceError:
    """The error that names the formats, and for each a file that shows it where they show in different ones."""
    # All names may be those of pictures and labels: a few hundred say enough, and tables are among them.
    told = [name for name, _ in (*sample.row_files, *sample.heads)]
    shown = [next((n for n in told if RULES[kind](sample.of_file(n))), "") for kind in found]
    parted = len(set(shown)) == len(shown)
    names = [f"{kind} ({plain(name)})" if parted and name else kind for kind, name in zip(found, shown, strict=True)]
    return SourceError(
        f"the input may be of the formats {' and '.join(names)}",
        where=where,
        hint=f"name the one that is meant: shardkit ingest {found[0]} ..."
        + (", or give the files that are meant alone" if parted else ""),
    )


# --------------------------------------------------------------------------- rows
def _any_row(sample: Sample, holds: Callable[[dict[str, Any]], bool]) -> bool:
    return any(map(holds, sample.rows))


def _any_entry(sample: Sample, holds: Callable[[dict[str, Any]], bool]) -> bool:
    """`_any_row`, with the first entries of JSON arrays."""
    arrays = (json_rows.first_rows(head, ROWS) for head in sample.heads_of(".json"))
    return _any_row(sample, holds) or any(holds(row) for rows in arrays for row in rows)


def _obelics(sample: Sample) -> bool:
    return _any_entry(
        sample,
        lambda row: (
            isinstance(row.get("texts"), list)
            and isinstance(row.get("images"), list)
            and exchanged(row["texts"]) is None
        ),
    )


def _mmc4(sample: Sample) -> bool:
    return _any_entry(sample, lambda row: isinstance(row.get("text_list"), list))


def _chat(sample: Sample) -> bool:
    in_tables = not sample.tables.isdisjoint({"csv", "tsv"})
    return _any_entry(sample, lambda row: _is_chat(row) or (not in_tables and _is_talk(row)))


def _is_chat(row: dict[str, Any]) -> bool:
    return (
        any(isinstance(row.get(name), list) for name in ("conversations", "messages"))
        or all(row.get(name) for name in ("chosen", "rejected"))
        or all(isinstance(row.get(name), str) for name in ("instruction", "output"))
    )


def _is_talk(row: dict[str, Any]) -> bool:
    """A dialogue in other fields, which count where the row is neither a text nor a caption by its own."""
    return not isinstance(row.get("text"), str) and chat.shows(row) and not _is_caption(row)


def _rows(sample: Sample) -> bool:
    return _any_entry(
        sample,
        lambda row: (
            isinstance(row.get("text"), str) and (row.get("images") is not None or row.get("ocr_labels") is not None)
        ),
    )


def _text(sample: Sample) -> bool:
    if _any_entry(sample, lambda row: isinstance(row.get("text"), str)):
        return not _caption_rows(sample)
    alone = not sample.images and not _odd_pictures(sample)
    return not sample.rows and bool(_described(sample, TEXT_FILES)) and alone


def _odd_pictures(sample: Sample) -> list[str]:
    """Pictures of rare kinds beside texts of their stem, for which nothing would look: no text is to go without them."""
    texts = {name.lower().removesuffix(".txt").removesuffix(".gt") for name in sample.with_suffix(".txt")}
    return [name for name in sample.with_suffix(*_ODD) if os.path.splitext(name.lower())[0] in texts]


# --------------------------------------------------------------------------- captions
def _caption(sample: Sample) -> bool:
    # A map of pictures to texts is one of labels, too, unless it speaks of captions.
    told = [(name, head) for name, head in sample.heads if not _PICTURE_KEY.search(head) or _CAPTION_KEY.search(head)]
    documents = (is_list(name, head) for name, head in told if name.lower().endswith((".json", ".txt", ".token")))
    lines = any(name.lower().endswith(CAPTIONS) and partner(name) in sample.names for name in sample.names)
    return _webdataset(sample) or _caption_rows(sample) or _caption_files(sample) or lines or any(documents)


def _webdataset(sample: Sample) -> bool:
    kinds = {suffix(name) for name in sample.members}
    return names_any_image(sample.members) and not kinds.isdisjoint(("txt", "json", "caption", "text"))


def names_any_image(names: Iterable[str]) -> bool:
    """Whether a picture is among the names."""
    return any(map(names_image, names))


def _caption_rows(sample: Sample) -> bool:
    if not sample.rows:
        return False
    if sample.tables & {"csv", "tsv"}:
        return not _quads(sample)
    return _any_row(sample, _is_caption)


def _is_caption(row: dict[str, Any]) -> bool:
    """A column of pictures and one of texts; an address alone must look like that of a picture."""
    folded = {str(key).casefold(): value for key, value in row.items()}
    if not any(isinstance(folded.get(name), str | list) for name in CAPTION_HEADERS):
        return False
    for name in IMAGE_HEADERS:
        value = folded.get(name)
        if isinstance(value, bytes) or (isinstance(value, dict) and "bytes" in value):
            return True
        if isinstance(value, str) and names_image(value.split("?", 1)[0]):
            return True
        if isinstance(value, str) and name in _ADDRESSES and not _BESIDE.isdisjoint(folded):
            return True
    return False


def _caption_files(sample: Sample) -> bool:
    if sample.labelled(".caption"):
        return True
    if any(_CAPTION_KEY.search(head) for _, head in sample.labelled(".json")):
        return True
    # A text beside a picture does not say what it is to the picture, unless something else is written there as well.
    texts = any(suffix(image) not in ("tif", "tiff") for image, _ in sample.labelled(".txt"))
    return texts and not sample.with_suffix(".gt.txt") and not any(RULES[name](sample) for name in DIALECTS)


# --------------------------------------------------------------------------- pages and lines
def _ocr(sample: Sample) -> bool:
    if sample.with_suffix(".gt.txt") and sample.images:
        return True
    if (
        sample.labelled(".txt")
        and not sample.labelled(".caption")
        and not any(_FETCHED.search(head) for _, head in sample.labelled(".json"))
    ):
        return True  # a caption as well, unless the picture or the text tells
    if any(_LABEL_KEY.search(head) and not _CAPTION_KEY.search(head) for _, head in sample.labelled(".json")):
        return True
    heads = sample.heads_of(".json")
    if any(b'"input_path"' in head and b'"rec_texts"' in head for head in heads):
        return True
    if any(word_list.quoted(line) is not None for text in _texts(sample, ".txt") for line in _whole_lines(text)[:1]):
        return True
    if any(_PICTURE_KEY.search(head) and not _CAPTION_KEY.search(head) for head in heads):
        return True
    patterns = (_FORMS, _STEMS)
    return any(_TEXT_LIST.match(head) or any(one.search(head) for one in patterns) for head in heads)


def _root(sample: Sample, *roots: bytes) -> bool:
    found = (_ROOT.search(_COMMENT.sub(b"", head)) for head in sample.heads_of(".xml"))
    return any(match is not None and match[1] in roots for match in found)


def _hocr(sample: Sample) -> bool:
    return any(_OCR_PAGE.search(head) for head in sample.heads_of(".hocr", ".html", ".htm", ".xhtml", ".xml"))


def _texts(sample: Sample, *suffixes: str) -> list[str]:
    return [head.decode("utf-8", "replace").removeprefix("\ufeff") for head in sample.heads_of(*suffixes)]


def _whole_lines(text: str) -> list[str]:
    """The lines of a beginning that are not blank, without the last one, which may be cut."""
    lines = [line for line in text.split("\n") if line.strip()]
    return lines[:-1] or lines


def _docbank(sample: Sample) -> bool:
    return any(map(docbank.is_page, _texts(sample, ".txt")))


def _quads(sample: Sample) -> bool:
    return any(map(quads.are_quads, _texts(sample, ".txt", ".csv")))


def _sroie(sample: Sample) -> bool:
    keys = (b'"company"', b'"total"')
    return _quads(sample) and any(all(key in head for key in keys) for head in sample.heads_of(".json", ".txt"))


def _icdar(sample: Sample) -> bool:
    return _quads(sample) and not _sroie(sample)


def _iit_cdip(sample: Sample) -> bool:
    records = any(_CDIP.search(head) for head in sample.heads_of(".xml"))
    return records or any("pgNbr=" in text for text in _texts(sample, ".txt"))


def _funsd(sample: Sample) -> bool:
    heads = sample.heads_of(".json")
    return any(re.search(rb"\"form\"\s*:\s*\[", head) and b'"words"' in head for head in heads)


def _paddleocr(sample: Sample) -> bool:
    firsts = (
        next((line for line in text.splitlines() if line.strip()), "") for text in _texts(sample, ".txt", ".json")
    )
    return any(map(paddleocr.is_line, firsts))


def _mmocr(sample: Sample) -> bool:
    documents = any(
        b'"data_list"' in head or (b'"imgs"' in head and b'"anns"' in head) for head in sample.heads_of(".json")
    )
    lists = any(
        (text.lstrip().startswith("{") and '"file' in text[:200]) or word_list.is_spaced(_whole_lines(text))
        for text in _texts(sample, ".txt")
    )
    return documents or lists or _any_row(sample, lambda row: mmocr.is_entry(row) and "file_name" not in row)


def _synthtext(sample: Sample) -> bool:
    return bool(sample.with_suffix(".mat"))


# --------------------------------------------------------------------------- pages of the web
def _described(sample: Sample, suffixes: tuple[str, ...]) -> list[str]:
    """Files of these suffixes; those that only describe a set count where nothing else is there."""
    names = sample.with_suffix(*suffixes)
    told = [name for name in names if name.rpartition("/")[2].split(".")[0].lower() not in _ASIDE]
    return told or (names if len(names) == len(sample.names) else [])


def _markdown(sample: Sample) -> bool:
    return not sample.rows and bool(_described(sample, markdown.LABELS))


def _html(sample: Sample) -> bool:
    return not sample.rows and bool(_described(sample, html.LABELS)) and not _hocr(sample)


RULES: dict[str, Rule] = {
    "obelics": _obelics,
    "mmc4": _mmc4,
    "chat": _chat,
    "rows": _rows,
    "alto": lambda sample: _root(sample, b"alto"),
    "page": lambda sample: _root(sample, b"PcGts"),
    "hocr": _hocr,
    "docbank": _docbank,
    "funsd": _funsd,
    "icdar": _icdar,
    "sroie": _sroie,
    "iit-cdip": _iit_cdip,
    "paddleocr": _paddleocr,
    "mmocr": _mmocr,
    "synthtext": _synthtext,
    "ocr": _ocr,
    "webdataset": _webdataset,
    "caption": _caption,
    "markdown": _markdown,
    "html": _html,
    "text": _text,
}
"""Format -> whether a sample shows it."""

DIALECTS = (
    "alto", "page", "hocr", "docbank", "funsd", "icdar", "sroie", "iit-cdip", "paddleocr", "mmocr", "synthtext",
)  # fmt: skip
"""Formats of pages and lines that one layout marks; `ocr` reads them all."""
FAMILIES = {**dict.fromkeys(DIALECTS, "ocr"), "webdataset": "caption"}
"""Format -> the one that reads it among others."""

TIERS = (
    ("obelics", "mmc4", "chat", "rows"),
    (*DIALECTS, "ocr", "webdataset", "caption"),
    ("markdown", "html", "text"),
)
"""Rows that only one format has; pictures with what is said or written on them; texts."""
