"""The last step of every recipe: drafts to sequences of at most max_tokens, or the reason why not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shardkit.errors import SourceError
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.overlong import truncated, windows

if TYPE_CHECKING:
    from collections.abc import Sequence as List

    from shardkit.records import Example
    from shardkit.sequence.recipes.draft import Draft
    from shardkit.sequence.sequence import Sequence


def has_roles(example: Example) -> bool:
    """Whether the example is a dialogue or has parts with names of their own, which plain recipes would run together."""
    return any(segment.role is not None or segment.name is not None for segment in example.segments)


def finish(example: Example, drafts: List[Draft], max_tokens: int, overlong: str) -> Built:
    """The sequences of `example`, whose `drafts` are cut as `overlong` says and numbered through.

    Raises:
        SourceError: with `overlong` = error, where a draft is too long.
    """
    if not any(draft.has_target for draft in drafts):
        return Built(reason="no_targets", detail="it has no text, or none that is supervised")
    longest = max(len(draft) for draft in drafts)
    if longest > max_tokens and overlong == "error":
        raise SourceError(
            f"the example has {longest} tokens, --max-tokens is {max_tokens}",
            where=f"example {example.example_id}",
            hint="raise --max-tokens, or choose --overlong window, truncate or drop",
        )
    if longest > max_tokens and overlong == "drop":
        return Built(reason="too_long", detail=f"{longest} tokens, --max-tokens is {max_tokens}")
    changes: Counter[str] = Counter()
    sequences: list[Sequence] = []
    for draft in drafts:
        if overlong == "truncate":
            pieces = [(0, truncated(len(draft), draft.spans, max_tokens))]
            changes["tokens_truncated"] += len(draft) - pieces[0][1]
        else:
            pieces = list(windows(len(draft), draft.spans, max_tokens))
        for start, end in pieces:
            sequence = draft.piece(start, end, len(sequences))
            if sequence.num_supervised:
                sequences.append(sequence)
            else:
                changes["windows_without_targets"] += 1
    if not sequences:
        return Built(reason="no_targets", detail="what is left of it after the cut is no target")
    shown = {slot.image for sequence in sequences for slot in sequence.slots}
    changes["images_dropped"] = len(example.images) - len(shown)
    if longest > max_tokens:
        changes["examples_truncated" if overlong == "truncate" else "examples_windowed"] = 1
    return Built(sequences=tuple(sequences), changes={name: count for name, count in changes.items() if count})
