"""Paragraphs that a site repeats on many of its documents: navigation, notices, calls to subscribe.

    rows that stay -> (paragraph of a site, row) in files by key -> sorted and counted one by one -> those over the limit

Every document counts a paragraph once, and documents that dedup leaves out do not count: copies of a page are duplicates,
and their paragraphs are no boilerplate. They are reported; lines.py takes them out of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import xxhash

from shardkit.digest import xxh3
from shardkit.engine import Progress, map_ordered
from shardkit.errors import OutputError
from shardkit.prepare.dedup.edges import Indices
from shardkit.prepare.dedup.inputs import Inputs, Positions, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys, group_starts
from shardkit.prepare.dedup.report import LISTED_TEXTS
from shardkit.prepare.dedup.signatures import Signed, key_of
from shardkit.prepare.ingest.group import group_key
from shardkit.store.schema import TABLES
from shardkit.text.excerpt import excerpt
from shardkit.text.normalize import normalize

LEAST_DOCUMENTS = 20
"""Fewer may be chance: a saying, a heading, a series of pages."""
LEAST_SHARE = 0.1
"""Of the site's documents. Navigation stands on most pages of a section; a heading such as "Notes" on some of a site."""
LEAST_CHARACTERS = 4
"""Of the compared form: what is shorter is the number of a list item, or a mark between two parts."""
_FILES_BITS = 6
"""Keys are counted in 2 ** 6 parts: a part of a billion paragraphs is 250 MB."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Boilerplate:
    table: pa.Table
    """tables/paragraphs: those in most documents first, then by site and digest."""
    holding: npt.NDArray[np.bool_]
    """[N] rows that hold at least one of them."""
    keys: Keys
    """Their keys, each with that of its site, ascending."""

    def report(self) -> dict[str, Any]:
        """paragraphs, sites, documents: how many; top: the first hundred."""
        return {
            "paragraphs": self.table.num_rows,
            "sites": len(self.table["site"].unique()),
            "documents": int(self.holding.sum()),
            "top": self.table.slice(0, LISTED_TEXTS).drop(["paragraph"]).to_pylist(),
        }


def find_boilerplate(
    inputs: Inputs,
    signed: Signed,
    kept: npt.NDArray[np.bool_],
    *,
    least: int,
    share: float,
    workers: int,
    scratch: Path,
    on_progress: Progress,
) -> Boilerplate:
    """Paragraphs in more than `least` documents of a site, and in more than `share` of them.

    Args:
        kept: [N] rows that count.
        scratch: a folder for 16 bytes a paragraph.

    Returns:
        the same whatever the workers and the order of rows.

    Raises:
        IntegrityError: where a shard is damaged.
        OutputError: where the scratch folder cannot be written.
    """
    # Captions, pages and dialogues repeat what they say for other reasons.
    rows = np.flatnonzero(kept & signed.documents)
    try:
        files, sites = _write(inputs, rows, workers, scratch, on_progress)
        _, place, sizes = np.unique(sites, return_inverse=True, return_counts=True)
        found, holding = _count(files, limit=np.maximum(least, share * sizes)[place])
    except OSError as error:
        raise OutputError.from_os(error, str(scratch)) from error
    pieces = inputs.slices(np.unique(found.first))
    jobs = ((piece, found.take(np.flatnonzero(np.isin(found.first, piece.positions)))) for piece in pieces)
    table = pa.Table.from_pylist(
        [
            {**row, "site_documents": int(sizes[place[row.pop("position")]])}
            for rows_of in map_ordered(_shown, jobs, workers=workers)
            for row in rows_of
        ],
        schema=TABLES["paragraphs"],
    ).sort_by([("documents", "descending"), ("site", "ascending"), ("paragraph", "ascending")])
    return Boilerplate(table=table, holding=holding, keys=np.sort(found.keys))


# ---------------------------------------------------------------------- documents and their paragraphs
@dataclass(frozen=True, kw_only=True, slots=True)
class _Document:
    position: int
    site: str
    paragraphs: tuple[str, ...]
    """Compared forms, each once; two at least."""


def paragraphs(texts: Sequence[str]) -> tuple[str, ...]:
    """The compared forms of the lines of text segments, each once; without those under LEAST_CHARACTERS."""
    lines = (normalize(line) for text in texts for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if len(line) >= LEAST_CHARACTERS))


def site_of(source: str, group: str | None, metadata: str) -> str:
    """The registered domain of the group where that is an address, else of the metadata's address, else the source."""
    return (group and _domain()("", {"url": group})) or _domain()("", _object(metadata)) or source


@lru_cache(maxsize=1)
def _domain() -> Callable[[str, Mapping[str, Any]], str | None]:
    return group_key("@domain", source="")


def _object(metadata: str) -> Mapping[str, Any]:
    value = orjson.loads(metadata)
    return value if isinstance(value, dict) else {}


