"""Pictures that cannot be decoded: the run stops, or the targets of their sequence are taken away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from torch import Tensor

from shardkit.errors import SourceError
from shardkit.loader.batch import BatchInfo, Quarantined, Sizes
from shardkit.media.reasons import BadMedia

MAX_QUARANTINED = 100
"""Pictures that one rank may mask before the run stops: so many are no accident."""
LONGEST_DETAIL = 100
"""Characters; a state has room for as many quarantined pictures as are allowed."""


def unreadable(image: int, where: str, bad: BadMedia) -> SourceError:
    """What stops a run.

    Args:
        image: index into the example's images.
        where: the example.
    """
    return SourceError(
        f"image {image} cannot be decoded ({bad})",
        where=where,
        hint='leave the example out, or read with StreamingLoader(on_bad="quarantine"), which masks what cannot be decoded',
    )


def by_picture(entries: Iterable[Quarantined]) -> dict[tuple[int, int, int], Quarantined]:
    """Entries by (sequence shard, row, image), so that none is counted twice."""
    return {(entry.shard, entry.row, entry.image): entry for entry in entries}


def mask(meta: Tensor, sizes: Sizes, sequence: int) -> Tensor:
    """The words of a batch with no token of one sequence a target."""
    parts, masked = sizes.parts(), meta.clone()
    words = masked.numpy()
    documents = words[parts["sequence_starts"]][sequence : sequence + 2]
    first, last = words[parts["document_starts"]][documents]
    words[parts["objectives"]].view(np.uint8)[first:last] = 0
    return masked


def with_entry(info: BatchInfo, sequence: int, image: int, bad: BadMedia) -> BatchInfo:
    """`info` that tells of an image of one of its sequences."""
    shard, row = info.rows[sequence]
    entry = Quarantined(
        example_id=info.example_ids[sequence],
        shard=shard,
        row=row,
        image=image,
        reason=bad.reason,
        detail=bad.detail[:LONGEST_DETAIL],
    )
    return replace(info, quarantined=(*info.quarantined, entry))
