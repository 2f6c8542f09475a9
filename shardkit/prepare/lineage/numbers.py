"""A column of 64-bit numbers in which rows are found by value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.keys import Keys

_SCANS = 4
"""So many look-ups are scans; then the column is sorted once, which costs as much as a dozen of them."""


class Numbers:
    """Look-ups in a column of a million and more numbers; the order of rows is that of the column."""

    def __init__(self, values: Keys) -> None:
        self._values = values
        self._asked = 0
        self._order: npt.NDArray[np.int64] | None = None
        self._sorted = values

    def __len__(self) -> int:
        return len(self._values)

    def between(self, low: int, high: int) -> list[int]:
        """Rows of the numbers from `low` to `high`, both included."""
        first, last = np.uint64(low), np.uint64(high)
        order = self._ordered(1)
        if order is None:
            found = np.flatnonzero((self._values >= first) & (self._values <= last))
        else:
            found = np.sort(order[np.searchsorted(self._sorted, first) : np.searchsorted(self._sorted, last, "right")])
        rows: list[int] = found.tolist()
        return rows

    def equal(self, values: Sequence[int]) -> list[list[int]]:
        """For each value the rows that have it."""
        wanted = np.array(values, np.uint64)
        order = self._ordered(1)
        if order is None:
            return self._scanned(wanted)
        begin, end = np.searchsorted(self._sorted, wanted), np.searchsorted(self._sorted, wanted, "right")
        return [np.sort(order[one:two]).tolist() for one, two in zip(begin.tolist(), end.tolist(), strict=True)]

    def _scanned(self, wanted: Keys) -> list[list[int]]:
        """Many values in one scan: each number is looked up among the few that are wanted."""
        found: list[list[int]] = [[] for _ in wanted]
        if len(wanted) and len(self):
            distinct, places = np.unique(wanted, return_inverse=True)
            near = np.minimum(np.searchsorted(distinct, self._values), len(distinct) - 1)
            rows_of: list[list[int]] = [[] for _ in distinct]
            for row in np.flatnonzero(distinct[near] == self._values).tolist():
                rows_of[near[row]].append(row)
            found = [rows_of[place] for place in places.tolist()]
        return found

    def _ordered(self, asked: int) -> npt.NDArray[np.int64] | None:
        """The rows by their numbers; None as long as that does not pay."""
        self._asked += asked
        if self._order is None and self._asked > _SCANS:
            self._order = np.argsort(self._values, kind="stable")
            self._sorted = self._values[self._order]
        return self._order
