"""The last step of every recipe: drafts to sequences of at most max_tokens, or the reason why not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shardkit.errors import SourceError
from shardkit.sequence.recipes.built import Built
from shardkit.sequence.recipes.draft import Draft
from shardkit.sequence.recipes.overlong import before_images, truncated, windows

if TYPE_CHECKING:
    from collections.abc import Sequence as List

    from shardkit.records import Example
    from shardkit.sequence.sequence import Sequence


def has_roles(example: Example) -> bool:
    """Whether the example is a dialogue or has parts with names of their own, which plain recipes would run together."""
    return any(segment.role is not None or segment.name is not None for segment in example.segments)


def distinct(drafts: List[Draft]) -> tuple[List[Draft], int]:
    """The drafts to store, and of how many alternatives: those of the first one only, where all others say the same."""
    by_number: dict[int, list[Draft]] = {}
    for draft in drafts:
        by_number.setdefault(draft.alternative, []).append(draft)
    first, *others = by_number.values()
    if all(len(other) == len(first) and all(map(Draft.same_tokens, first, other)) for other in others):
        return first, 1
    return drafts, len(by_number)


def too_long(example: Example, num_tokens: int, max_tokens: int, overlong: str, hint: str) -> Built:
    """What becomes of an example that is too long and is not to be cut.

    Raises:
        SourceError: with `overlong` = error.
    """
    if overlong == "error":
        raise SourceError(
            f"the example has {num_tokens} tokens, --max-tokens is {max_tokens}",
            where=f"example {example.example_id}",
            hint=hint,
        )
    return Built(reason="too_long", detail=f"{num_tokens} tokens, --max-tokens is {max_tokens}")


def no_room(drafts: List[Draft], max_tokens: int, *, has_bos: bool) -> Built | None:
    """The refusal of an image that is too long for any sequence with a target behind it; None where there is room."""
    room = max_tokens - has_bos - 1
    longest = max((end - start for draft in drafts for start, end in draft.spans), default=0)
    if longest <= room:
        return None
    beside = "bos and a target" if has_bos else "a target"
    return Built(
        reason="image_too_long",
        detail=f"an image takes {longest} tokens; {max_tokens} leave room for {room} beside {beside}",
    )


def finish(
    example: Example,
    drafts: List[Draft],
    max_tokens: int,
    overlong: str,
    *,
    trim: bool = False,
    has_bos: bool = False,
) -> Built:
    """The sequences of `example`, whose `drafts` are cut as `overlong` says and numbered through.

    Args:
        drafts: at least one; those of one alternative side by side, alternatives from 0 in order.
        trim: with `overlong` = truncate, leave out images directly before the cut: the text behind them is gone.
        has_bos: a token before everything, which an image must leave room for.

    Raises:
        SourceError: with `overlong` = error, where a draft is too long.
    """
    refused = no_room(drafts, max_tokens, has_bos=has_bos)
    if refused is not None:
        return refused
    if not any(draft.has_target for draft in drafts):
        return Built(reason="no_targets", detail="it has no text, or none that is supervised")
    drafts, alternatives = distinct(drafts)
    longest = max(len(draft) for draft in drafts)
    if longest > max_tokens and overlong in ("error", "drop"):
        hint = "raise --max-tokens, or choose --overlong window, truncate or drop"
        return too_long(example, longest, max_tokens, overlong, hint)
    changes = sum((draft.changes for draft in drafts), Counter[str]())
    sequences: list[Sequence] = []
    for draft in drafts:
        if overlong == "truncate":
            end = truncated(len(draft), draft.spans, max_tokens)
            if trim and end < len(draft):
                kept = before_images(end, draft.spans)
                changes["images_trailing"] += sum(kept <= first and last <= end for first, last in draft.spans)
                end = kept
            pieces = [(0, end)]
            changes["tokens_truncated"] += len(draft) - end
        else:
            pieces = list(windows(len(draft), draft.spans, max_tokens))
        for start, end in pieces:
            sequence = draft.piece(start, end, len(sequences), alternatives)
            if sequence.num_supervised:
                sequences.append(sequence)
            else:
                changes["windows_without_targets"] += 1
    if not sequences:
        return Built(reason="no_targets", detail="what is left of it after the cut is no target")
    changes["alternatives_without_targets"] = alternatives - len({sequence.alternative for sequence in sequences})
    shown = {slot.image for sequence in sequences for slot in sequence.slots}
    changes["images_dropped"] = len(example.images) - len(shown)
    if longest > max_tokens:
        changes["examples_truncated" if overlong == "truncate" else "examples_windowed"] = 1
    return Built(sequences=tuple(sequences), changes={name: count for name, count in changes.items() if count})
