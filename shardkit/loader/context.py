"""Where the ranks of one context-parallel group divide a batch: at borders of documents, or not at all.

Ranks that share a batch (context, tensor, pipeline parallelism) take the same data-parallel rank, so all of them have
the same batch, with the same ids. Each then keeps its piece of the tokens. A piece that began inside a document would
attend to what another rank has; that is a matter of the model (ring attention), and no border that is drawn here.

    documents  5 3 4 4   two ranks   [5 3 | 4 4]      three ranks, of at most 6   refused: 3 + 4 is more than 6
"""

from __future__ import annotations

from collections.abc import Sequence

from shardkit.errors import ConfigError


def context_pieces(documents: Sequence[int], size: int, *, max_tokens: int | None = None) -> list[tuple[int, int]]:
    """For each of `size` ranks the first of its documents and the one behind its last; the largest piece is the least.

    Args:
        documents: tokens of each document of a batch, in order: `torch.diff(batch.cu_seq_lens_q)`.
        max_tokens: of a piece; None for any.

    Raises:
        ConfigError: where no borders of documents give so small pieces.
    """
    if size < 1:
        raise ConfigError(f"a batch cannot be shared by {size} ranks", hint="give a number of ranks from 1 on")
    low, high = max(max(documents, default=0), -(-sum(documents) // size)), sum(documents)
    while low < high:
        middle = (low + high) // 2
        if len(_filled(documents, middle)) <= size:
            high = middle
        else:
            low = middle + 1
    if max_tokens is not None and low > max_tokens:
        raise ConfigError(
            f"pieces of {size} ranks that end with documents have {low} tokens at least, {max_tokens} is the limit",
            hint="cut documents shorter when they are tokenized (--max-tokens), use fewer ranks, or let the model's "
            "attention go across ranks",
        )
    ends = _filled(documents, low)
    ends += [len(documents)] * (size - len(ends))
    return list(zip([0, *ends], ends, strict=False))


def _filled(documents: Sequence[int], room: int) -> list[int]:
    """Ends of pieces that take as many documents as there is room for."""
    ends, held = [], 0
    for number, tokens in enumerate(documents):
        if held and held + tokens > room:
            ends.append(number)
            held = 0
        held += tokens
    return [*ends, len(documents)]
