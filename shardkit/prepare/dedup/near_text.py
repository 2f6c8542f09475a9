"""Level `text`, near: texts that share most of their shingles.

    read all texts -> keys by band (a file) -> equal keys: candidate pairs -> read the candidates again: their sets
    (a file) -> exact Jaccard similarity of each pair

Equal keys find a pair (minhash.py), its sets decide. Held are 40 bytes a text and the edges; keys, pairs and sets lie
in files and are looked at band by band and block by block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from shardkit.prepare.dedup.overlap import SetFile, compare, trimmed
from shardkit.prepare.dedup.shingles import Ragged, distinct, shingles, tokens
from shardkit.prepare.dedup.texts import texts_of

VERSION = 1
THRESHOLD = 0.75
THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9)
FLOOR = 0.5
_JOB_ROWS = 8192


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
    """A shorter text is near to none: a few equal words make a template, not a copy."""
    min_ratio: float = 0.5
    """Tokens of the shorter text by those of the longer: sets do not tell how often a passage is repeated."""


PRESETS: dict[str, Preset] = {
    "web": Preset(width=5, bands=20, rows=6, threshold=THRESHOLD),
    "ocr": Preset(width=2, bands=28, rows=4, threshold=0.6),
}
"""`web`: copies and edits of a page; `ocr`: several readings of a page, with an error in every tenth word."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Search:
    """What was compared and found."""

    edges: NearEdges
    num_compared: int
    """Texts that are long enough."""
    num_candidates: int
    """Pairs with an equal key."""
    num_large: int
    """Buckets with too many texts to pair each with each, over all bands."""
    crowded: npt.NDArray[np.bool_]
    """[U] texts that were in such a bucket."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """What every step is told."""

    inputs: Inputs
    positions: Positions
    preset: Preset
    workers: int
    scratch: Path
    on_progress: Progress

    def jobs(self, chosen: Indices) -> Iterator[Slice]:
        """Slices of some positions, of a size that keeps all workers busy and their answers small. They come as the rows
        lie on disk, which need not be the order of the positions."""
        for piece in self.inputs.slices(self.positions[chosen]):
            for start in range(0, len(piece.rows), _JOB_ROWS):
                yield piece.only(np.arange(start, min(start + _JOB_ROWS, len(piece.rows))))

    def numbers(self, chosen: Indices) -> Indices:
        """The texts of the jobs, in their order."""
        of_jobs = [piece.positions for piece in self.jobs(chosen)]
        return np.searchsorted(self.positions, np.concatenate([np.empty(0, np.int64), *of_jobs]))


def find(
    inputs: Inputs, positions: Positions, *, preset: Preset, workers: int, scratch: Path, on_progress: Progress
) -> NearEdges:
    """The edges of `search`."""
    return search(inputs, positions, preset=preset, workers=workers, scratch=scratch, on_progress=on_progress).edges


def search(
    inputs: Inputs, positions: Positions, *, preset: Preset, workers: int, scratch: Path, on_progress: Progress
) -> Search:
    """Pairs of texts with a Jaccard similarity of at least `preset.floor`, as far as the bands find them.

    Where many texts share a key, each is compared with those of them that have most tokens (bucket_pairs).

    Args:
        positions: [U] ascending rows, one for each distinct compared text; edges number them from 0 on.
        scratch: a folder for 8 bytes a text and band, and 8 bytes a shingle of each candidate.

    Returns:
        edges with detail [E, 2], the tokens of each; the same whatever the workers.

    Raises:
        IntegrityError: where a shard is damaged.
        OutputError: where the scratch folder cannot be written.
    """
    run = _Run(
        inputs=inputs,
        positions=positions,
        preset=preset,
        workers=workers,
        scratch=scratch,
        on_progress=on_progress,
    )
    with _writing(scratch):
        band_file = BandFile(scratch / "bands.u64", bands=preset.bands, size=len(positions))
        num_tokens, order, place = _sign_all(run, band_file)
        pairs, num_large = PairSet(scratch), 0
        crowd = np.zeros(len(positions), np.bool_)
        for done, keys in enumerate(band_file, 1):
            one, two, larger = bucket_pairs(keys[place[order]], crowd=crowd)
            one, two = order[one], order[two]
            pairs.add(np.minimum(one, two), np.maximum(one, two))
            num_large += larger
            on_progress(done, preset.bands, "comparing keys")
        edges, num_candidates = _verify(run, pairs)
    crowded = np.zeros(len(positions), np.bool_)
    crowded[order[crowd]] = True
    return Search(
        edges=edges,
        num_compared=int((num_tokens >= preset.min_tokens).sum()),
        num_candidates=num_candidates,
        num_large=num_large,
        crowded=crowded,
    )


def evidence(score: float, detail: Sequence[int]) -> str:
    return f"Jaccard {score:.4f} of shingles; {detail[0]} and {detail[1]} tokens"


# ---------------------------------------------------------------------- first reading
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Signed:
    keys: Keys
    """[bands, n]"""
    num_tokens: npt.NDArray[np.int32]
    content: Keys
    """[n] decides between texts of as many tokens."""


def sign_slice(preset: Preset, piece: Slice) -> _Signed:
    """Keys of the texts of a slice; run by a worker."""
    keys, num_tokens, content = [], [], []
    for texts in texts_of(piece):
        words = tokens(texts)
        own = band_keys(shingles(words, preset.width), bands=preset.bands, rows=preset.rows)
        own[:, words.sizes < preset.min_tokens] = 0
        keys.append(own)
        num_tokens.append(words.sizes.astype(np.int32))
        content += [xxhash.xxh3_64_intdigest(text.encode()) for text in texts]
    return _Signed(
        keys=np.concatenate(keys, axis=1), num_tokens=np.concatenate(num_tokens), content=np.array(content, np.uint64)
    )


def _sign_all(run: _Run, band_file: BandFile) -> tuple[npt.NDArray[np.int32], Indices, Indices]:
    """[U] tokens of each text; the texts from the longest on; and the place of each in the file of keys, which this fills."""
    everything = np.arange(len(run.positions))
    numbers = run.numbers(everything)
    num_tokens, content = np.zeros(len(run.positions), np.int32), np.zeros(len(run.positions), np.uint64)
    total, start = sum(1 for _ in run.jobs(everything)), 0
    parts = map_ordered(partial(sign_slice, run.preset), run.jobs(everything), workers=run.workers)
    for done, part in enumerate(parts, 1):
        own = numbers[start : start + len(part.content)]
        num_tokens[own], content[own] = part.num_tokens, part.content
        band_file.put(start, part.keys)
        start += len(own)
        run.on_progress(done, total, "reading texts")
    place = np.empty(len(numbers), np.int64)
    place[numbers] = everything
    return num_tokens, np.lexsort((content, -num_tokens)), place


# ---------------------------------------------------------------------- second reading
def write_sets(preset: Preset, job: tuple[Slice, Path]) -> tuple[Path, Indices, npt.NDArray[np.int32]]:
    """Write the sets of the texts of a slice to a file; their sizes, and the texts' tokens. Run by a worker."""
    piece, path = job
    sizes, num_tokens = [], []
    with path.open("wb") as file:
        for texts in texts_of(piece):
            words = tokens(texts)
            hashes = shingles(words, preset.width)
            sets = distinct(Ragged(values=trimmed(hashes.values), starts=hashes.starts))
            file.write(sets.values.tobytes())
            sizes.append(sets.sizes)
            num_tokens.append(words.sizes.astype(np.int32))
    return path, np.concatenate(sizes), np.concatenate(num_tokens)


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
    """The edges among pairs of indices into `positions` that were found in another way than by keys (complete.py)."""
    run = _Run(
        inputs=inputs,
        positions=positions,
        preset=preset,
        workers=workers,
        scratch=scratch,
        on_progress=on_progress,
    )
    with _writing(scratch):
        return _verify(run, pairs)[0]


