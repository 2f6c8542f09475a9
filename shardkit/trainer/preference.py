"""Learning from preference pairs: the answer that was chosen is to gain on the one that was rejected.

    loss of a pair = -log sigmoid( beta x [ (chosen - its reference) - (rejected - its reference) ] )

"chosen" and "rejected" are the log-probabilities that the model gives each answer as a whole, the references those that it
gave them before the stage began. Direct Preference Optimization, Rafailov et al. 2023, arXiv 2305.18290.

References are worked out once, over all pairs, and stored in the run by the digests of the weights that gave them, of the
dataset, and of the file itself:

    RUN/reference-<weights>-<dataset>-<digest>.pt    rows [N, 2]: sequence shard and row;  values [N, 2]: chosen, rejected
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from shardkit.errors import IntegrityError
from shardkit.loader.batch import Sizes, lay_out
from shardkit.loader.device import Batch, build
from shardkit.loader.quarantine import unreadable
from shardkit.loader.reader import Reader
from shardkit.loader.rows import Loaded
from shardkit.media.reasons import BadMedia
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.source import read_lengths
from shardkit.sequence.sequence import Slot
from shardkit.store.dataset import Dataset
from shardkit.trainer.checkpoint import load_tensors, save_tensors
from shardkit.trainer.model import VisionLanguage

BETA = 0.1
"""How far a pair may pull the model from its reference, where nothing else is said."""
_TOKENS = 16_384
"""Of a batch of the reference pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """What the model said of each pair before the stage."""

    places: dict[tuple[int, int], int]
    """(sequence shard, row) -> row of `values`."""
    values: Tensor
    """[N, 2] float64: chosen, rejected."""

    def of(self, batch: Batch) -> Tensor:
        """[S, 2] of the pairs of a batch."""
        assert batch.info is not None, "a loader's batch knows its rows"
        return self.values[torch.tensor([self.places[place] for place in batch.info.rows], dtype=torch.int64)]


@dataclass(frozen=True, kw_only=True)
class PreferenceTask:
    """The loss of pairs, and beside it how often and by how much the chosen answer gains more."""

    references: References
    beta: float

    names = ("preference", "accuracy", "margin")
    """What is summed over pairs; the last two are watched, not learned."""

    @cached_property
    def weights(self) -> Tensor:
        """[names]"""
        return torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)

    def sums(self, model: VisionLanguage, batch: Batch) -> Tensor:
        """[names] float64 over the pairs of a batch."""
        return self.by_sequence(model, batch)[0].sum(0)

    def by_sequence(self, model: VisionLanguage, batch: Batch) -> tuple[Tensor, Tensor]:
        """([S, names], [S, names]): what a pair adds to each sum, and that it counts once."""
        if not batch.example_ids:
            nothing = torch.zeros(0, len(self.names), dtype=torch.float64)
            return nothing, nothing
        found = of_pairs(answers(model, batch), self.references.of(batch).to(model.device), self.beta)
        return found, torch.ones_like(found)

    def denominators(self, batch: Batch) -> Tensor:
        """[names] float64: the pairs of the global batch, which the plan knows."""
        assert batch.info is not None, "a loader's batch knows the global batch"
        return torch.full((len(self.names),), float(batch.info.global_sequences), dtype=torch.float64)


def of_pairs(answers_S2: Tensor, references_S2: Tensor, beta: float) -> Tensor:
    """[S, 3] float64: the loss of each pair, whether its chosen answer gained more, by how much more than the rejected one.

    Args:
        answers_S2: [S, 2] log-probabilities of the chosen and of the rejected answer.
        references_S2: the same by the reference.
    """
    gains_S2 = answers_S2.double() - references_S2
    margins_S = gains_S2[:, 0] - gains_S2[:, 1]
    watched_S = margins_S.detach()
    return torch.stack([-logsigmoid(beta * margins_S), (watched_S > 0).double(), watched_S], dim=1)


