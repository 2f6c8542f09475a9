"""Packed against unpacked, of any task: every document of a batch alone must give what it gives in the pack.

Rotary positions are relative, so positions that do not restart in a document change logits by less than the bound:
learned positions show it (tests/trainer/test_model.py spoils them and looks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from shardkit.loader import Batch, unpack
from shardkit.loader.batch import PixelForm, lay_out
from shardkit.loader.device import build
from shardkit.loader.unpack import Unpacked
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.sequence import Sequence as TokenSequence
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import combine, numerators
from shardkit.trainer.preference import BETA, answers, of_pairs

BOUND = 1e-5
Loss = Callable[[list[Tensor], Sequence[Batch]], Tensor]
"""Token losses of some batches -> the loss of the task over all of them"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Largest absolute differences, beside the largest values that they are of."""

    documents: int
    logits: float
    largest_logit: float
    gradients: float
    largest_gradient: float
    leak: float
    """Of the logits of other documents, when the tokens and pictures of one are changed"""
    own: float
    """Of the changed document's own: what shows that the change was one"""

    @property
    def holds(self) -> bool:
        return self.logits < BOUND and self.gradients < BOUND and self.leak == 0.0 < self.own


def compare(model: VisionLanguage, batch: Batch, *, pairs: bool = False) -> Agreement:
    """The batch beside each of its documents alone.

    Args:
        pairs: the task is dpo: the loss is that of preferences, else that of tokens by objective.
    """
    documents = [document for pack in unpack(batch) for one in pack for document in _documents(one)]
    form = batch.sizes.form
    alone = [_laid_out([document], form) for document in documents]
    with torch.no_grad():
        logits = _by_document(model, batch)
        logits_alone = [model.logits(one) for one in alone]
    loss = _pair_loss(answers(model, batch).detach().double()) if pairs else _token_loss(batch)
    gradients, gradients_alone = (_gradients(model, loss, batches) for batches in ([batch], alone))
    probes = [
        _probe(model, documents, form, changed) for changed in sorted({0, len(documents) // 2, len(documents) - 1})
    ]
    return Agreement(
        documents=len(documents),
        logits=_apart(logits, logits_alone),
        largest_logit=max(float(one.abs().max()) for one in logits),
        gradients=_apart(gradients, gradients_alone),
        largest_gradient=max(float(one.abs().max()) for one in gradients),
        leak=max(others for others, _ in probes),
        own=min(own for _, own in probes),
    )


def _documents(one: Unpacked) -> list[Unpacked]:
    """The documents of a sequence as sequences of their own; only sequences of one document have pictures."""
    sequence = one.sequence
    if len(sequence.documents) == 1:
        return [one]
    bounds = pairwise([*sequence.documents, len(sequence.input_ids)])
    return [
        Unpacked(
            sequence=TokenSequence(input_ids=sequence.input_ids[a:b], objectives=sequence.objectives[a:b]), pixels=()
        )
        for a, b in bounds
    ]


def _laid_out(documents: Sequence[Unpacked], form: PixelForm) -> Batch:
    """One pack of these documents."""
    sequences = [document.sequence for document in documents]
    buffers = lay_out([sequences], np.zeros(len(OBJECTIVES), np.int64), form=form)
    pixels = [picture for document in documents for picture in document.pixels]
    for place, picture in zip(buffers.places, pixels, strict=True):
        place[:] = picture
    return build(buffers.meta, buffers.pixels, buffers.sizes)


def _by_document(model: VisionLanguage, batch: Batch) -> tuple[Tensor, ...]:
    return torch.split(model.logits(batch), torch.diff(batch.cu_seq_lens_q).tolist())


def _token_loss(packed: Batch) -> Loss:
    """Weights of 1, denominators of the packed batch alone."""
    denominators = torch.bincount(packed.objective_ids[0], minlength=len(OBJECTIVES)).double()
    weights = torch.ones(len(OBJECTIVES), dtype=torch.float64)
    weights[0] = 0.0  # no target

    def loss(losses: list[Tensor], batches: Sequence[Batch]) -> Tensor:
        parts = [numerators(one, batch.objective_ids[0]) for one, batch in zip(losses, batches, strict=True)]
        return combine(torch.stack(parts).sum(0), denominators, weights)

    return loss


def _pair_loss(references_S2: Tensor) -> Loss:
    """Documents come as chosen, rejected, chosen, ..."""

    def loss(losses: list[Tensor], batches: Sequence[Batch]) -> Tensor:
        by_document = [
            -part.double().sum()
            for one, batch in zip(losses, batches, strict=True)
            for part in torch.split(one, torch.diff(batch.cu_seq_lens_q).tolist())
        ]
        return of_pairs(torch.stack(by_document).view(-1, 2), references_S2, BETA)[:, 0].mean()

    return loss


def _gradients(model: VisionLanguage, loss: Loss, batches: Sequence[Batch]) -> list[Tensor]:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    total = loss([model.losses(batch) for batch in batches], batches)
    return list(torch.autograd.grad(total, parameters, materialize_grads=True))


def _probe(model: VisionLanguage, documents: Sequence[Unpacked], form: PixelForm, changed: int) -> tuple[float, float]:
    """(largest change of the others' logits, largest change of its own)"""
    spoiled = [*documents]
    spoiled[changed] = _spoiled(documents[changed], model)
    with torch.no_grad():
        before, after = (_by_document(model, _laid_out(some, form)) for some in (documents, spoiled))
    apart = [float((one - other).abs().max()) for one, other in zip(before, after, strict=True)]
    own = apart.pop(changed)
    return max(apart), own


def _spoiled(document: Unpacked, model: VisionLanguage) -> Unpacked:
    """Other tokens, and its pictures as negatives; image tokens stay where they are."""
    ids = document.sequence.input_ids.astype(np.int64)
    other = (ids + 1) % model.lm.embed_tokens.num_embeddings
    if model.image_token is not None:
        other = np.where((ids == model.image_token) | (other == model.image_token), ids, other)
    sequence = replace(document.sequence, input_ids=other.astype(np.uint32))
    return Unpacked(sequence=sequence, pixels=tuple(255 - picture for picture in document.pixels))


def _apart(some: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    return max(float((one - other).abs().max()) for one, other in zip(some, others, strict=True))
