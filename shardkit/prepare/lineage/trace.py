"""`shardkit trace DATASET ID`: batch -> sequences -> examples -> relations -> assets -> raw file and row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.batch import Batches, BatchId
from shardkit.prepare.lineage.chain import Chain
from shardkit.prepare.lineage.index import Index, Place
from shardkit.prepare.lineage.source import Forward
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings

SHORTEST = 8
"""Digits that an id is known by at least."""
_HINT = "`shardkit head` shows ids of examples and assets, the log of a run those of batches"


def trace(
    path: Path, given: str, *, bases: Sequence[Path] = (), run: Path | None = None, state: Path | None = None
) -> dict[str, Any]:
    """The chain of an id back to the raw rows; for many look-ups keep a `Tracer`."""
    return Tracer(path, bases=bases, run=run, state=state).trace(given)


def trace_source(path: Path, given: str, *, bases: Sequence[Path] = ()) -> dict[str, Any]:
    """What became of a raw row, FILE:ROW; for many look-ups keep a `Tracer`."""
    return Tracer(path, bases=bases).source(given)


class Tracer:
    """Look-ups in a dataset and in what it was made from; what was read once stays at hand.

    Args:
        bases: where moved inputs are looked for.
        run: the folder of a training run, for batches whose plan was not saved beside the dataset.
        state: a file with the state of a loader, for batches of its plan and of those that it went on from, where
            settings or data were changed within an epoch.
        remote: how a dataset behind a URL is reached, and where its files are kept.

    Raises:
        SourceError: where no dataset is.
        IntegrityError: where it is damaged.
    """

    def __init__(
        self,
        path: Path,
        *,
        bases: Sequence[Path] = (),
        run: Path | None = None,
        state: Path | None = None,
        remote: RemoteSettings | None = None,
    ) -> None:
        self.dataset = Dataset.open(path, base=bases, remote=remote)
        self._ancestry = Ancestry(self.dataset)
        self.chain = Chain(self._ancestry)
        self._forward = Forward(self._ancestry, self.chain)
        self._batches = Batches(self.dataset, run, state)

    def trace(self, given: str) -> dict[str, Any]:
        """The chain of a batch, sequence, example or asset, by its id or the unique beginning of one.

        Returns:
            dataset, id, stage; kind (batch, sequence, example or asset) and asked (the whole id); batch (None, or its
            parts and packs); sequences, examples, assets (each with its rows of provenance); history (for an example
            that is no longer in this dataset: where it went, as `source` tells it); datasets (what this one was made
            from, oldest first).

        Raises:
            ConfigError: where nothing has the id, or several things do.
            IntegrityError: where a shard or table is damaged.
        """
        asked = given.strip().lower().removeprefix("sha256:")
        batch = BatchId.parse(asked)
        if batch is not None:
            return self._of_batch(asked, batch)
        if not all(sign in "0123456789abcdef" for sign in asked) or not SHORTEST <= len(asked) <= 64:
            raise ConfigError(
                f"{given!r} is no id of a batch, sequence, example or asset, nor {SHORTEST} or more digits of one",
                where=self.dataset.where,
                hint=_HINT,
            )
        found = self._only(_ids(self._ancestry.own, asked) | self._sequence_ids(asked), asked)
        if found is None:
            return self._of_gone(asked)
        kind, whole = found
        return {"sequence": self._of_sequence, "example": self._of_example, "asset": self._of_asset}[kind](whole)

    def source(self, given: str) -> dict[str, Any]:
        """What became of a raw row.

        Args:
            given: FILE:ROW, as tables/examples has them: the file relative to the root of its ingest, or a longer path
                that ends with it; FILE alone where it holds one row.

        Returns:
            dataset, id, stage; input, position; rows: for each row of that place its history through the stages (kept
            with shard and row, or the reason it was left out), its examples here and their sequences; datasets.

        Raises:
            ConfigError: where no dataset at hand knows the row.
        """
        return self._answer(self._forward.source(given, where=self.dataset.where))

    # ------------------------------------------------------------------ ids
    def _sequence_ids(self, digits: str) -> set[tuple[str, str]]:
        if len(digits) > 32:
            return set()
        sequences = self.chain.sequences_at(self._ancestry.own.sequences_of(digits))
        return {("sequence", s["sequence_id"]) for s in sequences if s["sequence_id"].startswith(digits)}

    def _only(self, found: set[tuple[str, str]], digits: str) -> tuple[str, str] | None:
        """The one (kind, id) that was found; None for nothing.

        Raises:
            ConfigError: where there are several.
        """
        if len(found) > 1:
            named = ", ".join(f"{kind} {one}" for kind, one in sorted(found)[:4])
            raise ConfigError(
                f"{len(found)} ids begin with {digits}: {named}", where=self.dataset.where, hint="give more digits"
            )
        return next(iter(found), None)

    def _of_gone(self, digits: str) -> dict[str, Any]:
        """An id that only an earlier dataset knows."""
        for index in reversed(self._ancestry.indices[:-1]):
            found = self._only(_ids(index, digits), digits)
            if found is not None:
                kind, whole = found
                ids = [whole]
                if kind == "asset":
                    shown = index.provenance.take(index.provenance_of_asset(whole), ["example_id"])
                    ids = sorted(index.has_examples({row["example_id"] for row in shown}))
                history = [row for one in ids for row in self._forward.of_example(index, one)]
                return self._traced(kind, whole, history=history)
        missing = len(self._ancestry.missing)
        raise ConfigError(
            f"nothing has the id {digits}, here or in what this dataset was made from",
            where=self.dataset.where,
            hint=f"{missing} of its inputs are not at hand: say where they are with --base DIR" if missing else _HINT,
        )

    # ------------------------------------------------------------------ kinds
    def _of_batch(self, asked: str, batch: BatchId) -> dict[str, Any]:
        packs = self._batches.packs(batch)
        places = [place for pack in packs.sequences for place in pack]
        sequences = self.chain.sequences_at(places)
        numbers = [n for n, pack in zip(packs.numbers, packs.sequences, strict=True) for _ in pack]
        for sequence, number in zip(sequences, numbers, strict=True):
            sequence["pack"] = number
        told = {
            "plan": batch.plan,
            "epoch": batch.epoch,
            "step": batch.step,
            "rank": batch.rank,
            "world_size": batch.world_size,
            "packs": list(packs.numbers),
        }
        return self._traced("batch", asked, batch=told, **self._from_sequences(sequences))

    def _of_sequence(self, whole: str) -> dict[str, Any]:
        sequences = self.chain.sequences_at(self._ancestry.own.sequences_of(whole))
        sequences = [one for one in sequences if one["sequence_id"] == whole]
        return self._traced("sequence", whole, **self._from_sequences(sequences))

    def _from_sequences(self, sequences: list[dict[str, Any]]) -> dict[str, Any]:
        places: list[Place] = list(dict.fromkeys(one["example"] for one in sequences))
        examples = self.chain.examples_at(self._ancestry.own.at_places(places))
        return _linked(self.chain, sequences, dict(zip(places, examples, strict=True)))

    def _of_example(self, whole: str) -> dict[str, Any]:
        return self._traced("example", whole, **self._from_examples(self._ancestry.own.examples_of(whole)))

    def _of_asset(self, whole: str) -> dict[str, Any]:
        index = self._ancestry.own
        ids = {row["example_id"] for row in index.provenance.take(index.provenance_of_asset(whole), ["example_id"])}
        positions = sorted({at for one in index.has_examples(ids) for at in index.examples_of(one)})
        found = self._from_examples(positions)
        found["assets"] = [asset for asset in found["assets"] if asset["asset_id"] == whole]
        return self._traced("asset", whole, **found)

    def _from_examples(self, positions: Sequence[int]) -> dict[str, Any]:
        places = self._ancestry.own.places_of(positions)
        examples = self.chain.examples_at(positions)
        sequences = [
            one
            for example, place in zip(examples, places, strict=True)
            for one in self.chain.sequences_of(example["example_id"], place)
        ]
        return _linked(self.chain, sequences, dict(zip(places, examples, strict=True)))

    def _traced(self, kind: str, asked: str, **found: Any) -> dict[str, Any]:
        nothing: dict[str, Any] = {"batch": None, "sequences": [], "examples": [], "assets": [], "history": []}
        return self._answer({"kind": kind, "asked": asked, **nothing, **found})

    def _answer(self, parts: dict[str, Any]) -> dict[str, Any]:
        dataset = self.dataset
        return {
            "dataset": self.dataset.where,
            "id": dataset.id,
            "stage": dataset.stage,
            **parts,
            "datasets": self._ancestry.to_json(),
        }


def _ids(index: Index, digits: str) -> set[tuple[str, str]]:
    """(kind, whole id) of the examples and assets of a dataset whose ids begin with `digits`."""
    found = {("asset", one) for one in index.asset_ids(index.provenance_of_asset(digits))}
    if len(digits) <= 32:
        found |= {("example", one) for one in index.example_ids(index.examples_of(digits))}
    return found


def _linked(chain: Chain, sequences: list[dict[str, Any]], examples: dict[Place, dict[str, Any]]) -> dict[str, Any]:
    """Sequences that name their example by its number in `examples`."""
    number = {place: at for at, place in enumerate(examples)}
    for sequence in sequences:
        sequence["example"] = number[sequence["example"]]
    listed = list(examples.values())
    return {"sequences": sequences, "examples": listed, "assets": chain.assets_of(listed)}
