"""What workers find in rows: in the first reading how often everything occurs, in the second what it means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from shardkit.prepare.decontaminate.images import MEASURES
from shardkit.prepare.decontaminate.index import Index, Indices, as_items, expand, load
from shardkit.prepare.decontaminate.passages import PLAIN_QUESTION, SHORT_QUESTION
from shardkit.prepare.decontaminate.reasons import COMMON, CONTAMINATED, REVIEW
from shardkit.prepare.decontaminate.scan import Row, Shared, Units, pairs_in, pictures_in, shared, units_of
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import Positions, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys, asset_key
from shardkit.prepare.dedup.names import Codes, coded

COMMON_FILE = "common.npy"
_BLOCK_ROWS = 1024
_BLOCK_CHARACTERS = 1 << 20
_EXCERPT = 4000
"""Characters of a unit that go back to the parent."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Planted:
    """Rows of a self-test, in the place of a slice."""

    rows: tuple[Row, ...]
    texts: tuple[str, ...]
    """Compared form of each row's text."""
    positions: Positions


Piece = Slice | Planted


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Surveyed:
    """n rows of a piece, and what of the index stands in them."""

    positions: Positions
    sizes: npt.NDArray[np.int64]
    """[n, 3] images, their pixels, payload bytes."""
    sources: tuple[list[str], Codes]
    groups: Keys
    """[n]"""
    image_rows: Positions
    image_keys: Keys
    features: Indices
    """[M] what was met, each once a row."""
    feature_rows: Positions
    candidates: Positions
    """Rows that hold enough of an item to be judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A row and an item of a benchmark that it may hold."""

    position: int
    item: int
    kind: str
    """text | image"""
    measure: str
    score: float
    verdict: str
    text: str
    """The paragraph that was matched; of a page that looks alike the compared form of the row's text."""
    is_page: bool = False
    """The parent compares the texts of the two pages, then it gives the verdict."""


def survey(folder: Path, piece: Piece) -> Surveyed:
    """First reading of a piece; run by a worker."""
    index = load(folder)
    sizes, sources, groups = [], [], []
    image_rows: list[int] = []
    image_keys: list[int] = []
    features, feature_rows, candidates = [], [], []
    for places, rows, facts in _blocks(piece):
        own_features, of_row, held = _occurrences(index, rows)
        features.append(own_features)
        feature_rows.append(piece.positions[places[of_row]])
        candidates.append(piece.positions[places[held]])
        for place, row in zip(places.tolist(), rows, strict=True):
            image_keys += row.image_keys
            image_rows += [int(piece.positions[place])] * len(row.image_keys)
        for one in facts:
            sizes.append([len(one.assets), one.num_pixels, one.num_bytes])
            sources.append(one.source)
            group = one.example_id if one.group is None else one.group
            groups.append(xxhash.xxh3_64_intdigest(f"{one.source}\0{group}".encode()))
    return Surveyed(
        positions=piece.positions,
        sizes=np.array(sizes, np.int64).reshape(-1, 3),
        sources=coded(sources),
        groups=np.array(groups, np.uint64),
        image_rows=np.array(image_rows, np.int64),
        image_keys=np.array(image_keys, np.uint64),
        features=np.concatenate([np.empty(0, np.int64), *features]),
        feature_rows=np.concatenate([np.empty(0, np.int64), *feature_rows]),
        candidates=np.concatenate([np.empty(0, np.int64), *candidates]),
    )


def judge(folder: Path, piece: Piece) -> list[Finding]:
    """Second reading, of candidates: one finding for each kind, row and item; run by a worker."""
    index, common = load(folder), _common(folder)
    found: list[Finding] = []
    for places, rows, facts in _blocks(piece):
        compared = [one.text for one in facts] if isinstance(piece, Slice) else list(piece.texts)
        positions = piece.positions[places].tolist()
        images = list(_image_findings(index, rows, common, positions, compared))
        found += images
        found += _text_findings(index, rows, common, positions, {(one.position, one.item) for one in images})
    return found


def _blocks(piece: Piece) -> Iterator[tuple[Indices, list[Row], list[Facts]]]:
    """(places in the piece, rows, their facts) of about a megabyte of text."""
    if isinstance(piece, Planted):
        yield np.arange(len(piece.rows)), list(piece.rows), []
        return
    begin, size = 0, 0
    held: list[Facts] = []
    for facts in facts_of(piece):
        held.append(facts)
        size += len(facts.raw_text)
        if len(held) >= _BLOCK_ROWS or size >= _BLOCK_CHARACTERS:
            yield np.arange(begin, begin + len(held)), [_row(one) for one in held], held
            begin, size, held = begin + len(held), 0, []
    if held:
        yield np.arange(begin, begin + len(held)), [_row(one) for one in held], held


def _row(facts: Facts) -> Row:
    keys = tuple(asset_key(asset, frame) for asset, frame in zip(facts.assets, facts.frames, strict=True))
    return Row(texts=facts.texts, image_keys=keys)


@lru_cache(maxsize=1)
def _common(folder: Path) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = np.load(folder / COMMON_FILE, allow_pickle=False)
    return flags


