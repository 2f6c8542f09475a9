"""A page as blocks of lines of words, and the order in which it is read: the text and the layout that follow from it.

An order names blocks, lines or words by id, in nested groups that are flattened by who reads them; it may be partial.
What it does not name comes after, in document order, and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from shardkit.prepare.ingest.formats.label import Label
from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem

ILLEGIBLE = "###"
"""What annotators write where nothing can be read: a mark, no text."""


@dataclass(kw_only=True, slots=True)
class Word:
    id: str = ""
    text: str = ""
    polygon: tuple[float, ...] = ()
    confidence: float | None = None


@dataclass(kw_only=True, slots=True)
class Line:
    id: str = ""
    text: str = ""
    polygon: tuple[float, ...] = ()
    confidence: float | None = None
    words: list[Word] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Block:
    """A region; the page itself is a block that is not stored."""

    id: str = ""
    text: str = ""
    """Its text, where the file gives none by lines."""
    polygon: tuple[float, ...] = ()
    confidence: float | None = None
    lines: list[Line] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    """Regions inside it."""
    lines_before: int | None = None
    """How many lines of the region that holds it stand before it; None: the file does not mix them."""

    def all_blocks(self) -> Iterator[Block]:
        """It and what is inside it, in document order. Readers bound the depth."""
        yield self
        for block in self.blocks:
            yield from block.all_blocks()


def assembled(page: Block, order: Sequence[str] | None, changes: Counter[str]) -> Label:
    """The text and layout of a page, read in `order`; None where the file states none.

    Raises:
        Bad: where nothing is written on the page, or the file has elements of text and none of them says anything.
    """
    items = _Items(page)
    units = _in_order(page, order, changes)
    texts = [text for block, line in units if (text := items.add(block, line))]
    if not "".join(texts).strip() and not items.num_illegible:
        num_elements = sum(line is not None for _, line in units)
        if num_elements:
            raise Bad("layout_without_text", f"the layout has {num_elements} lines and not one word")
        raise Bad("empty_text", "the layout has no element of text")
    changes["illegible_text"] += items.num_illegible
    return Label(text="\n".join(texts), layout=tuple(items.done))


Page = TypeVar("Page")


def of_pages(
    pages: Sequence[Page],
    page: Callable[[Page, Counter[str]], Label],
    changes: Counter[str],
    image: Callable[[Page], str] = lambda _: "",
) -> Label:
    """The label of a file of one page or several; a page of several that cannot be used is left to say so itself.

    Args:
        image: what such a page calls its image.

    Raises:
        Bad: where the only page cannot be used.
    """
    if len(pages) == 1:
        return page(pages[0], changes)
    labels = []
    for one in pages:
        try:
            labels.append(page(one, changes))
        except Bad as bad:
            labels.append(Label(text="", bad=bad, image=image(one)))
    return Label(text="\f".join(label.text for label in labels), pages=tuple(labels))


_Unit = tuple[Block, Line | None]
"""A line and the block it stands in; or a block without lines."""


def _in_order(page: Block, order: Sequence[str] | None, changes: Counter[str]) -> list[_Unit]:
    blocks = {block.id: block for block in page.all_blocks() if block.id}
    lines: dict[str, _Unit] = {}
    for block in page.all_blocks():
        for line in block.lines:
            for name in (line.id, *(word.id for word in line.words)):
                if name:
                    lines.setdefault(name, (block, line))
    placed: dict[tuple[int, int], _Unit] = {}
    named = set(order or ())

    def whole(block: Block, *, named_too: bool) -> None:
        """A block with what is inside it, but for blocks that have a place of their own."""
        if not block.lines and block is not page:
            placed.setdefault((id(block), 0), (block, None))
        lines = iter(block.lines)
        done = 0
        for inner, before in zip(block.blocks, _lines_before(block), strict=True):
            for line in islice(lines, max(0, before - done)):
                placed.setdefault((id(block), id(line)), (block, line))
            done = max(done, before)
            if named_too or inner.id not in named:
                whole(inner, named_too=named_too)
        for line in lines:
            placed.setdefault((id(block), id(line)), (block, line))

    for name in order or ():
        if name in lines:
            unit = lines[name]
            placed.setdefault((id(unit[0]), id(unit[1])), unit)
        elif name in blocks:
            whole(blocks[name], named_too=False)
        else:
            changes["order_of_nothing"] += 1
    num_ordered = len(placed)
    whole(page, named_too=True)
    if order is not None:
        left = list(placed.values())[num_ordered:]
        changes["not_in_order"] += len({id(block) for block, line in left if line is not None or block.text})
    return list(placed.values())


def _lines_before(block: Block) -> list[int]:
    """For each block inside `block`, how many of its lines come before: all, unless text stands between them."""
    places = [len(block.lines) if inner.lines_before is None else inner.lines_before for inner in block.blocks]
    between = [inner for inner, place in zip(block.blocks, places, strict=True) if place < len(block.lines)]
    if any(one.lines or one.text for inner in between for one in inner.all_blocks()):
        return places
    return [len(block.lines)] * len(places)


class _Items:
    """The layout under construction: each block before its lines, each line before its words."""

    def __init__(self, page: Block) -> None:
        self.done: list[LayoutItem] = []
        self.num_illegible = 0
        self._page = page
        self._outer = {id(inner): block for block in page.all_blocks() for inner in block.blocks}
        self._ranks: Counter[str] = Counter()
        self._places: dict[int, int] = {}

    def add(self, block: Block, line: Line | None) -> str | None:
        """Store a line and its words, or a block without lines; its text."""
        parent = self._block(block)
        if line is None:
            return None if parent is None else self.done[parent].text
        place = self._item("line", line.text, line.polygon, line.confidence, parent)
        for word in line.words:
            self._item("word", word.text, word.polygon, word.confidence, place)
        return self.done[place].text

    def _block(self, block: Block) -> int | None:
        """Place of a block in the layout, where it is put on first use, behind the block that holds it."""
        if block is self._page:
            return None
        if id(block) not in self._places:
            parent = self._block(self._outer[id(block)])
            text = "" if block.lines else block.text
            self._places[id(block)] = self._item("region", text, block.polygon, block.confidence, parent)
        return self._places[id(block)]

    def _item(
        self, level: str, text: str, polygon: tuple[float, ...], confidence: float | None, parent: int | None
    ) -> int:
        is_illegible = text.strip() == ILLEGIBLE
        self.num_illegible += is_illegible
        self.done.append(
            LayoutItem(
                level=level,
                text=None if is_illegible else text or None,
                polygon=polygon,
                parent=parent,
                order=self._ranks[level],
                confidence=confidence,
            )
        )
        self._ranks[level] += 1
        return len(self.done) - 1
