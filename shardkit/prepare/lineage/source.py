"""`shardkit trace DATASET --source FILE:ROW`: what became of a raw row, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.chain import Chain
from shardkit.prepare.lineage.exclusions import exclusions_of
from shardkit.prepare.lineage.index import Index
from shardkit.prepare.lineage.left_out import inputs_of, left_out

Origin = tuple[str, str | None]
"""(input, position); None for the only row of the input."""

_NAMED = 5


class Forward:
    """Follows rows through the stages, from the oldest dataset at hand to the own one."""

    def __init__(self, ancestry: Ancestry, chain: Chain) -> None:
        self._ancestry = ancestry
        self._chain = chain

    def source(self, given: str, *, where: str) -> dict[str, Any]:
        """See `Tracer.source`."""
        origins = list(_origins(given))
        for number, index in enumerate(self._ancestry.indices):
            first = self._first(index, origins)
            if first is not None:
                name, position, ids, left = first
                rows = [self._row(number, name, position, one) for one in ids]
                rows += [{"example_id": None, "history": [_left(index, line)], "examples": []} for line in left]
                rows += self._elsewhere(number, name, position, ids)
                return {"kind": "source", "input": name, "position": position, "rows": rows}
        raise self._unknown(given, origins, where)

    def of_example(self, index: Index, example_id: str) -> list[dict[str, Any]]:
        """The rows of an example that `index` knows: their history from there on."""
        number = self._ancestry.indices.index(index)
        facts = index.examples.take(index.examples_of(example_id), ["input", "position"])
        return [self._row(number, one["input"], one["position"], example_id) for one in facts]

    # ------------------------------------------------------------------ where a row begins
    def _first(self, index: Index, origins: list[Origin]) -> tuple[str, str, list[str], list[dict[str, Any]]] | None:
        """(input, position, ids of its examples, exclusions) of the first of `origins` that a dataset knows."""
        known = _positions(index, origins)
        left = exclusions_of(index.dataset, origins)
        for name, position in origins:
            rows = known.get((name, position), [])
            lines = [line for line in left if line["input"] == name and position in (None, line["position"])]
            positions = {row["position"] for row in rows} | {line["position"] for line in lines}
            if position is None and len(positions) > 1:
                raise ConfigError(
                    f"{name} holds {len(positions)} rows ({', '.join(sorted(positions)[:_NAMED])}, ...)",
                    where=str(index.dataset.path),
                    hint=f"name one, for instance --source {name}:{min(positions)}",
                )
            if positions:
                ids = list(dict.fromkeys(row["example_id"] for row in rows))
                return name, positions.pop(), ids, [] if ids else lines
        return None

    def _elsewhere(self, number: int, name: str, position: str, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Rows of the same place in other sources: several ingests may call a file by one name."""
        seen = set(ids)
        for later, index in enumerate(self._ancestry.indices[number + 1 :], number + 1):
            if index.dataset.stage != "ingest":
                continue
            first = self._first(index, [(name, position)])
            for one in first[2] if first else ():
                if one not in seen:
                    seen.add(one)
                    yield self._row(later, name, position, one)

    def _unknown(self, given: str, origins: list[Origin], where: str) -> ConfigError:
        names = pa.array([name for name, _ in origins])
        for index in self._ancestry.indices:
            inputs = index.origins["input"]
            there = index.origins.filter(pc.is_in(inputs, names))
            if there.num_rows:
                shown = there["position"].slice(0, _NAMED).to_pylist()
                return ConfigError(
                    f"{there['input'][0]} has no such row (it has {', '.join(shown)}, ...)",
                    where=where,
                    hint="name a row as tables/examples does: line, table row, record, stem or page",
                )
        if self._ancestry.missing:
            hint = (
                f"the input dataset {self._ancestry.missing[0].dataset_id} is not at hand: --base DIR says where it is"
            )
        else:
            inputs = sorted({name for index in self._ancestry.indices for name in _some_inputs(index)})
            hint = f"write FILE:ROW; inputs are {', '.join(inputs[:_NAMED])}{', ...' if len(inputs) > _NAMED else ''}"
        return ConfigError(f"no row {given!r} was ever read", where=where, hint=hint)

    # ------------------------------------------------------------------ from there on
    def _row(self, number: int, name: str, position: str, example_id: str) -> dict[str, Any]:
        """The history of a row from the dataset `number` on."""
        ids = {example_id}
        history: list[dict[str, Any]] = []
        alive = {self._ancestry.indices[number].dataset.id}
        """Datasets that the row reached."""
        for index in self._ancestry.indices[number:]:
            dataset = index.dataset
            if dataset.id not in alive and not alive & set(dataset.manifest.inputs):
                continue
            step = self._step(index, name, position, ids)
            history += step
            if any(one["outcome"] == "kept" for one in step):
                alive.add(dataset.id)
        here = self._ancestry.own
        positions = [at for at, _ in _rows_at(here, name, position, ids)]
        examples = self._chain.examples_at(positions)
        for example, place in zip(examples, here.places_of(positions), strict=True):
            sequences = self._chain.sequences_of(example["example_id"], place)
            example["sequences"] = [{name: one[name] for name in one if name != "example"} for one in sequences]
        return {"example_id": example_id, "history": history, "examples": examples}

    def _step(self, index: Index, name: str, position: str, ids: set[str]) -> list[dict[str, Any]]:
        """What one dataset did with the row; new ids of it are added to `ids`."""
        dataset = index.dataset
        for known in tuple(ids):
            ids |= set(index.example_ids(index.children_of(known)))
        rows = [row for _, row in _rows_at(index, name, position, ids)]
        if rows:
            return [
                {
                    **_where(index),
                    "outcome": "kept",
                    "example_id": row["example_id"],
                    "split": dataset.shards[row["shard_index"]].split,
                    "shard": row["shard"],
                    "row": row["row"],
                    "group": row["group"],
                    "links": index.links_of(row["example_id"]),
                }
                for row in rows
            ]
        lines = left_out(index, inputs_of(self._ancestry, index), name, position, ids)
        links = [link for known in sorted(ids) for link in index.links_of(known)]
        return [{**_left(index, line), "links": links} for line in lines]


