"""Attention inside segments laid end to end: documents of a pack, patches of an image. Nothing is padded.

N: rows, H: heads, D: width of a head, B: segments of one size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

PairBias = Callable[[Tensor, Tensor], Tensor]
"""(rows_q [B, queries], rows_k [B, keys]) -> [B, H, queries, keys]"""


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentGroup:
    """Segments that have the same number of queries and of keys, so that one call serves them all."""

    rows_q: Tensor
    """[B, queries], rows into the flat queries"""
    rows_k: Tensor
    """[B, keys], rows into the flat keys"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Segments:
    """Which rows attend to which: the queries of segment i to the keys of segment i and to nothing else."""

    lengths_q: tuple[int, ...]
    lengths_k: tuple[int, ...]
    groups: tuple[SegmentGroup, ...]
    order: Tensor
    """[N], where each query row lies once the groups' outputs are laid end to end"""

    @classmethod
    def of(
        cls, lengths_q: Sequence[int], lengths_k: Sequence[int] | None = None, device: torch.device | str = "cpu"
    ) -> Segments:
        """Segments of these lengths, in the order of the rows; `lengths_k` is `lengths_q` where it is not given."""
        keys = lengths_q if lengths_k is None else lengths_k
        starts_q, starts_k = ([0, *accumulate(lengths)] for lengths in (lengths_q, keys))
        return cls.at(starts_q[:-1], lengths_q, starts_k[:-1], keys, device)

    @classmethod
    def at(
        cls,
        starts_q: Sequence[int],
        lengths_q: Sequence[int],
        starts_k: Sequence[int],
        lengths_k: Sequence[int],
        device: torch.device | str = "cpu",
    ) -> Segments:
        """Segments whose keys begin anywhere, and may be those of others too; their queries are side by side."""
        starts: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for start_q, length_q, start_k, length_k in zip(starts_q, lengths_q, starts_k, lengths_k, strict=True):
            if length_q:
                starts.setdefault((length_q, length_k), []).append((start_q, start_k))
        groups = tuple(
            SegmentGroup(
                rows_q=(torch.tensor([q for q, _ in at])[:, None] + torch.arange(length_q)).to(device),
                rows_k=(torch.tensor([k for _, k in at])[:, None] + torch.arange(length_k)).to(device),
            )
            for (length_q, length_k), at in starts.items()
        )
        rows = torch.cat([group.rows_q.flatten() for group in groups] or [torch.zeros(0, dtype=torch.long)])
        return cls(lengths_q=tuple(lengths_q), lengths_k=tuple(lengths_k), groups=groups, order=torch.argsort(rows))


def attend(
    query_NHD: Tensor,
    key_NHD: Tensor,
    value_NHD: Tensor,
    segments: Segments,
    *,
    causal: bool = False,
    bias: PairBias | None = None,
) -> Tensor:
    """[N, H, D]: scaled dot-product attention of each segment for itself.

    One call serves all segments of a size: exact, and on a CPU several times faster than one dense mask over
    the pack. What `bias` gives for the pairs of a segment is added to their logits.
    """
    outputs = []
    for group in segments.groups:
        # [B, rows, H, D] -> [B, H, rows, D]
        query, key, value = (
            source[rows].transpose(1, 2)
            for source, rows in ((query_NHD, group.rows_q), (key_NHD, group.rows_k), (value_NHD, group.rows_k))
        )
        added = None if bias is None else bias(group.rows_q, group.rows_k)
        output = scaled_dot_product_attention(query, key, value, attn_mask=added, is_causal=causal)
        outputs.append(output.transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)[segments.order] if outputs else torch.zeros_like(query_NHD)


def attend_dense(
    query_NHD: Tensor,
    key_NHD: Tensor,
    value_NHD: Tensor,
    segments: Segments,
    *,
    causal: bool = False,
    bias: PairBias | None = None,
) -> Tensor:
    """The slow, obvious form of `attend` it is compared with: one mask over everything."""
    segment_q = torch.repeat_interleave(torch.arange(len(segments.lengths_q)), torch.tensor(segments.lengths_q))
    segment_k = torch.repeat_interleave(torch.arange(len(segments.lengths_k)), torch.tensor(segments.lengths_k))
    allowed = segment_q[:, None] == segment_k[None, :]
    if causal:
        allowed = allowed & (torch.arange(len(segment_q))[:, None] >= torch.arange(len(segment_k))[None, :])
    logits = torch.einsum("qhd,khd->hqk", query_NHD, key_NHD) * query_NHD.shape[-1] ** -0.5
    if bias is not None:
        logits = logits + bias(torch.arange(len(segment_q))[None], torch.arange(len(segment_k))[None])[0]
    weights = logits.masked_fill(~allowed, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, value_NHD)
