"""Which source is drawn next: the one that lacks most of its share. No chance in it.

A deficit is what a source lacks of its share of everything drawn so far. Of the sources that are not ahead, the one
is drawn that would be first to fall a whole sequence behind: its deficit is the largest for its weight. Plain
"largest deficit" drifts to two sequences off with many sources of unequal weights; this rule stays within one, at
every prefix, because no source is drawn ahead of its share and the most pressing one never waits.

    a 3, b 1      a has its share of nothing at 0, 4/3, 8/3, ... drawn;  b at 0, 4, 8, ...      a b a a a b a a
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import gcd, lcm


def by_deficit(
    weights: Sequence[int], amounts: Sequence[int], upcoming: Sequence[Sequence[int]], count: int, largest: int
) -> list[int]:
    """The place of the source of each of the next `count` draws; ties go to the lower place.

    Fewer draws where a source that is to be drawn has no more.

    Args:
        weights: of each source, above 0.
        amounts: units drawn of each.
        upcoming: units of its next sequences.
        largest: units of the largest sequence of all.
    """
    if len(weights) == 1:
        return [0] * min(count, len(upcoming[0]))
    common = gcd(*weights)
    weights = [weight // common for weight in weights]
    whole, scale = sum(weights), lcm(*weights)
    # All in units of 1 / scale of everything drawn. A source is not ahead from the time `due` on, when everything drawn
    # makes its share what was drawn of it; at `due + span` it is a whole sequence behind.
    pace = [whole * (scale // weight) for weight in weights]
    span = [largest * one for one in pace]
    due = [amount * one for amount, one in zip(amounts, pace, strict=True)]
    now = sum(amounts) * scale
    pressing = [(due[place] + span[place], place) for place in range(len(weights)) if due[place] <= now]
    ahead = [(due[place], place) for place in range(len(weights)) if due[place] > now]
    heapify(pressing)
    heapify(ahead)
    units = [iter(one).__next__ for one in upcoming]
    chosen: list[int] = []
    append = chosen.append
    for _ in range(count):
        while ahead and ahead[0][0] <= now:
            time, place = heappop(ahead)
            heappush(pressing, (time + span[place], place))
        place = pressing[0][1]
        try:
            amount = units[place]()
        except StopIteration:
            break
        append(place)
        now += amount * scale
        time = due[place] = due[place] + amount * pace[place]
        if time <= now:
            heapreplace(pressing, (time + span[place], place))
        else:
            heappop(pressing)
            heappush(ahead, (time, place))
    return chosen
