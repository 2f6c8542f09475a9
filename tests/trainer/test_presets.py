"""What docs/training.md says of the model, on the model that runs: presets, grouped heads, tied head, positions, streams."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from shardkit.loader.device import PATCH_SIZES
from shardkit.media.processors.omvt import KINDS
from shardkit.trainer.layers import SwiGLU, initialise
from shardkit.trainer.model import VisionLanguage, rotary_angles
from shardkit.trainer.sizes import PRESETS
from tests.trainer.builders import IMAGE_TOKEN, Doc, docs_with_pictures, make_batch, make_model, picture

VOCABULARY = 6400
PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def build(preset: str, *, theta: float = 10_000.0) -> VisionLanguage:
    size = PRESETS[preset]
    return VisionLanguage(size, vocab_size=VOCABULARY, image_token=IMAGE_TOKEN, patch_sizes=PATCH_SIZES, theta=theta)


def make_smoke(*, theta: float = 10_000.0) -> VisionLanguage:
    model = build("smoke", theta=theta)
    initialise(model, 0)
    return model


@pytest.mark.parametrize("preset", PRESETS)
def test_sizes_are_those_of_the_page(preset: str):
    with torch.device("meta"):
        model = build(preset)
    size = PRESETS[preset]
    millions = [sum(p.numel() for p in part.parameters()) / 1e6 for part in (model.lm, model.vision)]
    heads = f"{size.heads}, {size.kv_heads}"
    row = f"| `{preset}` | {size.width} | {size.layers} | {heads} | {millions[0]:.1f} M | {millions[1]:.1f} M |"
    assert row in PAGE.read_text()
    assert size.kv_heads < size.heads  # grouped
    assert model.lm.blocks[0].inward.out_features == (size.heads + 2 * size.kv_heads) * size.width // size.heads
    assert isinstance(model.lm.blocks[0].mlp, SwiGLU)
    assert isinstance(model.lm.norm, torch.nn.RMSNorm)


def test_the_head_is_the_embedding():
    model = make_smoke()
    batch = make_batch([Doc(text=(7, 8, 2))])
    assert not any("head" in name for name, _ in model.named_parameters())
    with torch.no_grad():
        before = model.logits(batch)
        model.lm.embed_tokens.weight[99] *= 2  # a token that the batch does not have
        after = model.logits(batch)
    assert torch.allclose(after[:, 99], 2 * before[:, 99])
    assert torch.equal(before[:, :99], after[:, :99])


def test_grouped_heads_are_whole_ones_that_share_keys_and_values():
    """With the weights of keys and values repeated for each query head, whole attention gives the same."""
    model, batch = make_smoke(), make_batch(docs_with_pictures())
    with torch.no_grad():
        grouped = model.logits(batch)
        for block in model.lm.blocks:
            query, key, value = block.inward.weight.split(block.widths)
            key, value = (
                part.unflatten(0, (-1, block.head)).repeat_interleave(block.repeats, dim=0).flatten(0, 1)
                for part in (key, value)
            )
            block.widths = (len(query), len(key), len(value))
            block.repeats = 1
            block.inward.weight = torch.nn.Parameter(torch.cat([query, key, value]))
        assert block.widths[0] == block.widths[1]
        assert (model.logits(batch) - grouped).abs().max() < 1e-5


def test_a_larger_theta_turns_slower():
    near, far = (rotary_angles(torch.arange(100), 16, theta) for theta in (1e4, 1e6))
    assert torch.equal(near[:, 0], far[:, 0])
    assert (far[1:, 1:] < near[1:, 1:]).all()
    batch = make_batch([Doc(text=tuple(range(7, 30)))])
    with torch.no_grad():
        assert (make_smoke().logits(batch) - make_smoke(theta=1e6).logits(batch)).abs().max() > 1e-3


@pytest.mark.parametrize("kind", range(4), ids=KINDS)
def test_forcing_a_stream_changes_what_the_smoke_model_sees(kind: int):
    model = make_smoke()
    batch = make_batch([Doc(text=(7, 2), images=(picture(1),))])
    weights = torch.full((1, 4), 1e-6)
    weights[:, kind] = 1.0
    with torch.no_grad():
        rows, forced = model.image_rows(batch), model.image_rows(batch, weights=weights)
    assert (rows - forced).abs().max() > 1e-2
    # Not only by their size: what is left when both are scaled alike differs too.
    rows, forced = (torch.nn.functional.normalize(part, dim=1) for part in (rows, forced))
    assert (rows - forced).abs().max() > 1e-2


def test_pictures_of_unlike_sizes_go_through_the_tower_together_without_padding():
    model = make_model()
    images = [picture(1), picture(2, 28, 140), picture(3, 112, 30), picture(4, 61, 61)]
    seen: dict[str, int] = {}
    for kind, stream in model.vision.streams.items():
        stream.embed.register_forward_pre_hook(lambda _m, inputs, kind=kind: seen.__setitem__(kind, len(inputs[0])))
    with torch.no_grad():
        together = model.image_rows(make_batch([Doc(text=(7, 2), images=(image,)) for image in images]))
        packed = dict(seen)
        alone, counted = [], dict.fromkeys(seen, 0)
        for image in images:
            alone.append(model.image_rows(make_batch([Doc(text=(7, 2), images=(image,))])))
            counted = {kind: counted[kind] + seen[kind] for kind in counted}
    assert (together - torch.cat(alone)).abs().max() < 1e-5
    for kind, (height, width) in PATCH_SIZES.items():
        patches = sum(-(-image.shape[0] // height) * -(-image.shape[1] // width) for image in images)
        assert packed[kind] == counted[kind] == patches
