"""What happens to an example that is longer than a sequence may be.

    window     several sequences; each pair of neighbours is a target exactly once, so windows share one token

                   max_tokens = 4     a b c d e f g h   ->   a b c d | d e f g | g h

    truncate   the first max_tokens; what follows is lost, and no eos is set behind the cut
    drop       the example is left out
    error      the run ends

An image is never cut: a window or a truncated example ends before it. The price: windows end up to one image early, and
images directly before a cut go with the text behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardkit.sequence.recipes.draft import Span

OVERLONG = ("window", "truncate", "drop", "error")


def windows(num_tokens: int, spans: Sequence[Span], max_tokens: int) -> Iterator[Span]:
    """[start, end) of each window over `num_tokens` tokens with images at `spans`.

    Every span must leave room for one token behind it in a window. Where images follow one another for longer than
    that, those farthest from the text behind them form windows of their own, which have no target.
    """
    end_of = dict(spans)
    start_of = {end: start for start, end in spans}
    start = 0
    while start + max_tokens < num_tokens:
        end = _before_image(start + max_tokens, spans)
        while start_of.get(end, -1) >= start:
            end = start_of[end]
        if end == start:
            end = end_of[start]
        yield start, end
        # The token at `end` is a target only with its predecessor before it; an image is no target and needs none.
        start = end if end in end_of else end - 1
    yield start, num_tokens


def truncated(num_tokens: int, spans: Sequence[Span], max_tokens: int) -> int:
    """How many tokens remain of `num_tokens`: at most `max_tokens`, and no part of an image at `spans`."""
    return num_tokens if num_tokens <= max_tokens else _before_image(max_tokens, spans)


def before_images(end: int, spans: Sequence[Span]) -> int:
    """`end`, or the start of the images that stand directly before it."""
    start_of = {last: first for first, last in spans}
    while end in start_of:
        end = start_of[end]
    return end


def _before_image(cut: int, spans: Sequence[Span]) -> int:
    """`cut`, or the start of the image that it would divide."""
    return next((start for start, end in spans if start < cut < end), cut)