def _documents(piece: Slice) -> Iterator[_Document]:
    """Documents of a slice with two paragraphs or more.

    Raises:
        IntegrityError: where the columns do not hold together.
    """
    for position, facts in zip(piece.positions.tolist(), facts_of(piece), strict=True):
        own = paragraphs(facts.texts)
        if len(own) > 1:
            yield _Document(position=position, site=site_of(facts.source, facts.group, facts.metadata), paragraphs=own)


def paragraph_key(site: int, paragraph: str) -> int:
    """Key of a paragraph of a site, whose own key seeds it."""
    return xxhash.xxh3_64_intdigest(paragraph.encode(), seed=site)


# ---------------------------------------------------------------------- counting
def _sign(piece: Slice) -> tuple[Positions, Keys, Indices, Keys]:
    """Positions of the documents of a slice, [n] keys of their sites, [n] numbers of their paragraphs, and [P] the
    keys of these; run by a worker."""
    positions, sites, sizes, keys = [], [], [], []
    for document in _documents(piece):
        site = key_of(document.site.encode())
        positions.append(document.position)
        sites.append(site)
        sizes.append(len(document.paragraphs))
        keys += [paragraph_key(site, paragraph) for paragraph in document.paragraphs]
    return (
        np.array(positions, np.int64),
        np.array(sites, np.uint64),
        np.array(sizes, np.int64),
        np.array(keys, np.uint64),
    )


def _write(
    inputs: Inputs, rows: Positions, workers: int, scratch: Path, on_progress: Progress
) -> tuple[list[Path], Keys]:
    """Files of (key, row), split by the first bits of the key; and [N] the key of each document's site, 0 for none."""
    files = [scratch / f"paragraphs-{number}.u64" for number in range(1 << _FILES_BITS)]
    sites = np.zeros(inputs.num_rows, np.uint64)
    total = sum(1 for _ in inputs.slices(rows))
    with ExitStack() as stack:
        handles: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in files]
        parts = map_ordered(_sign, inputs.slices(rows), workers=workers)
        for done, (positions, own, sizes, keys) in enumerate(parts, 1):
            sites[positions] = own
            pairs = np.stack([keys, np.repeat(positions, sizes).astype(np.uint64)], axis=1)
            part_of = (keys >> np.uint64(64 - _FILES_BITS)).astype(np.int64)
            order = np.argsort(part_of, kind="stable")
            borders = np.searchsorted(part_of[order], np.arange(len(files) + 1))
            for number, handle in enumerate(handles):
                handle.write(pairs[order[borders[number] : borders[number + 1]]].tobytes())
            on_progress(done, total, "reading paragraphs")
    return files, sites


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Repeated:
    """Paragraphs over the limit."""

    keys: Keys
    first: Positions
    """The first document that holds each."""
    documents: Indices

    def take(self, at: Indices) -> _Repeated:
        return _Repeated(keys=self.keys[at], first=self.first[at], documents=self.documents[at])


def _count(files: Sequence[Path], *, limit: npt.NDArray[np.float64]) -> tuple[_Repeated, npt.NDArray[np.bool_]]:
    """Paragraphs in more documents than the limit [N] of their documents, and [N] whether a document holds any."""
    holds = np.zeros(len(limit), np.bool_)
    keys, first, documents = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for path in files:
        pairs = np.fromfile(path, np.uint64).reshape(-1, 2)
        path.unlink()
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        own, rows = pairs[order, 0], pairs[order, 1].astype(np.int64)
        starts = group_starts(own)
        sizes = np.diff(np.append(starts, len(own)))
        over = sizes > limit[rows[starts]]
        holds[rows[np.repeat(over, sizes)]] = True
        keys.append(own[starts[over]])
        first.append(rows[starts[over]])
        documents.append(sizes[over])
    found = _Repeated(keys=np.concatenate(keys), first=np.concatenate(first), documents=np.concatenate(documents))
    return found, holds


def _shown(job: tuple[Slice, _Repeated]) -> list[dict[str, Any]]:
    """Site, digest and beginning of each paragraph, from the first document that holds it; run by a worker."""
    piece, found = job
    counts = dict(zip(found.keys.tolist(), found.documents.tolist(), strict=True))
    firsts = dict(zip(found.keys.tolist(), found.first.tolist(), strict=True))
    rows = []
    for document in _documents(piece):
        site = key_of(document.site.encode())
        for paragraph in document.paragraphs:
            key = paragraph_key(site, paragraph)
            if firsts.get(key) == document.position:
                rows.append(
                    {
                        "position": document.position,
                        "site": document.site,
                        "paragraph": xxh3(paragraph.encode()),
                        "documents": counts[key],
                        "excerpt": excerpt(paragraph),
                    }
                )
    return rows