def _occurrences(index: Index, rows: Sequence[Row]) -> tuple[Indices, Indices, Indices]:
    """(feature, row) of everything met, each once; and the rows that hold enough of something."""
    units = units_of(index, rows)
    features, of_row, held = [], [], []
    for grams, hits in zip(index.grams, units.hits, strict=True):
        features.append(grams.first + hits[1])
        of_row.append(units.row[hits[0]])
        held.append(units.row[shared(index, grams, units, hits, None).unit])
    pair_rows, pairs = pairs_in(index, units)
    picture_rows, matches = pictures_in(index, rows)
    features += [index.first_pair + pairs, index.first_picture + index.image_pictures[matches]]
    of_row += [pair_rows, picture_rows]
    held += [pair_rows, picture_rows]
    size = max(index.num_features, 1)
    both = np.unique(np.concatenate(of_row) * size + np.concatenate(features))
    return both % size, both // size, np.unique(np.concatenate(held))


def _image_findings(
    index: Index, rows: Sequence[Row], common: npt.NDArray[np.bool_], positions: list[int], texts: list[str]
) -> Iterator[Finding]:
    row_of, matches = pictures_in(index, rows)
    best: dict[tuple[int, int], tuple[tuple[bool, int, float], int]] = {}
    for row, match in zip(row_of.tolist(), matches.tolist(), strict=True):
        # Pictures before pages, equal pixels before what looks alike, that before vectors.
        rank = (not index.image_pages[match], -int(index.image_measures[match]), float(index.image_scores[match]))
        for item in as_items(index.picture_items, [int(index.image_pictures[match])])[0]:
            if (row, item) not in best or rank > best[row, item][0]:
                best[row, item] = (rank, match)
    for (row, item), (_, match) in best.items():
        page = bool(index.image_pages[match])
        many = bool(common[index.first_picture + index.image_pictures[match]])
        measure = MEASURES[index.image_measures[match]]
        yield Finding(
            position=positions[row],
            item=item,
            kind="image",
            measure="page" if page and measure == "perceptual" else measure,
            score=float(index.image_scores[match]),
            verdict=COMMON if many else CONTAMINATED,
            text=texts[row] if page else "",
            is_page=page and not many,
        )


def _text_findings(
    index: Index,
    rows: Sequence[Row],
    common: npt.NDArray[np.bool_],
    positions: list[int],
    pictured: set[tuple[int, int]],
) -> list[Finding]:
    units = units_of(index, rows)
    pair_rows, pairs = pairs_in(index, units)
    answered = {
        (row, int(index.pair_items[pair])) for row, pair in zip(pair_rows.tolist(), pairs.tolist(), strict=True)
    }
    best: dict[tuple[int, int], tuple[_Rank, Finding]] = {}

    def offer(row: int, rank: _Rank, finding: Finding) -> None:
        if (row, finding.item) not in best or rank > best[row, finding.item][0]:
            best[row, finding.item] = (rank, finding)

    for grams, hits in zip(index.grams, units.hits, strict=True):
        flags = common[grams.first : grams.first + len(grams.hashes)]
        held = shared(index, grams, units, hits, flags)
        for row, item, k in _held_items(index, units, held):
            verdict = COMMON if held.common[k] else CONTAMINATED
            if verdict == CONTAMINATED and (positions[row], item) not in pictured and (row, item) not in answered:
                verdict = _alone(index, item, int(held.passage[k]), rows[row])
            finding = Finding(
                position=positions[row],
                item=item,
                kind="text",
                measure=f"{'inside' if held.inside[k] else 'ngram'}{grams.width}",
                score=float(held.score[k]),
                verdict=verdict,
                text=units.texts[held.unit[k]][:_EXCERPT],
            )
            offer(row, (_STRENGTH[verdict], float(not held.inside[k]), grams.width, finding.score), finding)
    for row, pair in zip(pair_rows.tolist(), pairs.tolist(), strict=True):
        item = int(index.pair_items[pair])
        if index.visual[item] and index.questions.sizes[pair] >= SHORT_QUESTION:
            continue  # its question is a passage; the pair only told that the answer is there
        verdict = COMMON if common[index.first_pair + pair] else CONTAMINATED
        finding = Finding(
            position=positions[row],
            item=item,
            kind="text",
            measure="question_answer",
            score=1.0,
            verdict=verdict,
            text="\n\n".join(rows[row].texts)[:_EXCERPT],
        )
        offer(row, (_STRENGTH[verdict], 0.0, 0, 1.0), finding)
    return [finding for _, (_, finding) in sorted(best.items())]


def _alone(index: Index, item: int, passage: int, row: Row) -> str:
    """The verdict on a passage without its picture or answer: short questions are asked of other pictures as well."""
    question = index.is_question[passage] and index.lengths[passage] < PLAIN_QUESTION
    return REVIEW if question and index.visual[item] and row.image_keys else CONTAMINATED


_Rank = tuple[float, float, int, float]
"""Verdict, direction, width, score."""
_STRENGTH = {CONTAMINATED: 2.0, REVIEW: 1.0, COMMON: 0.0}


def _held_items(index: Index, units: Units, held: Shared) -> Iterator[tuple[int, int, int]]:
    """(row, item, place in `held`) for every item of every passage that is held."""
    which, places = expand(index.items.starts, held.passage)
    items = index.items.values[places]
    rows = units.row[held.unit[which]]
    for row, item, k in zip(rows.tolist(), items.tolist(), which.tolist(), strict=True):
        yield row, int(item), k
