"""Level `text`, near: texts that share most of their shingles.

    read all texts -> band keys (file) -> equal keys: candidate pairs -> read the candidates again: their sets (file)
    -> exact Jaccard of each pair

A pair is found by equal keys (minhash.py) and decided by its sets. Held in memory are 20 bytes a text and the edges
that are found; keys, pairs and sets lie in files, and are looked at band by band and block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from shardkit.engine import Progress, map_ordered
from shardkit.errors import OutputError
from shardkit.prepare.dedup.buckets import BandFile, Indices, PairSet, bucket_pairs
from shardkit.prepare.dedup.edges import NearEdges
from shardkit.prepare.dedup.inputs import Inputs, Positions, Slice
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.minhash import band_keys
from shardkit.prepare.dedup.shingles import distinct, shingles, tokens
from shardkit.prepare.dedup.texts import texts_of

VERSION = 1
FLOOR = 0.5
THRESHOLD = 0.75
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    width: int
    """Tokens of a shingle."""
    bands: int
    rows: int
    """Values of the signature in a band."""
    threshold: float
    """Jaccard similarity from which two texts are duplicates."""
    floor: float = FLOOR
    """Pairs below it are not answered."""
    min_tokens: int = 20
    """Shorter texts are near to none: a few equal words make a template, not a copy."""
    min_ratio: float = 0.5
    """Tokens of the shorter text to those of the longer: sets do not tell how often a passage is repeated."""


PRESETS: dict[str, Preset] = {
    "web": Preset(width=5, bands=14, rows=8, threshold=THRESHOLD),
    "ocr": Preset(width=2, bands=28, rows=4, threshold=0.6),
}
"""`web`: copies and edits of a page; `ocr`: several readings of a page, with errors in every tenth word."""

_JOB_ROWS = 8192
_JOB_PAIRS = 4096
_JOB_SHINGLES = 1 << 20
_PAIR_BITS = np.uint64(12)
"""A set holds the upper 52 bits of its hashes; the place of a pair among _JOB_PAIRS takes the other 12."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Search:
    """What was looked at and found."""

    edges: NearEdges
    num_compared: int
    """Texts that are long enough."""
    num_candidates: int
    """Pairs whose sets were compared."""
    num_large: int
    """Buckets with too many texts to pair each with each."""


def find(
    inputs: Inputs, positions: Positions, *, preset: Preset, workers: int, scratch: Path, on_progress: Progress
) -> NearEdges:
    """Near pairs among texts; see `search`."""
    return search(
        inputs, positions, preset=preset, workers=workers, scratch=scratch, on_progress=on_progress
    ).edges


def evidence(score: float, detail: Sequence[int]) -> str:
    return f"shingles: Jaccard {score:.4f}; {detail[0]} and {detail[1]} tokens"


def search(
    inputs: Inputs, positions: Positions, *, preset: Preset, workers: int, scratch: Path, on_progress: Progress
) -> Search:
    """Pairs of texts with a Jaccard similarity of at least `preset.floor`, as far as the bands find them.

    Texts that share a key with many (bucket_pairs) are compared with those of them that have most tokens.

    Args:
        positions: [U] ascending rows, one for each distinct compared text; edges number them from 0 on.
        scratch: a folder for files of about 8 bytes a band and text, and 8 bytes a shingle of each candidate.

    Returns:
        edges with detail [E, 2], tokens of each; the same for every number of workers.

    Raises:
        IntegrityError: where a shard is damaged.
        OutputError: where the scratch folder cannot be written.
    """
    try:
        band_file = BandFile(scratch / "bands.u64", bands=preset.bands, size=len(positions))
        num_tokens, order = _sign_all(inputs, positions, band_file, preset, workers, on_progress)
        pairs = PairSet(scratch)
        num_large = 0
        for done, keys in enumerate(band_file, 1):
            one, two, larger = bucket_pairs(keys[order])
            one, two = order[one], order[two]
            alike = _comparable(num_tokens[one], num_tokens[two], preset.min_ratio)
            pairs.add(np.minimum(one, two)[alike], np.maximum(one, two)[alike])
            num_large += larger
            on_progress(done, preset.bands, "comparing keys")
        edges, num_candidates = _verified(inputs, positions, pairs, num_tokens, preset, workers, scratch, on_progress)
    except OSError as error:
        raise OutputError.from_os(error, str(scratch)) from error
    num_compared = int((num_tokens >= preset.min_tokens).sum())
    return Search(edges=edges, num_compared=num_compared, num_candidates=num_candidates, num_large=num_large)


def verify(
    inputs: Inputs,
    positions: Positions,
    pairs: PairSet,
    *,
    preset: Preset,
    workers: int,
    scratch: Path,
    on_progress: Progress,
) -> NearEdges:
    """The pairs, of numbers of `positions`, that are near: for a caller who has candidates of its own."""
    raise NotImplementedError


# ---------------------------------------------------------------------- first reading
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Signed:
    positions: Positions
    keys: Keys
    """[bands, n]"""
    num_tokens: npt.NDArray[np.int32]
    content: Keys
    """[n] of the text: decides between texts of as many tokens."""


