"""Rows that stay and are changed: documents that lose repeated lines, keepers that get captions of what goes.

    pass 1   texts alone, no image is read      ->  which rows change, which have nothing left, how many bytes remain
    pass 2   rewrite.py                         ->  the changed rows in shards of the output

Both passes ask `changed` here, so they agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.engine import Progress, map_ordered
from shardkit.errors import IntegrityError, OutputError
from shardkit.prepare.dedup.boilerplate import Boilerplate, paragraph_key, site_of
from shardkit.prepare.dedup.captions import Caption, captions_of, missing, takes, with_captions
from shardkit.prepare.dedup.facts import COLUMNS
from shardkit.prepare.dedup.inputs import Inputs, Positions, Slice, open_slice
from shardkit.prepare.dedup.lines import Line, is_empty, trimmed
from shardkit.prepare.dedup.signatures import key_of
from shardkit.records import Example
from shardkit.store.rows import from_row, payload

_JOB_ROWS = 2048
"""Rows read for a job of pass 1, those whose captions move among them; a keeper and its rows are never parted."""
_BATCH_ROWS = 256

Read = Callable[[Slice], Iterator[Example]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pairs:
    """P examples that go and could leave captions, ascending by keeper."""

    keepers: Positions
    removed: Positions
    """[P] each"""

    @classmethod
    def none(cls) -> Pairs:
        return cls(keepers=np.empty(0, np.int64), removed=np.empty(0, np.int64))

    @classmethod
    def of(cls, keepers: Positions, removed: Positions) -> Pairs:
        order = np.lexsort((removed, keepers))
        return cls(keepers=keepers[order], removed=removed[order])

    def among(self, positions: Positions) -> Pairs:
        """Those of some keepers."""
        own = np.isin(self.keepers, positions)
        return Pairs(keepers=self.keepers[own], removed=self.removed[own])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Work:
    """Some rows that may change, and what is needed for it."""

    pieces: tuple[Slice, ...]
    documents: Positions
    """Those of their rows that repeated lines go from."""
    lines: Path | None
    """A file of the keys of these lines, ascending; None where none go."""
    removed: tuple[Slice, ...]
    """Rows that leave captions."""
    pairs: Pairs
    """With those rows, and keepers of `pieces`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Change:
    """What one row would become: `after` is `before` where nothing follows."""

    position: int
    before: Example
    after: Example
    lines: list[Line]
    site: str
    """Of the lines; empty without any."""
    captions: list[Caption]
    left: int
    """Examples whose captions have no place here, though it lacks them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Wanted:
    """What a run asks to change."""

    documents: Positions
    """Documents that hold repeated lines, ascending."""
    lines: Path | None
    """As in `Work`."""
    pairs: Pairs

    @classmethod
    def nothing(cls) -> Wanted:
        return cls(documents=np.empty(0, np.int64), lines=None, pairs=Pairs.none())

    def of(self, inputs: Inputs, positions: Positions) -> Work:
        """The part of it that concerns some rows.

        Args:
            positions: ascending.
        """
        own = self.pairs.among(positions)
        return Work(
            pieces=tuple(inputs.slices(positions)),
            documents=np.intersect1d(self.documents, positions),
            lines=self.lines,
            removed=tuple(inputs.slices(np.unique(own.removed))),
            pairs=own,
        )


def changed(work: Work, read: Read) -> Iterator[Change]:
    """Each row of the pieces in their order, and what it becomes."""
    left_by: dict[int, list[Example]] = {}
    keeper_of = dict(zip(work.pairs.removed.tolist(), work.pairs.keepers.tolist(), strict=True))
    for piece in work.removed:
        for position, example in zip(piece.positions.tolist(), read(piece), strict=True):
            left_by.setdefault(keeper_of[position], []).append(example)
    keys: frozenset[int] = frozenset() if work.lines is None else _keys_in(work.lines)
    documents = frozenset(work.documents.tolist())
    for piece in work.pieces:
        for position, example in zip(piece.positions.tolist(), read(piece), strict=True):
            yield _changed(position, example, keys if position in documents else frozenset(), left_by.get(position, []))


def _changed(position: int, before: Example, keys: frozenset[int], removed: list[Example]) -> Change:
    fitting = [one for one in removed if takes(before, one)]
    other = [one for one in removed if not takes(before, one)]
    known = {caption.form for caption in captions_of(before)}
    captions = missing(before, fitting)
    after, site = before, ""
    lines: list[Line] = []
    if captions:
        after = with_captions(before, captions)
    elif keys:
        site = site_of(before.source, before.group, before.metadata)
        seed = key_of(site.encode())
        after, lines = trimmed(before, lambda form: paragraph_key(seed, form) in keys)
    return Change(
        position=position,
        before=before,
        after=after,
        lines=lines,
        site=site,
        captions=captions,
        left=sum(any(caption.form not in known for caption in captions_of(one)) for one in other),
    )


@lru_cache(maxsize=1)
def _keys_in(path: Path) -> frozenset[int]:
    return frozenset(np.fromfile(path, np.uint64).tolist())


def write_keys(boilerplate: Boilerplate, scratch: Path) -> Path:
    """The file that `Work.lines` names; its name follows its content, which processes keep."""
    path = scratch / f"lines-{key_of(boilerplate.keys.tobytes()):016x}.u64"
    try:
        boilerplate.keys.tofile(path)
    except OSError as error:
        raise OutputError.from_os(error, str(path)) from error
    return path


def texts_only(piece: Slice) -> Iterator[Example]:
    """The examples of a slice with images that have no bytes.

    Raises:
        IntegrityError: where the columns do not hold together.
    """
    reader = open_slice(piece)
    first, last = int(piece.rows.min()), int(piece.rows.max())
    table = reader.columns(COLUMNS, rows=range(first, last + 1))
    try:
        # These blocks are not compared with their digests, because that would read every image.
        table.validate(full=True)
        for start in range(0, len(piece.rows), _BATCH_ROWS):
            some = table.take(pa.array(piece.rows[start : start + _BATCH_ROWS] - first))
            for row in some.to_pylist():
                images = [{**image, "bytes": b""} for image in row["images"]]
                yield from_row({**row, "images": images})
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})", hint="run `shardkit verify` on the dataset"
        ) from error
    reader.close()


# ---------------------------------------------------------------------- pass 1
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Changes:
    """What pass 1 found."""

    positions: Positions
    """[C] rows that change and stay, ascending."""
    emptied: Positions
    """Rows of which nothing is left, ascending."""
    grown: npt.NDArray[np.int64]
    """[C] bytes that each changed row has more, or fewer (below 0)."""
    counts: Counter[str]
    """lines, documents, captions, receivers, left_out."""
    wanted: Wanted


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Looked:
    positions: Positions
    grown: npt.NDArray[np.int64]
    emptied: npt.NDArray[np.bool_]
    """[n] each, of rows that change"""
    counts: Counter[str]


def find_changes(inputs: Inputs, wanted: Wanted, *, workers: int, on_progress: Progress) -> Changes:
    """Pass 1.

    Raises:
        IntegrityError: where a shard is damaged.
    """
    keepers = wanted.pairs.keepers
    positions = np.union1d(wanted.documents, keepers)
    cost = 1 + np.searchsorted(keepers, positions, side="right") - np.searchsorted(keepers, positions)
    pieces = list(cuts(cost, _JOB_ROWS))
    jobs = (wanted.of(inputs, positions[piece]) for piece in pieces)
    parts = []
    for done, part in enumerate(map_ordered(_look, jobs, workers=workers), 1):
        parts.append(part)
        on_progress(done, len(pieces), "changing texts")
    at = np.concatenate([np.empty(0, np.int64), *(part.positions for part in parts)])
    grown = np.concatenate([np.empty(0, np.int64), *(part.grown for part in parts)])
    emptied = np.concatenate([np.empty(0, np.bool_), *(part.emptied for part in parts)])
    order = np.argsort(at)
    at, grown, emptied = at[order], grown[order], emptied[order]
    return Changes(
        positions=at[~emptied],
        emptied=at[emptied],
        grown=grown[~emptied],
        counts=sum((part.counts for part in parts), Counter()),
        wanted=wanted,
    )


def _look(work: Work) -> _Looked:
    """Pass 1 on some rows; run by a worker."""
    positions, grown, emptied, counts = [], [], [], Counter[str]()
    for change in changed(work, texts_only):
        counts["left_out"] += change.left
        if change.after is change.before:
            continue
        counts.update(
            lines=len(change.lines),
            documents=bool(change.lines),
            captions=len(change.captions),
            receivers=bool(change.captions),
        )
        positions.append(change.position)
        grown.append(payload(change.after) - payload(change.before))
        emptied.append(is_empty(change.after))
    return _Looked(
        positions=np.array(positions, np.int64),
        grown=np.array(grown, np.int64),
        emptied=np.array(emptied, np.bool_),
        counts=counts,
    )


def cuts(cost: npt.NDArray[np.int64], limit: int) -> Iterator[slice]:
    """Runs of items that cost up to `limit` together; an item that costs more is alone."""
    ends, start = np.cumsum(cost), 0
    while start < len(cost):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        yield slice(start, stop)
        start = stop
