"""What a plan knows of the sequences: their sizes, sources and keys, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.sequence.cost import cost
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan.mixer import mix64_array


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
    period: npt.NDArray[np.int64] | None = None
    """[N] with `turn`: pass p over a source has the sequences with p mod period = turn. None: every pass has them all."""
    turn: npt.NDArray[np.int64] | None = None
    example: npt.NDArray[np.uint64] | None = None
    """[N] a number of the example that a sequence was made from; None where `turn` is."""

    def __len__(self) -> int:
        return len(self.key)

    @property
    def attention(self) -> npt.NDArray[np.int64]:
        """[N] pairs of tokens that attend to one another: tokens x tokens."""
        return self.tokens * self.tokens

    @property
    def plain(self) -> npt.NDArray[np.bool_]:
        """[N] whether every token but the first is a target of one objective, and there is no image: plain text.

        What such a sequence holds can be told of any part of it, so it may be cut anywhere.
        """
        every = (self.supervised == self.tokens - 1).any(axis=0)
        plain: npt.NDArray[np.bool_] = every & (self.images == 0) & (self.tokens > 1)
        return plain

    def take(self, rows: npt.NDArray[np.int64], shard: npt.NDArray[np.int32]) -> Lengths:
        """Some sequences, in shards of other numbers."""
        present, codes = np.unique(self.source[rows], return_inverse=True)
        return replace(
            self,
            key=self.key[rows],
            shard=shard,
            row=self.row[rows],
            tokens=self.tokens[rows],
            images=self.images[rows],
            patches=self.patches[rows],
            supervised=self.supervised[:, rows],
            source=codes.astype(np.int32),
            sources=tuple(self.sources[code] for code in present.tolist()),
            period=None if self.period is None else self.period[rows],
            turn=None if self.turn is None else self.turn[rows],
            example=None if self.example is None else self.example[rows],
        )

    @property
    def cost(self) -> npt.NDArray[np.int64]:
        """[N] what each sequence costs, see shardkit.sequence.cost."""
        found: npt.NDArray[np.int64] = cost(self.tokens, self.patches)
        return found

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
        period, turn, example = _turns(table, where)
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
            period=period,
            turn=turn,
            example=example,
        )


_NUMBERS = ("key", "shard", "row", "num_tokens", "num_images", "num_patches")


def _turns(
    table: Table, where: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint64]] | tuple[None, None, None]:
    """`period`, `turn`, `example`: pass p takes of an example its alternative (p + mix(example)) mod alternatives."""
    if "alternatives" not in table.column_names:
        return None, None, None
    period = _numpy(table.column("alternatives"))[where].astype(np.int64)
    if not (period > 1).any():
        return None, None, None
    alternative = _numpy(table.column("alternative"))[where].astype(np.int64)
    example = _numpy(table.column("example_key"))[where].astype(np.uint64)
    first = mix64_array(mix64("alternatives"), example) % period.astype(np.uint64)
    return period, (alternative - first.astype(np.int64)) % period, example


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