def answers(model: VisionLanguage, batch: Batch) -> Tensor:
    """[S, 2] log-probabilities of the targets of each pair's two documents.

    Raises:
        IntegrityError: where a sequence is no pair.
    """
    firsts_S = batch.sequence_starts[:-1].long()
    if batch.cu_seq_lens_q.shape[0] - 1 != 2 * len(firsts_S):
        raise IntegrityError(
            "a sequence of the dataset is no pair of two documents", hint="tokenize it with --recipe dpo or vlm-dpo"
        )
    losses_T = model.losses(batch).double()
    by_document = losses_T.new_zeros(2 * len(firsts_S)).index_add(0, batch.seq_idx[0].long(), losses_T)
    return -by_document[torch.stack([firsts_S, firsts_S + 1], dim=1)]


def references(model: VisionLanguage, dataset: Dataset, *, digest: str, folder: Path, make: bool) -> References:
    """The references of every pair of a dataset, in all its splits: read from `folder`, or worked out with `model` and stored there.

    Args:
        digest: of the weights that give them.
        make: whether `model` has these weights; else the file must be there.

    Raises:
        IntegrityError: where it is not.
        SourceError: where a picture cannot be decoded.
    """
    stem = f"reference-{digest}-{dataset.id[:16]}"
    hint = "restore the file, or train in a new --out"
    file = next(folder.glob(f"{stem}-*.pt"), None)
    if file is None:
        if not make:
            raise IntegrityError("the references of the run are missing", where=f"{folder / stem}-*.pt", hint=hint)
        found = [part for split in dataset.splits for part in _passes(model, dataset, read_lengths(dataset, split))]
        file = save_tensors(folder, stem, _joined(found))
    saved = load_tensors(file, hint=hint)
    places = {(shard, row): at for at, (shard, row) in enumerate(saved["rows"].tolist())}
    return References(places=places, values=saved["values"])


def _passes(
    model: VisionLanguage, dataset: Dataset, lengths: Lengths
) -> Iterator[tuple[list[tuple[int, int]], Tensor]]:
    """(rows, values) of some pairs after the other; alternatives too, because later passes take them."""
    reader = Reader(dataset, verify="read")
    try:
        with torch.no_grad():
            for first, stop in _ranges(lengths.tokens.tolist()):
                rows = list(zip(lengths.shard[first:stop].tolist(), lengths.row[first:stop].tolist(), strict=True))
                loaded = [reader.sequence(shard, row) for shard, row in rows]
                pack = [one.sequence for one in loaded]
                buffers = lay_out([pack], np.zeros(len(OBJECTIVES), np.int64), form=reader.form)
                shown = [(one, slot) for one in loaded for slot in sorted(one.sequence.slots, key=attrgetter("start"))]
                for place, (one, slot) in zip(buffers.places, shown, strict=True):
                    _show(reader, one, slot, place)
                batch = build(buffers.meta.to(model.device), buffers.pixels.to(model.device), Sizes.of(buffers.meta))
                yield rows, answers(model, batch).cpu()
    finally:
        reader.close()


def _show(reader: Reader, loaded: Loaded, slot: Slot, place: npt.NDArray[np.uint8]) -> None:
    try:
        reader.picture(loaded, slot, place)
    except BadMedia as bad:
        raise unreadable(slot.image, reader.place(loaded), bad) from bad


def _ranges(tokens: list[int]) -> Iterator[tuple[int, int]]:
    """Runs of at most _TOKENS tokens, or of one sequence that is longer."""
    first = held = 0
    for number, length in enumerate(tokens):
        if held and held + length > _TOKENS:
            yield first, number
            first, held = number, 0
        held += length
    if held:
        yield first, len(tokens)


def _joined(found: list[tuple[list[tuple[int, int]], Tensor]]) -> dict[str, Tensor]:
    rows = [row for some, _ in found for row in some]
    return {
        "rows": torch.tensor(rows, dtype=torch.int64).reshape(-1, 2),
        "values": torch.cat([torch.zeros(0, 2, dtype=torch.float64), *(part for _, part in found)]),
    }
