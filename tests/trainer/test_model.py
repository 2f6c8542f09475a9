"""Packed and unpacked agree, nothing crosses a document's border, slots and image rows match one to one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from shardkit.errors import IntegrityError
from shardkit.loader.segments import attend_dense
from shardkit.trainer.model import token_losses
from tests.trainer.builders import IMAGE_TOKEN, Doc, docs_with_pictures, make_batch, make_model, picture


def logits_by_doc(model, batch):
    bounds = batch.cu_seq_lens_q.tolist()
    return torch.split(model.logits(batch), [end - start for start, end in pairwise(bounds)])


@pytest.mark.parametrize("positions", [None, 64], ids=["rotary", "learned"])
def test_packed_and_unpacked_logits_agree(positions):
    # Rotary positions are relative: positions that did not restart would change logits by 1e-6 only. Learned ones show it.
    model, docs = make_model(positions=positions), docs_with_pictures()
    with torch.no_grad():
        packed = logits_by_doc(model, make_batch(docs))
        alone = [model.logits(make_batch([doc])) for doc in docs]
        for one, other in zip(packed, alone, strict=True):
            assert (one - other).abs().max() < 1e-5
        assert max(one.abs().max() for one in packed) > 0.1  # at logits of this size


@pytest.mark.parametrize("positions", [None, 64], ids=["rotary", "learned"])
def test_packed_and_unpacked_gradients_agree(positions):
    docs = docs_with_pictures()
    packed, alone = make_model(positions=positions), make_model(positions=positions)
    packed.losses(make_batch(docs)).sum().backward()
    for doc in docs:
        alone.losses(make_batch([doc])).sum().backward()
    for (name, one), other in zip(packed.named_parameters(), alone.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-5, rtol=1e-4), name
    assert packed.vision.projector.weight.grad.abs().max() > 1e-3


def test_positions_that_run_on_over_documents_would_be_noticed():
    model, docs = make_model(positions=64), docs_with_pictures()
    batch = make_batch(docs)
    wrong = replace(batch, position_ids=torch.arange(batch.input_ids.numel())[None])
    with torch.no_grad():
        assert (model.logits(batch) - model.logits(wrong)).abs().max() > 1e-3


def test_attention_by_segments_is_that_of_one_dense_mask():
    model, batch = make_model(), make_batch(docs_with_pictures())
    with torch.no_grad():
        fast = model.logits(batch)
        model.attend = attend_dense
        assert (model.logits(batch) - fast).abs().max() < 1e-5


@pytest.mark.parametrize("changed", range(5))
def test_a_changed_document_changes_no_logit_of_another(changed):
    model, docs = make_model(positions=64), docs_with_pictures()
    other = [*docs]
    old = docs[changed]
    other[changed] = replace(
        old,
        text=tuple(token + 1 for token in old.text),
        images=tuple(picture(99 + n, *image.shape[:2]) for n, image in enumerate(old.images)),
    )
    with torch.no_grad():
        before, after = (logits_by_doc(model, make_batch(some)) for some in (docs, other))
    for number, (one, two) in enumerate(zip(before, after, strict=True)):
        if number == changed:
            assert (one - two).abs().max() > 1e-3
        else:
            assert torch.equal(one, two), number


def test_a_token_sees_nothing_behind_it():
    model = make_model()
    one, two = (make_batch([Doc(text=(7, 8, last, 9), images=(picture(1),))]) for last in (10, 11))
    changed = one.input_ids[0].ne(two.input_ids[0]).nonzero().item()
    with torch.no_grad():
        before, after = model.logits(one), model.logits(two)
    assert torch.equal(before[:changed], after[:changed])
    assert ((before[changed:] - after[changed:]).abs().amax(1) > 1e-3).all()


def test_pixels_reach_the_logits_of_their_own_document():
    model = make_model()
    one, two = (make_batch([Doc(text=(7, 8, 2), images=(picture(seed),))]) for seed in (1, 2))
    with torch.no_grad():
        assert (model.logits(one) - model.logits(two)).abs().max() > 1e-3


def test_a_slot_reads_its_own_row_whatever_stands_there():
    model, batch = make_model(), make_batch(docs_with_pictures())
    with torch.no_grad():
        rows = model.image_rows(batch)
        assert len(rows) == int((batch.input_ids == IMAGE_TOKEN).sum()) == int(batch.image_slots.sum())
        embedding = model.lm.embed_tokens.weight
        before = model.hidden(batch, rows)
        embedding[IMAGE_TOKEN] += 1.0
        assert torch.equal(before, model.hidden(batch, rows))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda batch: {"slot_rows": torch.full_like(batch.slot_rows, -1)}, "do not stand at the same"),
        (lambda batch: {"input_ids": torch.full_like(batch.input_ids, 7)}, "do not stand at the same"),
        (lambda batch: {"image_slots": batch.image_slots[:0]}, "rows of image embeddings"),
        (lambda batch: {"slot_rows": batch.slot_rows.clamp(max=0)}, "rows of image embeddings"),
        (lambda batch: {"image_slots": batch.image_slots + 1}, "slots, the tower makes 4"),
    ],
    ids=["no slots", "no image tokens", "no pixels", "one row for all", "too many slots"],
)
def test_image_tokens_slots_and_pixels_that_do_not_match_are_refused(spoil, message):
    batch = make_batch([Doc(text=(7, 8, 2), images=(picture(1),))])
    make_model().losses(batch)
    with pytest.raises(IntegrityError, match=message):
        make_model().losses(replace(batch, **spoil(batch)))


def test_a_batch_with_images_is_refused_by_a_model_without_a_tower():
    batch = make_batch([Doc(text=(7, 8, 2), images=(picture(1),))])
    with pytest.raises(IntegrityError, match="4 image slots in the tokens, 0 rows"):
        make_model(vision=False).losses(batch)


def test_a_batch_of_texts_needs_no_tower():
    batch = make_batch([Doc(text=(7, 8, 2)), Doc(text=(9, 2))])
    with torch.no_grad():
        assert torch.equal(make_model(vision=False).losses(batch), make_model().losses(batch))


def test_an_empty_share_gives_empty_losses():
    losses = make_model().losses(make_batch([]))
    assert losses.shape == (0,)
    losses.sum().backward()


def test_chunked_losses_are_those_of_whole_logits():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(10, 8, generator=generator, requires_grad=True)
    head = torch.randn(12, 8, generator=generator, requires_grad=True)
    targets = torch.tensor([3, -100, 5, 0, 11, -100, 2, 2, 7, 1])
    whole = torch.nn.functional.cross_entropy(hidden @ head.T, targets, ignore_index=-100, reduction="none")
    expected = torch.autograd.grad(whole.sum(), (hidden, head))
    for chunk in (1, 3, 10, 64):
        chunked = token_losses(hidden, head, targets, chunk=chunk)
        assert torch.allclose(chunked, whole)
        assert chunked[1] == chunked[5] == 0
        for one, other in zip(torch.autograd.grad(chunked.sum(), (hidden, head)), expected, strict=True):
            assert torch.allclose(one, other, atol=1e-6)
