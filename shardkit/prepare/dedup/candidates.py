"""The second reading: rows whose key repeats. Equality is confirmed by sha256, and the keeper's virtues are collected."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from shardkit.digest import canonical_json
from shardkit.engine import Progress, map_ordered
from shardkit.errors import ConfigError
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.inputs import Inputs, Positions, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys, leading, repeated, words
from shardkit.prepare.dedup.signatures import Signed

_UNKNOWN = ("", "unknown")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidates:
    """K rows that may have a duplicate, ascending by number."""

    positions: Positions
    ids: Keys
    """[K, 2] example id."""
    equal: dict[str, Keys]
    """Level -> [K, 2] first 128 bits of the signature's sha256; zeros where the row matches nothing."""
    pictures: Keys
    """[K, 2] the same of the list of pixel ids."""
    transcribed: npt.NDArray[np.bool_]
    """[K] whether the text was read off the images (a relation of kind ocr)."""
    rank: npt.NDArray[np.int64]
    """[K] the better row has the lower rank, those of a reference lowest; no two are equal."""

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Part:
    positions: Positions
    digests: npt.NDArray[np.uint64]
    """[n, levels + 1, 2]"""
    ids: Keys
    virtues: npt.NDArray[np.int64]
    """[n, 2] pixels, characters of text."""
    ties: Keys
    """[n, 2] digest of the metadata, digest of what else may differ."""
    transcribed: npt.NDArray[np.bool_]


def _confirm(data: bytes | None) -> tuple[int, int]:
    if data is None:
        return 0, 0
    digest = hashlib.sha256(data).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")


def examine_slice(levels: tuple[str, ...], piece: Slice) -> _Part:
    """Confirmed digests and virtues of the rows of a slice; run by a worker."""
    digests, ids, virtues, ties, transcribed = [], [], [], [], []
    for facts in facts_of(piece):
        pictures = canonical_json(facts.pixels) if facts.pixels else None
        digests.append([*(_confirm(MATCHERS[level].signature(facts)) for level in levels), _confirm(pictures)])
        ids.append(facts.example_id)
        virtues.append([facts.num_pixels, len(facts.raw_text)])
        rest = canonical_json([facts.group, facts.stored])
        transcribed.append("ocr" in facts.kinds)
        ties.append([xxhash.xxh3_64_intdigest(facts.metadata.encode()), xxhash.xxh3_64_intdigest(rest)])
    return _Part(
        positions=piece.positions,
        digests=np.array(digests, np.uint64),
        ids=words(ids, 2),
        virtues=np.array(virtues, np.int64),
        ties=np.array(ties, np.uint64),
        transcribed=np.array(transcribed, np.bool_),
    )


def find(
    inputs: Inputs,
    signed: Signed,
    *,
    near: npt.NDArray[np.bool_],
    priority: Sequence[str],
    workers: int,
    on_progress: Progress,
) -> Candidates:
    """Read again the rows that may be duplicates.

    Args:
        near: [N] rows that may be near to another.
        priority: sources whose examples are rather kept, the first before the second.

    Raises:
        ConfigError: where a source of `priority` is not there.
    """
    levels = tuple(signed.keys)
    wanted = near | repeated(signed.pictures, signed.pictures != 0)
    for level in levels:
        wanted |= repeated(signed.keys[level], signed.removable[level])
    positions = np.flatnonzero(wanted)
    size = len(positions)
    digests = np.zeros((size, len(levels) + 1, 2), np.uint64)
    ids, ties = np.zeros((size, 2), np.uint64), np.zeros((size, 2), np.uint64)
    virtues, transcribed = np.zeros((size, 2), np.int64), np.zeros(size, np.bool_)
    total = sum(1 for _ in inputs.slices(positions))
    parts = map_ordered(partial(examine_slice, levels), inputs.slices(positions), workers=workers)
    for done, part in enumerate(parts, 1):
        place = np.searchsorted(positions, part.positions)
        digests[place], ids[place] = part.digests, part.ids
        virtues[place], ties[place], transcribed[place] = part.virtues, part.ties, part.transcribed
        on_progress(done, total, "confirming")
    favour = _favour(signed.names, priority)[signed.sources[positions]] if size else np.empty(0, np.int64)
    # Last key first: the place of a row decides only among rows that differ in nothing.
    order = np.lexsort(
        (
            ties[:, 1],
            ids[:, 1],
            ids[:, 0],
            ties[:, 0],
            -virtues[:, 1],
            ~_licensed(inputs, positions, ids),
            -virtues[:, 0],
            favour,
            positions < inputs.num_new,
        )
    )
    rank = np.empty(size, np.int64)
    rank[order] = np.arange(size)
    return Candidates(
        positions=positions,
        ids=ids,
        equal={level: digests[:, number] for number, level in enumerate(levels)},
        pictures=digests[:, -1],
        transcribed=transcribed,
        rank=rank,
    )


def _favour(names: tuple[str, ...], priority: Sequence[str]) -> npt.NDArray[np.int64]:
    for source in priority:
        if source not in names and names:
            raise ConfigError(
                f"--priority names the source {source!r}, which no input has", hint=f"sources are {', '.join(names)}"
            )
    place = {source: number for number, source in enumerate(priority)}
    return np.array([place.get(name, len(place)) for name in names], np.int64)


def _licensed(inputs: Inputs, positions: Positions, ids: Keys) -> npt.NDArray[np.bool_]:
    """[K] whether provenance states a licence for the example."""
    known = np.zeros(len(ids), np.bool_)
    for number, dataset in enumerate(inputs.datasets):
        own = slice(*np.searchsorted(positions, inputs.starts[number : number + 2]))
        table = dataset.table("provenance", ["example_id", "licence"])
        licence = pc.utf8_lower(pc.fill_null(table["licence"], ""))
        stated = table.filter(pc.invert(pc.is_in(licence, pa.array(_UNKNOWN))))
        known[own] = np.isin(ids[own, 0], leading(stated["example_id"]))
    return known
