"""The rows of a split under one numbering, and what ties them.

0 .. num_own-1     rows that are split, in the order of the input
.. num_here-1      removed duplicates of the input: they go nowhere, but tie what they resemble
.. num_placed-1    rows of the older split (--like): they stay where they are, and tie in the same way
then               rows of --parents: they go nowhere, but tie what was made from them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from shardkit.digest import mix64
from shardkit.engine import Progress, map_ordered
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.inputs import Inputs, Slice, as_int32, slices
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.dedup.names import Names, coded
from shardkit.prepare.split import earlier
from shardkit.prepare.split.config import SplitConfig
from shardkit.prepare.split.declared import by_path
from shardkit.prepare.split.near import NearRules, Pairs, RowValues, computed_pairs, known_levels, stored_pairs
from shardkit.prepare.split.ties import LEVELS, Reading, Tied, id_bits, tie_slice
from shardkit.prepare.split.times import UNKNOWN
from shardkit.sequence.plan.mixer import mix64_array
from shardkit.store.dataset import Dataset
from shardkit.store.memory import give_back
from shardkit.text import language

_COLUMNS = (
    "example_id", "shard_index", "row", "input", "position", "group", "parent_id", "has_email", "has_phone",
)  # fmt: skip
_MANY = 100_000
"""Rows from which on memory counts for more than loading the language model again."""
_PIXEL, _TEXT, _VECTOR = (LEVELS.index(level) for level in ("pixel", "text", "vector"))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rows:
    """N rows, of which the first `num_own` are split."""

    num_own: int
    num_here: int
    num_placed: int
    """As drawn above."""
    ids: Keys
    """[N] first 64 bits of the example id."""
    children: Indices
    parents: Keys
    """[P] each: a row, and the first 64 bits of the id of an example that it was made from."""
    orphans: Indices
    """Rows that are split whose parents are nowhere and that nothing else groups."""
    declared: Indices
    """[N] index into `names`, -1 where the source declares nothing."""
    names: tuple[str, ...]
    keys: Keys
    """[N] 64 bits of the declared key, or of the example id where there is none: what the ledger goes by."""
    sources: npt.NDArray[np.int32]
    """[N] index into `source_names`."""
    source_names: tuple[str, ...]
    languages: npt.NDArray[np.int32]
    """[N] index into `language_names`."""
    language_names: tuple[str, ...]
    times: npt.NDArray[np.int64]
    """[N] microseconds since 1970, or one of times.UNKNOWN; empty where no time is asked for."""
    sizes: npt.NDArray[np.int64]
    """[N] payload bytes."""
    value_rows: Indices
    values: Keys
    levels: npt.NDArray[np.int8]
    """[M] each: row, value and level of everything that ties, see `ties.py`."""
    several: Indices
    """Rows that show several images."""
    near: Pairs
    """[E] values that are near to one another."""
    joined: Indices
    """[N] component that an earlier split of this same input gave the row, as a number; -1 where there is none."""
    permitted: tuple[Keys, Keys]
    """Values that an earlier split found too frequent to tie by equality, and by nearness."""
    examples: pa.Table
    """tables/examples of the rows that are split."""
    slices: tuple[Slice, ...]
    """Where the rows lie."""

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Tables:
    """tables/examples of everything that takes part: the input, what it removed, the older split, parents."""

    own: pa.Table
    removed: pa.Table
    others: tuple[tuple[Dataset, pa.Table], ...]

    @property
    def all(self) -> list[pa.Table]:
        return [self.own, self.removed, *(table for _, table in self.others)]

    @property
    def starts(self) -> list[int]:
        """Number of the first row of each, and of all rows."""
        return list(accumulate((table.num_rows for table in self.all), initial=0))


def read_rows(
    dataset: Dataset, old: Dataset | None, parents: Sequence[Dataset], config: SplitConfig, on_progress: Progress
) -> tuple[Rows, Inputs]:
    """Read everything that a split is decided from but what is near; images stay closed.

    Args:
        old: the older split.
        parents: datasets that hold what rows were made from.

    Returns:
        the rows, and all of them under the same numbering as inputs of a comparison.
    """
    others = [*([old] if old else []), *parents]
    tables = _Tables(
        own=dataset.table("examples", _COLUMNS),
        removed=earlier.removed(dataset),
        others=tuple((other, other.table("examples", _COLUMNS)) for other in others),
    )
    starts = tables.starts
    shards = np.concatenate([as_int32(table["shard_index"]) for table in tables.all])
    rows = np.concatenate([as_int32(table["row"]) for table in tables.all])
    borders = [0, *starts[2:]]
    give_back()  # what decoding the tables took
    pieces = [
        piece
        for number, holder in enumerate([dataset, *others])
        for own in [np.arange(borders[number], borders[number + 1])]
        for piece in slices(holder, config.bases, shards[own], rows[own], own)
    ]
    read = _gather(pieces, starts[-1], config, on_progress)
    if config.group_by is not None and by_path(config.group_by):
        where = [tables.own, earlier.places(dataset, tables.removed), *(table for _, table in tables.others)]
        read.declared.put(
            slice(None), *coded(key for table in where for key in earlier.path_keys(config.group_by, table))
        )
    ids = np.concatenate([leading(table["example_id"]) for table in tables.all])
    names, sources, languages = read.declared.sorted(), read.sources.sorted(), read.languages.sorted()
    made = Rows(
        num_own=starts[1],
        num_here=starts[2],
        num_placed=starts[3] if old else starts[2],
        ids=ids,
        children=np.empty(0, np.int64),
        parents=np.empty(0, np.uint64),
        orphans=np.empty(0, np.int64),
        declared=names[0],
        names=names[1],
        keys=np.where(names[0] < 0, example_keys(ids), group_keys(names[1])[names[0]] if names[1] else np.uint64(0)),
        sources=sources[0].astype(np.int32),
        source_names=sources[1],
        languages=languages[0].astype(np.int32),
        language_names=languages[1],
        times=read.times,
        sizes=read.sizes,
        value_rows=np.concatenate(read.value_rows),
        values=np.concatenate(read.values),
        levels=np.concatenate(read.levels),
        several=np.concatenate(read.several),
        near=(np.empty(0, np.uint64), np.empty(0, np.uint64)),
        joined=np.concatenate([earlier.joined(dataset, starts[1]), np.full(starts[-1] - starts[1], -1)]),
        permitted=earlier.permitted(dataset),
        examples=tables.own,
        slices=tuple(pieces),
    )
    made = _with_lineage(made, dataset, tables, read, shards[: starts[1]])
    inputs = Inputs(
        datasets=(dataset, *others),
        num_datasets=1 + len(others),
        bases=config.bases,
        starts=tuple(borders),
        shards=shards,
        rows=rows,
        splits=("all",),
    )
    return made, inputs


@dataclass(kw_only=True, slots=True, eq=False)
class _Read:
    """What the workers read, put together."""

    declared: Names
    sources: Names
    languages: Names
    sizes: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    value_rows: list[Indices]
    values: list[Keys]
    levels: list[npt.NDArray[np.int8]]
    several: list[Indices]
    children: list[Indices]
    parents: list[Keys]


def _gather(pieces: Sequence[Slice], size: int, config: SplitConfig, on_progress: Progress) -> _Read:
    reading = Reading(group_by=config.group_by, time_field=config.time_field, parent_field=config.parent_field)
    read = _Read(
        declared=Names(size),
        sources=Names(size),
        languages=Names(size),
        sizes=np.zeros(size, np.int64),
        times=np.zeros(size if config.time_field else 0, np.int64),
        value_rows=[np.empty(0, np.int64)],
        values=[np.empty(0, np.uint64)],
        levels=[np.empty(0, np.int8)],
        several=[np.empty(0, np.int64)],
        children=[np.empty(0, np.int64)],
        parents=[np.empty(0, np.uint64)],
    )
    parts: Iterator[Tied] = map_ordered(partial(tie_slice, reading), pieces, workers=config.workers)
    for done, part in enumerate(parts, 1):
        read.declared.put(part.positions, *part.declared)
        read.sources.put(part.positions, *part.sources)
        read.languages.put(part.positions, *part.languages)
        read.sizes[part.positions] = part.sizes
        if config.time_field:
            read.times[part.positions] = part.times
        read.value_rows.append(part.value_rows)
        read.values.append(part.values)
        read.levels.append(part.levels)
        read.several.append(part.several)
        read.children.append(part.children)
        read.parents.append(part.parents)
        on_progress(done, len(pieces), "reading")
    if size >= _MANY:
        # With one worker this process did the reading; it needs the model no longer.
        language.forget()
        give_back()
    return read


def _with_lineage(rows: Rows, dataset: Dataset, tables: _Tables, read: _Read, shards: npt.NDArray[np.int32]) -> Rows:
    """The rows with what they were made from.

    Args:
        shards: [num_own]
    """
    children, parents = list(read.children), list(read.parents)
    for table, start in zip(tables.all, tables.starts[:-1], strict=True):
        if "parent_id" in table.column_names:
            words = leading(table["parent_id"])
            has = np.flatnonzero(words)
            children.append(has + start)
            parents.append(words[has])
    child, parent = np.concatenate(children), np.concatenate(parents)
    known = np.isin(parent, rows.ids)
    own = child < rows.num_own
    lost = np.setdiff1d(child[own & ~known], child[own & known])
    # A key of its own, the component of an earlier split, or the very row before dedup changed it say as much; and
    # what others were made from need not be made from anything.
    grouped = np.isin(rows.ids[lost], parent)
    grouped |= (rows.declared[lost] >= 0) | (rows.joined[lost] >= 0) | earlier.changed_alone(dataset, shards[lost])
    return replace(rows, children=child, parents=parent, orphans=lost[~grouped])


def with_near(
    rows: Rows,
    inputs: Inputs,
    rules: NearRules,
    *,
    absent: npt.NDArray[np.bool_],
    workers: int,
    on_progress: Progress,
) -> Rows:
    """The rows with pairs of near values: those that dedup found, and those that it did not look for.

    Args:
        absent: [num_own] rows that are known to be left out; those without a time need not be among them.
    """
    if rules.text is None:
        return rows
    dataset = inputs.datasets[0]
    stand_in = RowValues(ids=rows.ids, text=_first_value(rows, _TEXT), picture=_first_value(rows, _PIXEL))
    pairs: list[Pairs] = [rows.near]
    vectors = [np.empty(0, np.int64)]
    here = slice(0, rows.num_here)
    for level, one, two, values in stored_pairs(dataset, stand_in.only(here), rules):
        pairs.append(values)
        if level == "semantic":
            vectors += [one, two]
    missing = _not_known(rows, rules, alone=inputs.num_datasets == 1)
    if missing and len(rows):
        found = computed_pairs(
            inputs,
            stand_in,
            rules,
            missing,
            unseen=slice(rows.num_own, rows.num_here),
            present=_present(rows, absent),
            workers=workers,
            on_progress=on_progress,
        )
        pairs += found.values()
    of_vectors = np.unique(np.concatenate(vectors))
    return replace(
        rows,
        near=(np.concatenate([one for one, _ in pairs]), np.concatenate([two for _, two in pairs])),
        value_rows=np.concatenate([rows.value_rows, of_vectors]),
        values=np.concatenate([rows.values, id_bits("vector", rows.ids[of_vectors])]),
        levels=np.concatenate([rows.levels, np.full(len(of_vectors), _VECTOR, np.int8)]),
    )


def _present(rows: Rows, absent: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """[N] rows that are written, as far as it is known before they are placed."""
    present = np.zeros(len(rows), np.bool_)
    present[: rows.num_own] = ~absent
    if len(rows.times):
        present &= ~np.isin(rows.times, UNKNOWN)
    return present


def _not_known(rows: Rows, rules: NearRules, *, alone: bool) -> list[str]:
    """Levels whose pairs must be compared here.

    Dedup compares lists of pictures one by one and rows as they were before it changed them; and it did not see other
    datasets.

    Args:
        alone: no other dataset takes part.
    """
    known = known_levels(rules) if alone else frozenset()
    if (rows.several < rows.num_own).any():
        known -= {"perceptual"}
    if rows.examples["parent_id"].null_count < rows.num_own:
        # What pages say decides about them, too.
        known -= {"perceptual", "text"}
    wanted = ["perceptual"] if (rows.levels == _PIXEL).any() else []
    return [level for level in [*wanted, "text"] if level not in known]


def _first_value(rows: Rows, level: int) -> Keys:
    """[N] the first value of a level that each row has; 0 for none."""
    own = np.flatnonzero(rows.levels == level)[::-1]
    found = np.zeros(len(rows), np.uint64)
    found[rows.value_rows[own]] = rows.values[own]
    return found


def group_keys(names: tuple[str, ...] | list[str]) -> Keys:
    """64 bits of declared keys."""
    return np.array([xxhash.xxh3_64_intdigest(b"group\0" + name.encode()) for name in names], np.uint64)


def example_keys(ids: Keys) -> Keys:
    """64 bits of example ids as keys; they differ from those of groups of the same name."""
    return mix64_array(mix64("example"), ids)
