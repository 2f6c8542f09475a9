"""DocBank: one token a line with its box, in the reading order of the page.

    token TAB x0 TAB y0 TAB x1 TAB y1 TAB R TAB G TAB B TAB font TAB label

Coordinates count on a grid of 1000 by 1000 laid over the page. Tokens that follow one another under one label are a
region; the page text is the regions, one a line, their tokens parted by spaces. Marks such as ##LTLine## stand for
drawn objects and are no text; those with an area are regions. The picture is STEM_ori.jpg or STEM.jpg; STEM_ann.jpg shows the annotation and is passed over.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shardkit.prepare.ingest.containers.naming import Naming
from shardkit.prepare.ingest.formats.label import Label, Read
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import LayoutItem

NAMING = Naming(
    folders=("DocBank_500K_ori_img", "DocBank_500K_txt"), image_ends=("_ori",), passed_over=("_ann", "_color", "_black")
)
GRID = (1000.0, 1000.0)
"""Height and width that coordinates count on."""

_NUM_FIELDS = 10
_WHOLE = re.compile(r"-?[0-9]+")
_OBJECT = re.compile(r"##LT[A-Za-z]+##")
_STEM = re.compile(r"^(?:\d+\.tar_)?(?P<document>.+?)\.gz_.+_(?P<page>\d+)$")


def is_page(text: str) -> bool:
    """Whether the first line is one of DocBank's: no other text has nine tabs and seven numbers in these places."""
    fields = text.split("\n", 1)[0].split("\t")
    return len(fields) == _NUM_FIELDS and all(map(_WHOLE.fullmatch, fields[1:8]))


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in a DocBank file.

    Raises:
        Bad: where it is none.
    """
    return page(decoded(data, changes), changes)


READERS: dict[str, Read] = {".txt": read}


@dataclass(kw_only=True, slots=True)
class _Region:
    label: str
    words: list[tuple[str, tuple[float, ...]]] = field(default_factory=list)


def page(text: str, changes: Counter[str]) -> Label:
    """The layout and text of a page.

    Raises:
        Bad: for a line that is no token.
    """
    regions: list[_Region] = []
    objects: list[LayoutItem] = []
    for token, box, label in _tokens(text):
        if _OBJECT.fullmatch(token):
            changes["object_marks"] += 1
            if box[0] < box[2] and box[1] < box[3]:
                objects.append(LayoutItem(level="region", polygon=box))
            continue
        if not token.strip():
            changes["word_blank"] += 1
            continue
        if not regions or regions[-1].label != label:
            regions.append(_Region(label=label))
        regions[-1].words.append((token, box))
    if not regions:
        raise Bad("empty_text", "the page has no token that is text")
    return Label(
        text="\n".join(" ".join(token for token, _ in region.words) for region in regions),
        layout=(*_items(regions), *objects),
        grid=GRID,
        document=document,
        fields={"region_labels": [region.label for region in regions]},
    )


def _tokens(text: str) -> Iterator[tuple[str, tuple[float, ...], str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        fields = line.split("\t")
        if len(fields) != _NUM_FIELDS:
            raise Bad("bad_label", f"line {number} has {len(fields)} of {_NUM_FIELDS} fields: {plain(line, 40)}")
        corners = fields[1:5]
        if not all(map(_WHOLE.fullmatch, corners)):
            raise Bad("bad_label", f"line {number} has no box: {plain(line, 40)}")
        yield fields[0], tuple(map(float, corners)), fields[9].rstrip("\r")


def _items(regions: list[_Region]) -> Iterator[LayoutItem]:
    """Each region, then its words, which name it as their parent."""
    at = word_order = 0
    for order, region in enumerate(regions):
        boxes = [box for _, box in region.words]
        around = (
            min(box[0] for box in boxes),
            min(box[1] for box in boxes),
            max(box[2] for box in boxes),
            max(box[3] for box in boxes),
        )
        yield LayoutItem(level="region", polygon=around, order=order)
        for token, box in region.words:
            yield LayoutItem(level="word", text=token, polygon=box, parent=at, order=word_order)
            word_order += 1
        at += 1 + len(region.words)


def document(stem: str) -> Mapping[str, str | int]:
    """Document and page that the name of a page tells: 228.tar_1611.07901.gz_NAME_12."""
    found = _STEM.match(stem.rpartition("/")[2])
    return {} if found is None else {"document_id": found["document"], "page": int(found["page"])}