def _jobs(inputs: Inputs, positions: Positions) -> Iterator[Slice]:
    """Slices of a size that keeps all workers busy and their answers small."""
    for piece in inputs.slices(positions):
        for start in range(0, len(piece.rows), _JOB_ROWS):
            yield piece.only(np.arange(start, min(start + _JOB_ROWS, len(piece.rows))))


def _num_jobs(inputs: Inputs, positions: Positions) -> int:
    return sum(-(-len(piece.rows) // _JOB_ROWS) for piece in inputs.slices(positions))


def sign_slice(preset: Preset, piece: Slice) -> _Signed:
    """Keys of the texts of a slice; run by a worker."""
    texts = texts_of(piece)
    words = tokens(texts)
    num_tokens = words.sizes.astype(np.int32)
    keys = band_keys(shingles(words, preset.width), bands=preset.bands, rows=preset.rows)
    keys[:, num_tokens < preset.min_tokens] = 0
    content = [xxhash.xxh3_64_intdigest(text.encode()) for text in texts]
    return _Signed(positions=piece.positions, keys=keys, num_tokens=num_tokens, content=np.array(content, np.uint64))


def _sign_all(
    inputs: Inputs,
    positions: Positions,
    band_file: BandFile,
    preset: Preset,
    workers: int,
    on_progress: Progress,
) -> tuple[npt.NDArray[np.int32], Indices]:
    """[U] tokens of each text, and the texts from the longest on."""
    num_tokens, content = np.zeros(len(positions), np.int32), np.zeros(len(positions), np.uint64)
    total = _num_jobs(inputs, positions)
    parts = map_ordered(partial(sign_slice, preset), _jobs(inputs, positions), workers=workers)
    for done, part in enumerate(parts, 1):
        # The rows of a slice follow each other among `positions`.
        start = int(np.searchsorted(positions, part.positions[0]))
        own = slice(start, start + len(part.positions))
        num_tokens[own], content[own] = part.num_tokens, part.content
        band_file.put(start, part.keys)
        on_progress(done, total, "reading texts")
    return num_tokens, np.lexsort((content, -num_tokens))


# ---------------------------------------------------------------------- second reading
def set_slice(preset: Preset, piece: Slice) -> tuple[Keys, Indices]:
    """Sets of the texts of a slice, one after the other, and their sizes; run by a worker."""
    sets = distinct(shingles(tokens(texts_of(piece)), preset.width))
    return sets.values, sets.sizes


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Block:
    """P pairs whose sets are compared at a time."""

    path: Path
    begin: Indices
    """[P, 2] where the sets begin in the file, in words."""
    size: Indices
    """[P, 2]"""


def compare_block(block: _Block) -> npt.NDArray[np.float64]:
    """[P] Jaccard similarity of the sets; run by a worker.

    All first sets are laid one after the other, all second ones too, each hash behind the place of its pair: both rows
    ascend, so that a stable sort of the two merges them, and what stands twice is shared.
    """
    stored = np.memmap(block.path, np.uint64, "r")
    ones = _laid_out(stored, block.begin[:, 0], block.size[:, 0])
    twos = _laid_out(stored, block.begin[:, 1], block.size[:, 1])
    both = np.concatenate([ones, twos])
    both.sort(kind="stable")
    twice = both[1:][both[1:] == both[:-1]]
    shared = np.bincount((twice >> (np.uint64(64) - _PAIR_BITS)).astype(np.int64), minlength=len(block.begin))
    return shared / (block.size.sum(axis=1) - shared)


def _laid_out(stored: Keys, begin: Indices, size: Indices) -> Keys:
    ends = np.cumsum(size)
    places = np.arange(ends[-1]) + np.repeat(begin - (ends - size), size)
    pair = np.repeat(np.arange(len(size), dtype=np.uint64) << (np.uint64(64) - _PAIR_BITS), size)
    return (stored[places] >> _PAIR_BITS) | pair


def _verified(
    inputs: Inputs,
    positions: Positions,
    pairs: PairSet,
    num_tokens: npt.NDArray[np.int32],
    preset: Preset,
    workers: int,
    scratch: Path,
    on_progress: Progress,
) -> tuple[NearEdges, int]:
    wanted, num_pairs = np.zeros(len(positions), np.bool_), 0
    for one, two in pairs.blocks():
        wanted[one] = wanted[two] = True
        num_pairs += len(one)
    path = scratch / "sets.u64"
    begin, size = np.zeros(len(positions), np.int64), np.zeros(len(positions), np.int64)
    chosen = np.flatnonzero(wanted)
    total = _num_jobs(inputs, positions[chosen])
    parts = map_ordered(partial(set_slice, preset), _jobs(inputs, positions[chosen]), workers=workers)
    done_rows, done_words = 0, 0
    with path.open("wb") as file:
        for done, (values, sizes) in enumerate(parts, 1):
            own = chosen[done_rows : done_rows + len(sizes)]
            begin[own] = done_words + np.cumsum(sizes) - sizes
            size[own] = sizes
            file.write(values.tobytes())
            done_rows += len(sizes)
            done_words += len(values)
            on_progress(done, total, "reading candidates")
    ones, twos, scores = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    done_pairs = 0
    blocks, sent = _blocks(path, pairs, begin, size, preset), list[tuple[Indices, Indices]]()
    ...
