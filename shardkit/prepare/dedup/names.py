"""Strings of many rows, each string held once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]


def coded(values: Iterable[str | None]) -> tuple[list[str], Codes]:
    """The different strings in the order in which they come, and which of them each value is; -1 for None."""
    place: dict[str, int] = {}
    codes = [-1 if value is None else place.setdefault(value, len(place)) for value in values]
    return list(place), np.array(codes, np.int64)


class Names:
    """The strings of `size` rows, put in part by part as indices into names."""

    def __init__(self, size: int) -> None:
        self._codes = np.full(size, -1, np.int64)
        self._place: dict[str, int] = {}

    def put(self, positions: npt.NDArray[np.int64] | slice, names: Sequence[str], codes: Codes) -> None:
        """Rows at `positions` have `names[codes]`; -1 is none."""
        known = np.array([self._place.setdefault(name, len(self._place)) for name in names] + [-1], np.int64)
        self._codes[positions] = known[codes]

    def sorted(self) -> tuple[Codes, tuple[str, ...]]:
        """[size] indices into the ascending names, and the names."""
        names = sorted(self._place)
        renumber = np.full(len(names) + 1, -1, np.int64)
        renumber[[self._place[name] for name in names]] = np.arange(len(names))
        return renumber[self._codes], tuple(names)
