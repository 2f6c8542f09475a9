"""Every back end gives what one dense mask gives; nothing leaks."""

import numpy as np
import pytest
import torch

from shardkit.errors import ConfigError
from shardkit.loader.attention import BACKENDS, attend
from shardkit.loader.masks import AttentionLayout, Bounds, CrossLayout


def documents(*lengths):
    bounds = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
    return AttentionLayout(cu_seqlens=bounds, max_length=max(lengths, default=0), num_tokens=int(bounds[-1]))


def images(random, rows, keys):
    """Ranges that never fall; about a third of the rows see nothing."""
    low = np.sort(random.integers(0, keys + 1, rows))
    high = np.maximum.accumulate(np.maximum(low, np.sort(random.integers(0, keys + 1, rows))))
    bounds = Bounds(low=torch.tensor(low, dtype=torch.int32), high=torch.tensor(high, dtype=torch.int32), num_keys=keys)
    return CrossLayout(bounds=bounds)


def drawn(random, rows, heads, width=8):
    return torch.tensor(random.standard_normal((rows, heads, width)), dtype=torch.float32)


@pytest.mark.parametrize("backend", ["sdpa", "flex"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_documents_as_one_dense_mask_has_them(backend, kv_heads):
    for seed in range(4):
        random = np.random.default_rng(seed)
        layout = documents(*random.integers(1, 120, 6).tolist(), 1, 1, 140)
        query = drawn(random, layout.num_tokens, 4)
        key, value = drawn(random, layout.num_tokens, kv_heads), drawn(random, layout.num_tokens, kv_heads)
        wanted = attend(query, key, value, layout, backend="dense")
        assert (attend(query, key, value, layout, backend=backend) - wanted).abs().max() < 1e-5
        assert wanted.abs().max() > 0.5


@pytest.mark.parametrize("backend", ["sdpa", "flex"])
def test_images_as_one_dense_mask_has_them(backend):
    empty = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        rows, keys = (int(n) for n in random.integers(1, 400, 2))
        layout = images(random, rows, keys)
        query, key, value = drawn(random, rows, 2), drawn(random, keys, 2), drawn(random, keys, 2)
        wanted = attend(query, key, value, layout, backend="dense")
        found = attend(query, key, value, layout, backend=backend)
        assert (found - wanted).abs().max() < 1e-5
        assert not found[~layout.sees_images].any()
        empty += int((~layout.sees_images).sum())
    assert empty > 10, "vacuous: every row sees something"


@pytest.mark.parametrize("backend", ["sdpa", "flex", "dense"])
def test_what_a_document_holds_changes_no_other(backend):
    random = np.random.default_rng(1)
    layout = documents(5, 130, 9)
    query, key, value = (drawn(random, 144, 2) for _ in range(3))
    before = attend(query, key, value, layout, backend=backend)
    key, value = key.clone(), value.clone()
    key[5:135], value[5:135] = 7.0, -3.0
    after = attend(query, key, value, layout, backend=backend)
    assert torch.equal(before[:5], after[:5])
    assert torch.equal(before[135:], after[135:])
    assert not torch.equal(before[5:135], after[5:135])


@pytest.mark.parametrize("backend", ["sdpa", "flex", "dense"])
def test_what_an_image_shows_changes_no_row_that_does_not_see_it(backend):
    random = np.random.default_rng(4)
    low, high = ([0] * 90 + [0] * 60 + [7] * 90, [0] * 90 + [7] * 60 + [12] * 90)
    bounds = Bounds(low=torch.tensor(low).int(), high=torch.tensor(high).int(), num_keys=12)
    layout = CrossLayout(bounds=bounds)
    query, key, value = drawn(random, 240, 2), drawn(random, 12, 2), drawn(random, 12, 2)
    before = attend(query, key, value, layout, backend=backend)
    key, value = key.clone(), value.clone()
    key[7:], value[7:] = 7.0, -1e6
    after = attend(query, key, value, layout, backend=backend)
    assert torch.equal(before[:150], after[:150])
    assert not before[:90].any()
    assert (after[150:] < -9e5).all()


@pytest.mark.parametrize("backend", ["sdpa", "flex", "dense"])
def test_nothing_in_nothing_out(backend):
    nothing = torch.zeros(0, 2, 8)
    assert attend(nothing, nothing, nothing, documents(), backend=backend).shape == (0, 2, 8)
    none = torch.zeros(3, dtype=torch.int32)
    layout = CrossLayout(bounds=Bounds(low=none, high=none, num_keys=0))
    assert not attend(torch.ones(3, 2, 8), nothing, nothing, layout, backend=backend).any()


def test_gradients_are_those_of_the_dense_mask():
    random = np.random.default_rng(2)
    layout, found = documents(3, 40, 3), {}
    for backend in ("sdpa", "dense"):
        parts = [drawn(np.random.default_rng(number), 46, 2).requires_grad_() for number in range(3)]
        (attend(*parts, layout, backend=backend) * drawn(random, 46, 2)[:0].sum().add(1.5)).sum().backward()
        found[backend] = [part.grad for part in parts]
    assert all((one - other).abs().max() < 1e-5 for one, other in zip(*found.values(), strict=True))


def test_a_back_end_that_cannot_serve_says_so():
    part, layout = torch.zeros(3, 2, 8), documents(3)
    with pytest.raises(ConfigError, match="none of sdpa, varlen, flex, dense, auto"):
        attend(part, part, part, layout, backend="fast")
    with pytest.raises(ConfigError, match="half precision"):
        attend(part, part, part, layout, backend="varlen")
    with pytest.raises(ConfigError, match="no gradients on a CPU"):
        attend(part.requires_grad_(), part, part, layout, backend="flex")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("backend", ["varlen", "flex"])
def test_kernels_on_cuda(backend):
    random = np.random.default_rng(3)
    layout = documents(5, 130, 9, 700)
    layout = AttentionLayout(cu_seqlens=layout.cu_seqlens.cuda(), max_length=700, num_tokens=844)
    parts = [drawn(random, 844, 4, width=64) for _ in range(3)]
    wanted = attend(*(part.double() for part in parts), documents(5, 130, 9, 700), backend="dense").float().cuda()
    parts = [part.cuda() for part in parts]
    if backend == "flex":
        assert (attend(*parts, layout, backend="flex") - wanted).abs().max() < 1e-5
        assert (attend(*parts, layout, backend="dense") - wanted).abs().max() < 1e-5
    found = attend(*(part.bfloat16() for part in parts), layout, backend=backend).float()
    assert ((found - wanted).norm() / wanted.norm()) < 2e-2


def test_the_table_lists_every_kernel():
    assert list(BACKENDS) == ["sdpa", "varlen", "flex", "dense"]
