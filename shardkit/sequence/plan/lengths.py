"""What a plan knows of the sequences: their sizes, sources and keys, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shardkit.sequence.objectives import OBJECTIVES

_COST_TOKENS = 12_288
"""Sequence length at which the attention of a decoder of width 1,024 costs as much as its matrices: 12 x width."""


class Table(Protocol):
    """What is asked of a pyarrow table, so that this floor does without pyarrow."""

    @property
    def column_names(self) -> list[str]: ...

    def column(self, name: str, /) -> Any: ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lengths:
    """N sequences in the order of their shards and rows. Sequences are known by their index here."""

    key: npt.NDArray[np.uint64]
    """[N] a number of the example id and the window: what the order is drawn from."""
    shard: npt.NDArray[np.int32]
    """[N] index of the sequence shard in the dataset."""
    row: npt.NDArray[np.int32]
    """[N] row in that shard."""
    tokens: npt.NDArray[np.int64]
    images: npt.NDArray[np.int64]
    patches: npt.NDArray[np.int64]
    supervised: npt.NDArray[np.int64]
    """[number of objectives, N] target tokens; the row is the objective's byte, row 0 is empty."""
    source: npt.NDArray[np.int32]
    """[N] index into `sources`."""
    sources: tuple[str, ...]
    """Names, ascending."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def cost(self) -> npt.NDArray[np.int64]:
        """[N] an integer proportional to the FLOPs of a sequence.

        Counts a token as a patch, and attention as a decoder of width 1,024 does: tokens x (12,288 + tokens) +
        12,288 x patches. Good for balancing ranks and comparing sources; no statement about a particular model.
        """
        return self.tokens * (_COST_TOKENS + self.tokens) + _COST_TOKENS * self.patches

    @classmethod
    def from_table(cls, table: Table, *, split: str | None = None) -> Lengths:
        """The columns of tables/lengths.parquet; only the rows of `split` where one is named."""
        columns = {name: _numpy(table.column(name)) for name in _NUMBERS}
        sources, source = _codes(table.column("source"))
        splits, split_of = _codes(table.column("split"))
        where = np.flatnonzero(np.isin(split_of, [code for code, name in enumerate(splits) if split in (None, name)]))
        where = where[np.lexsort((columns["row"][where], columns["shard"][where]))]
        supervised = np.zeros((len(OBJECTIVES), len(where)), np.int64)
        for objective, byte in OBJECTIVES.items():
            column = f"supervised_{objective}"
            if byte and column in table.column_names:
                supervised[byte] = _numpy(table.column(column))[where]
        present, codes = np.unique(source[where], return_inverse=True)
        return cls(
            key=columns["key"][where].astype(np.uint64),
            shard=columns["shard"][where].astype(np.int32),
            row=columns["row"][where].astype(np.int32),
            tokens=columns["num_tokens"][where].astype(np.int64),
            images=columns["num_images"][where].astype(np.int64),
            patches=columns["num_patches"][where].astype(np.int64),
            supervised=supervised,
            source=codes.astype(np.int32),
            sources=tuple(sources[code] for code in present.tolist()),
        )


_NUMBERS = ("key", "shard", "row", "num_tokens", "num_images", "num_patches")


def _codes(column: Any) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The distinct names of a column, ascending, and the place of each row's name among them."""
    encoded = column.dictionary_encode().combine_chunks()
    found: list[str] = encoded.dictionary.to_pylist()
    names = sorted(found)
    place = np.array([names.index(name) for name in found], np.int64)
    return names, place[_numpy(encoded.indices)] if found else np.zeros(0, np.int64)


def _numpy(column: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy()
    return values
