"""What heads of the image tower learn from an image's slots: labels and the order in which they are read.

slots = 6     reading_order  [5, 0]                   ->  [5, 0, 1, 2, 3, 4]        completed, ascending
                             [5, 5], [6], [-1]        ->  refused
                             missing or empty         ->  none: an order that was made up would be learned as true
              ocr_labels     [7, 8, 9, 7, 8, 9, 7]    ->  [7, 8, 9, 7, 8, 9]        cut, one label counted
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardkit.sequence.recipes.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence


def completed_order(order: Sequence[int] | None, slots: int) -> tuple[int, ...] | None:
    """All slots of an image in reading order.

    Raises:
        Refused: where `order` names a slot twice, or one that is not there.
    """
    if not order:
        return None
    for place in order:
        if not 0 <= place < slots:
            raise Refused("bad_reading_order", f"reading_order names slot {place}, the image has {slots} slots")
    named = set(order)
    if len(named) < len(order):
        twice = next(place for place in order if order.count(place) > 1)
        raise Refused("bad_reading_order", f"reading_order names slot {twice} twice")
    return (*order, *(slot for slot in range(slots) if slot not in named))


def cut_labels(labels: Sequence[int] | None, slots: int) -> tuple[tuple[int, ...] | None, int]:
    """At most a label a slot, and how many were cut off; no labels are None."""
    if not labels:
        return None, 0
    return tuple(labels[:slots]), max(0, len(labels) - slots)
