"""What other thresholds would keep: a join over stored scores, nothing is compared again.

    level x threshold x (all | source | language | length) x value  ->  rows read, rows kept

At each threshold of a level the whole decision is made again with the edges that reach it; the other levels stand at
the thresholds of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.dedup.clusters import Choice
from shardkit.prepare.dedup.levels import LEVELS
from shardkit.prepare.dedup.signatures import Signed
from shardkit.store.schema import TABLES

Kept = npt.NDArray[np.bool_]
ALL = "all"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Dimension:
    """What rows are told apart by."""

    name: str
    codes: npt.NDArray[np.integer]
    """[n] index into `values` for each row."""
    values: tuple[str, ...]


def everything(num_rows: int) -> Dimension:
    """The dimension with one value."""
    return Dimension(name=ALL, codes=np.zeros(num_rows, np.int8), values=(ALL,))


def length_bins(lengths: npt.NDArray[np.integer]) -> Dimension:
    """Lengths by powers of two, named by their borders: 0, 1, 2-3, 4-7, 8-15, ...

    Args:
        lengths: [n] in characters, below 2 ** 53.
    """
    codes = np.frexp(lengths.astype(np.float64))[1].astype(np.int8)
    last = int(codes.max(initial=0))
    values = ("0", "1", *(f"{1 << (bits - 1)}-{(1 << bits) - 1}" for bits in range(2, last + 1)))
    return Dimension(name="length", codes=codes, values=values)


def dimensions(signed: Signed, num_rows: int) -> tuple[Dimension, ...]:
    """What the first `num_rows` rows are told apart by: nothing, source, language, length."""
    here = slice(0, num_rows)
    return (
        everything(num_rows),
        Dimension(name="source", codes=signed.sources[here], values=signed.names),
        Dimension(name="language", codes=signed.languages[here], values=signed.language_names),
        length_bins(signed.lengths[here]),
    )


def retention(
    thresholds: Mapping[str, Sequence[float]],
    dimensions: Sequence[Dimension],
    decide: Callable[[str, float], Kept],
) -> pa.Table:
    """The table `retention`: a row a level, threshold, dimension and value that some row has.

    Args:
        thresholds: level -> scores to try, ascending; the order of levels and dimensions is that of the table.
        dimensions: of the same n rows each.
        decide: [n] which rows stay where the level removes from the threshold on.
    """
    reads = [np.bincount(dimension.codes, minlength=len(dimension.values)) for dimension in dimensions]
    parts = [TABLES["retention"].empty_table()]
    for level, scores in thresholds.items():
        for score in scores:
            stays = decide(level, score)
            for dimension, read in zip(dimensions, reads, strict=True):
                kept = np.bincount(dimension.codes[stays], minlength=len(dimension.values))
                there = np.flatnonzero(read)
                columns = {
                    "level": [level] * len(there),
                    "threshold": [float(score)] * len(there),
                    "dimension": [dimension.name] * len(there),
                    "value": [dimension.values[place] for place in there],
                    "read": read[there],
                    "kept": kept[there],
                }
                parts.append(pa.table(columns, schema=TABLES["retention"]))
    return pa.concat_tables(parts).combine_chunks()


def decisions(choice: Choice, thresholds: npt.NDArray[np.float64], num_rows: int) -> Callable[[str, float], Kept]:
    """`decide` for `retention`: the decision of the run with the threshold of one level moved.

    Args:
        thresholds: those of the run, by place in LEVELS.
        num_rows: rows that are deduplicated, which are numbered first.
    """

    def decide(level: str, score: float) -> Kept:
        moved = thresholds.copy()
        moved[LEVELS.index(level)] = score
        gone = choice.places[choice.at(moved).removed]
        stays = np.ones(num_rows, np.bool_)
        stays[gone[gone < num_rows]] = False
        return stays

    return decide


def printed(table: pa.Table, *, dimensions: Sequence[str] = (ALL,), values: int = 10) -> list[str]:
    """Lines for people: a block a level, a column a threshold, the share that is kept.

        kept at text    0.50    0.60
        all            91.2%   97.5%
        language en    90.0%   97.0%

    Args:
        dimensions: those that are shown.
        values: of each dimension so many, those with most rows; a last line says how many are not shown.
    """
    lines = []
    by_level: dict[str, dict[tuple[str, str], dict[float, tuple[int, int]]]] = {}
    for row in table.to_pylist():
        shares = by_level.setdefault(row["level"], {}).setdefault((row["dimension"], row["value"]), {})
        shares[row["threshold"]] = (row["read"], row["kept"])
    for level, rows in by_level.items():
        block = [(f"kept at {level}", [f"{score:.2f}" for score in next(iter(rows.values()))])]
        for dimension in dimensions:
            own = [(value, shares) for (name, value), shares in rows.items() if name == dimension]
            own.sort(key=lambda item: -max(read for read, _ in item[1].values()))
            for value, shares in own[:values]:
                name = value if dimension == ALL else f"{dimension} {value}"
                block.append((name, [f"{kept / read:.1%}" for read, kept in shares.values()]))
            if len(own) > values:
                block.append((f"and {len(own) - values} more by {dimension}", []))
        width = max(len(name) for name, cells in block if cells)
        lines += [f"  {name:{width}}" + "".join(f"{cell:>8}" for cell in cells) for name, cells in block]
    return lines