@contextmanager
def _writing(scratch: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError.from_os(error, str(scratch)) from error


def _verify(run: _Run, pairs: PairSet) -> tuple[NearEdges, int]:
    """The pairs that are near, and how many there were."""
    wanted, num_pairs = np.zeros(len(run.positions), np.bool_), 0
    for one, two in pairs.blocks():
        wanted[one] = wanted[two] = True
        num_pairs += len(one)
    sets, num_tokens = _read_sets(run, np.flatnonzero(wanted))
    floor = run.preset.floor
    jobs = (
        block
        for one, two in pairs.blocks()
        for block in sets.blocks(*_comparable(one, two, num_tokens, run.preset), floor=floor)
    )
    ones, twos, scores = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    for done, (one, two, score) in enumerate(map_ordered(partial(compare, floor), jobs, workers=run.workers), 1):
        ones.append(one)
        twos.append(two)
        scores.append(score)
        run.on_progress(done, None, "comparing candidates")
    one, two, score = np.concatenate(ones), np.concatenate(twos), np.concatenate(scores)
    order = np.lexsort((two, one))
    one, two = one[order], two[order]
    detail = np.stack([num_tokens[one], num_tokens[two]], axis=1)
    return NearEdges(one=one, two=two, score=score[order], detail=detail), num_pairs


def _read_sets(run: _Run, chosen: Indices) -> tuple[SetFile, npt.NDArray[np.int32]]:
    """Sets of the chosen texts, and [U] tokens, known of these."""
    sets = SetFile(run.scratch / "sets.u64", len(run.positions))
    num_tokens = np.zeros(len(run.positions), np.int32)
    total, start = sum(1 for _ in run.jobs(chosen)), 0
    numbers = run.numbers(chosen)
    jobs = ((piece, run.scratch / f"sets-{number}.u64") for number, piece in enumerate(run.jobs(chosen)))
    parts = map_ordered(partial(write_sets, run.preset), jobs, workers=run.workers)
    for done, (path, sizes, own_tokens) in enumerate(parts, 1):
        own = numbers[start : start + len(sizes)]
        sets.append(own, sizes, path)
        num_tokens[own] = own_tokens
        start += len(sizes)
        run.on_progress(done, total, "reading candidates")
    return sets, num_tokens


def _comparable(
    one: Indices, two: Indices, num_tokens: npt.NDArray[np.int32], preset: Preset
) -> tuple[Indices, Indices]:
    """The pairs of texts that are long enough, and as long as each other within the preset's ratio."""
    short, long = np.sort([num_tokens[one], num_tokens[two]], axis=0)
    fitting = (short >= preset.min_tokens) & (short >= preset.min_ratio * long)
    return one[fitting], two[fitting]
