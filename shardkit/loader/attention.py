"""Attention over a packed batch: one question, several kernels that answer it alike.

    attend(query, key, value, AttentionLayout.of(batch))        causal, inside each document
    attend(query, key, value, layout_of_images)                 from tokens to the images that they see

    back end   where        how
    sdpa       anywhere     one call for all documents of a length; the default without CUDA
    varlen     CUDA         the variable-length kernel, half precision; documents only
    flex       CUDA, CPU    FlexAttention with blocks written down from the boundaries (no gradients on a CPU)
    dense      anywhere     one mask over everything: the reference

T: rows of queries, K: keys, H: heads, D: width of a head. Keys may have fewer heads, a divisor of H.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from shardkit.errors import ConfigError
from shardkit.loader import segments
from shardkit.loader.masks import AttentionLayout, CrossLayout
from shardkit.loader.segments import Segments

Layout = AttentionLayout | CrossLayout


def attend(query_THD: Tensor, key_KHD: Tensor, value_KHD: Tensor, layout: Layout, *, backend: str = "auto") -> Tensor:
    """[T, H, D]: scaled dot-product attention where the layout allows it; 0 for a row that may attend to nothing.

    Args:
        backend: a name of BACKENDS; auto takes varlen for documents and flex for images on CUDA in half precision, else
            sdpa.

    Raises:
        ConfigError: for an unknown back end, or one that cannot serve this layout, device or precision.
    """
    if backend == "auto":
        backend = _best(query_THD, layout)
    if backend not in BACKENDS:
        raise ConfigError(f"attention back end {backend!r} is none of {', '.join(BACKENDS)}, auto", hint="choose one")
    return BACKENDS[backend](query_THD, key_KHD, value_KHD, layout)


def _best(query: Tensor, layout: Layout) -> str:
    if not query.is_cuda:
        return "sdpa"
    if isinstance(layout, CrossLayout):
        return "flex"
    return "varlen" if query.dtype in (torch.float16, torch.bfloat16) else "flex"


def _sdpa(query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
    key, value = (_with_heads(part, query.shape[1]) for part in (key, value))
    if isinstance(layout, AttentionLayout):
        lengths = [end - start for start, end in pairwise(layout.cu_seqlens.tolist())]
        return segments.attend(query, key, value, Segments.of(lengths, device=query.device), causal=True)
    bounds = layout.bounds
    changes = (bounds.low[1:] != bounds.low[:-1]) | (bounds.high[1:] != bounds.high[:-1])
    starts = [0, *(torch.nonzero(changes)[:, 0] + 1).tolist()] if len(bounds.low) else []
    low, high = (part[starts].tolist() for part in (bounds.low, bounds.high))
    lengths = [end - start for start, end in pairwise([*starts, len(bounds.low)])]
    keys = [max(0, last - first) for first, last in zip(low, high, strict=True)]
    found = segments.attend(query, key, value, Segments.at(starts, lengths, low, keys, device=query.device))
    return torch.where(layout.sees_images[:, None, None], found, 0)


def _dense(query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
    key, value = (_with_heads(part, query.shape[1]) for part in (key, value))
    allowed = layout.dense()
    # Rows first, heads in front, as the function wants them; a row with nothing to see would be NaN.
    seen = allowed.any(dim=1)
    query, key, value = (part.transpose(0, 1) for part in (query, key, value))
    found = scaled_dot_product_attention(query, key, value, attn_mask=allowed | ~seen[:, None])
    return torch.where(seen[:, None, None], found.transpose(0, 1), 0)


def _flex(query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
    if not len(query) or not len(key):
        return torch.zeros_like(query)
    if not query.is_cuda and query.requires_grad:
        raise ConfigError("FlexAttention has no gradients on a CPU", hint="take back end sdpa there")
    with warnings.catch_warnings():
        # On a CPU it is not compiled, which torch warns of; what it warns of is gradients, and these are refused above.
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        found = _compiled(query.is_cuda)(
            *(part.transpose(0, 1)[None] for part in (query, key, value)),
            block_mask=layout.block_mask,
            enable_gqa=key.shape[1] != query.shape[1],
        )
    output: Tensor = found[0].transpose(0, 1)
    if isinstance(layout, CrossLayout):
        output = torch.where(layout.sees_images[:, None, None], output, 0)
    return output


def _varlen(query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
    if isinstance(layout, CrossLayout) or not query.is_cuda or query.dtype not in (torch.float16, torch.bfloat16):
        raise ConfigError(
            "the variable-length kernel takes documents on CUDA in half precision only",
            hint="take back end flex or sdpa",
        )
    from torch.nn.attention.varlen import varlen_attn

    known = inspect.signature(varlen_attn).parameters
    # The argument for causal attention was renamed between versions of torch; grouped heads came with the new name.
    options: dict[str, Any] = {"window_size": (-1, 0)} if "window_size" in known else {"is_causal": True}
    if "enable_gqa" in known:
        options["enable_gqa"] = key.shape[1] != query.shape[1]
    else:
        key, value = (_with_heads(part, query.shape[1]) for part in (key, value))
    bounds = layout.cu_seqlens
    longest = layout.max_length
    # With no further outputs asked for it is one tensor.
    return cast(Tensor, varlen_attn(query, key, value, bounds, bounds, longest, longest, **options))


BACKENDS: dict[str, Callable[[Tensor, Tensor, Tensor, Layout], Tensor]] = {
    "sdpa": _sdpa,
    "varlen": _varlen,
    "flex": _flex,
    "dense": _dense,
}


def _with_heads(part: Tensor, heads: int) -> Tensor:
    return part if part.shape[1] == heads else part.repeat_interleave(heads // part.shape[1], dim=1)


@cache
def _compiled(cuda: bool) -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    # Compiled it is a fused kernel; as it stands it makes the whole matrix of logits, which is fine to compare with.
    kernel = torch.compile(flex_attention, dynamic=True) if cuda else flex_attention
    return cast("Callable[..., Any]", kernel)