def _where(index: Index) -> dict[str, Any]:
    return {"stage": index.dataset.stage, "dataset": index.dataset.place, "id": index.dataset.id}


def _left(index: Index, line: dict[str, Any]) -> dict[str, Any]:
    return {**_where(index), "outcome": line["reason"], "detail": line["detail"], "links": []}


def _origins(given: str) -> Iterator[Origin]:
    """What FILE:ROW may mean: both may hold colons, and the file may be told by a longer path."""
    ends = [at for at, sign in enumerate(given) if sign == ":"]
    splits: list[Origin] = [(given[:at], given[at + 1 :]) for at in reversed(ends)]
    for name, position in [*splits, (given, None)]:
        parts = name.split("/")
        for first in range(len(parts)):
            shorter = "/".join(parts[first:])
            if shorter and (position is None or position):
                yield shorter, position


def _positions(index: Index, origins: Sequence[Origin]) -> dict[Origin, list[dict[str, Any]]]:
    """Rows of tables/examples by the origin that names them."""
    table = index.origins
    named = pc.is_in(table["input"], pa.array(list({name for name, _ in origins}), pa.string()))
    rows = {position for _, position in origins if position is not None}
    whole = pa.array(list({name for name, position in origins if position is None}), pa.string())
    fitting = pc.or_(pc.is_in(table["position"], pa.array(list(rows), pa.string())), pc.is_in(table["input"], whole))
    hits = np.flatnonzero(pc.and_(named, fitting).to_numpy()).tolist()
    found: dict[Origin, list[dict[str, Any]]] = {}
    wanted = set(origins)
    for row in index.examples.take(hits, ["example_id", "input", "position"]):
        for origin in ((row["input"], row["position"]), (row["input"], None)):
            if origin in wanted:
                found.setdefault(origin, []).append(row)
    return found


def _rows_at(index: Index, name: str, position: str, ids: set[str]) -> list[tuple[int, dict[str, Any]]]:
    """Position and row of the examples of these ids that came from one place."""
    positions = sorted({at for known in ids for at in index.examples_of(known)})
    rows = zip(positions, index.examples.take(positions), strict=True)
    return [(at, row) for at, row in rows if (row["input"], row["position"]) == (name, position)]


def _some_inputs(index: Index) -> list[str]:
    found: list[str] = pc.unique(index.origins["input"]).slice(0, _NAMED + 1).to_pylist()
    return found
