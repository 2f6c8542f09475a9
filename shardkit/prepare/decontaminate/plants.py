"""--self-test: items of each benchmark, planted in rows as they would leak, must be found by the workers that check the data.

a passage inside a longer paragraph; a question with its answer; a picture saved again, beside the item's text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from shardkit.engine import map_ordered
from shardkit.errors import IntegrityError
from shardkit.media.load import load as load_media
from shardkit.media.resave import resave
from shardkit.prepare.decontaminate import find, images, index
from shardkit.prepare.decontaminate.config import SelfTest
from shardkit.prepare.decontaminate.find import Planted
from shardkit.prepare.decontaminate.images import Gallery
from shardkit.prepare.decontaminate.items import Bench, Picture
from shardkit.prepare.decontaminate.passages import LONG_ANSWER, Searched
from shardkit.prepare.decontaminate.scan import Row
from shardkit.prepare.dedup.keys import asset_key
from shardkit.prepare.dedup.shingles import tokens
from shardkit.text.normalize import normalize

PLANTS = 20
"""Texts, and pictures, of each benchmark."""
_BEFORE = "Nobody had asked about it before, and the page went on as if it were nothing: "
_AFTER = " That was all that the page said of it, and the next part was about the weather."
_NAMED = 5
"""Items that an error names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plant:
    item: int
    kind: str
    row: Row
    picture: Picture | None = None


def check(
    benches: Sequence[Bench],
    searched: Searched,
    arrays: dict[str, npt.NDArray[np.generic]],
    found: Gallery,
    *,
    workers: int,
) -> SelfTest:
    """Plant items and look for them.

    Args:
        arrays: of the index, without those of the pictures.

    Raises:
        IntegrityError: where one is not found, naming it.
    """
    plants = [*_texts(benches, searched, arrays), *_pictures(benches)]
    pictures = images.table_of(plant.picture for plant in plants if plant.picture is not None)
    with TemporaryDirectory(prefix="shardkit-") as place:
        folder = Path(place)
        index.save({**arrays, **images.match(found, [pictures])}, folder)
        num_features = index.load(folder).num_features
        np.save(folder / find.COMMON_FILE, np.zeros(num_features, np.bool_), allow_pickle=False)
        seen = _seen(folder, plants, workers)
        index.load.cache_clear()
    missed = [plant for number, plant in enumerate(plants) if (number, plant.item, plant.kind) not in seen]
    if missed:
        labels = [(bench.name, item.label) for bench in benches for item in bench.items]
        names = ", ".join(f"{plant.kind} of {':'.join(labels[plant.item])}" for plant in missed[:_NAMED])
        raise IntegrityError(
            f"self-test: {len(plants)} known items were planted, {len(plants) - len(missed)} found; not found: {names}",
            hint="look at these items: pictures that hold next to nothing cannot be told apart; else this is a fault of "
            "shardkit, please report it",
        )
    return SelfTest(planted=len(plants), found=len(plants))


def _seen(folder: Path, plants: Sequence[_Plant], workers: int) -> set[tuple[int, int, str]]:
    """(plant, item, kind) of everything found, by the two readings that rows of the inputs go through."""
    half = -(-len(plants) // 2)
    pieces = [
        Planted(
            rows=tuple(plant.row for plant in plants[begin : begin + half]),
            texts=tuple(normalize("".join(plant.row.texts)) for plant in plants[begin : begin + half]),
            positions=np.arange(begin, min(begin + half, len(plants))),
        )
        for begin in range(0, len(plants), max(half, 1))
    ]
    return {
        (finding.position, finding.item, finding.kind)
        for findings in map_ordered(partial(_read_twice, folder), pieces, workers=workers)
        for finding in findings
    }


def _read_twice(folder: Path, piece: Planted) -> list[find.Finding]:
    candidates = find.survey(folder, piece).candidates
    at = candidates - piece.positions[0]
    chosen = Planted(
        rows=tuple(piece.rows[k] for k in at), texts=tuple(piece.texts[k] for k in at), positions=candidates
    )
    return find.judge(folder, chosen)


def _spread(numbers: Sequence[int]) -> list[int]:
    """PLANTS of them, evenly."""
    if len(numbers) <= PLANTS:
        return list(numbers)
    return [numbers[k * len(numbers) // PLANTS] for k in range(PLANTS)]


def _texts(benches: Sequence[Bench], searched: Searched, arrays: dict[str, npt.NDArray[np.generic]]) -> list[_Plant]:
    sizes = sum((np.asarray(arrays[f"gram{width}-sizes"], np.int64) for width in arrays["widths"].tolist()), 0)
    passage_of: dict[int, str] = {}
    for number, passage in enumerate(searched.passages):
        if np.asarray(sizes)[number]:
            for item in passage.items:
                passage_of.setdefault(item, passage.text)
    paired = {pair.item for pair in searched.pairs}
    plants: list[_Plant] = []
    first = 0
    for bench in benches:
        own = range(first, first + len(bench.items))
        plants += [
            _Plant(item=number, kind="text", row=_row(_BEFORE + passage_of[number] + _AFTER))
            for number in _spread([number for number in own if number in passage_of])
        ]
        for number in _spread([number for number in own if number in paired and number not in passage_of]):
            asked = bench.items[number - first]
            answer = next(text for text in asked.answers if 0 < tokens([text]).sizes[0] < LONG_ANSWER)
            plants.append(
                _Plant(item=number, kind="text", row=_row(_BEFORE, asked.question, f"Answer: {answer}.", _AFTER))
            )
        first += len(bench.items)
    return plants


def _pictures(benches: Sequence[Bench]) -> list[_Plant]:
    plants: list[_Plant] = []
    first = 0
    for bench in benches:
        chosen: dict[str, _Plant] = {}
        for number, item in enumerate(bench.items, first):
            for picture in item.pictures:
                if picture.data is None or picture.picture_class == "blank" or len(chosen) >= PLANTS:
                    continue
                if picture.pixel_id not in chosen:
                    copy = _saved_again(picture)
                    row = Row(texts=(item.text,) if item.text else (), image_keys=(asset_key(copy.asset_id, 0),))
                    chosen[picture.pixel_id] = _Plant(item=number, kind="image", row=row, picture=copy)
        plants += chosen.values()
        first += len(bench.items)
    return plants


def _saved_again(picture: Picture) -> Picture:
    assert picture.data is not None
    media = load_media(resave(picture.data, picture.frame))
    return Picture(
        asset_id=media.asset_id,
        frame=0,
        pixel_id=media.pixel_id,
        phash=media.looks.phash,
        phash_fine=media.looks.phash_fine,
        preview=media.looks.preview,
        picture_class=media.looks.picture_class,
    )


def _row(*texts: str) -> Row:
    return Row(texts=texts, image_keys=())
