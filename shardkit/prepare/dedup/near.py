"""The near levels of a run: which units are compared, and which pairs of rows follow from what was found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from shardkit.engine import Progress
from shardkit.prepare.dedup import near_text
from shardkit.prepare.dedup.complete import complete
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.edges import Indices, NearEdges, RowEdges, joined
from shardkit.prepare.dedup.field_vectors import write_vectors
from shardkit.prepare.dedup.inputs import Inputs, facts_of
from shardkit.prepare.dedup.levels import PERCEPTUAL, SEMANTIC
from shardkit.prepare.dedup.matchers import NEAR
from shardkit.prepare.dedup.pictures import find_lists
from shardkit.prepare.dedup.signatures import Signed
from shardkit.prepare.dedup.tuples import (
    Alive,
    Near,
    near_text_rows,
    near_vectors,
    other_text,
    same_text,
    tied_pictures,
)
from shardkit.prepare.dedup.vectors import NearVectors, find_vectors

CHARACTER_ERRORS = 0.03
"""Share of the longer text's characters: two readings of one page differ by less, two pages by more."""
_PAIRS_AT_A_TIME = 4096


def find_near(config: DedupConfig, inputs: Inputs, signed: Signed, scratch: Path, on_progress: Progress) -> Near:
    """Compare the units of all near levels that are asked for."""
    levels = config.levels
    if not any(level in NEAR for level in levels):
        return Near.none(inputs.num_rows)
    lists = find_lists(
        inputs, signed, transforms=frozenset(config.transforms), near="perceptual" in levels, workers=config.workers
    )
    texts, text_of, crowded = NearEdges.none(), np.full(inputs.num_rows, -1), np.empty(0, np.bool_)
    if "text" in levels:
        positions, text_of = distinct_texts(signed)
        preset = config.preset_of_text
        searched = near_text.search(
            inputs, positions, preset=preset, workers=config.workers, scratch=scratch, on_progress=on_progress
        )
        texts, crowded = searched.edges, searched.crowded
    vectors = NearVectors.none(inputs.num_rows)
    if "semantic" in levels:
        files = list(config.embeddings)
        if config.embedding_field is not None:
            file = scratch / "field-vectors.arrow"
            files.append(write_vectors(inputs, config.embedding_field, file, workers=config.workers))
        vectors = find_vectors(
            files,
            inputs,
            signed,
            lists,
            column=config.embedding_column,
            scratch=scratch,
            on_progress=on_progress,
        )
    return Near(lists=lists, texts=texts, text_of=text_of, crowded=crowded, vectors=vectors)


def with_keepers(  # noqa: PLR0917 - what find_near is told, and what it found
    config: DedupConfig, inputs: Inputs, signed: Signed, alive: Alive, near: Near, scratch: Path, on_progress: Progress
) -> Near:
    """Compare texts of large buckets also with those that will be kept, now that the better row is known."""
    if not len(near.texts):
        return near
    positions, _ = distinct_texts(signed)
    rank = np.arange(len(positions)) + len(alive.rows)
    there = np.flatnonzero(alive.texts >= 0)
    # Rows that never go are asked first: those with images.
    order = np.concatenate([there[alive.lists[there] >= 0], there[alive.lists[there] < 0]])
    np.minimum.at(rank, alive.texts[order], np.arange(len(order)))
    verify = partial(
        near_text.verify,
        inputs,
        positions,
        preset=config.preset_of_text,
        workers=config.workers,
        scratch=scratch,
        on_progress=on_progress,
    )
    return replace(near, texts=complete(near.texts, rank, threshold=config.threshold("text"), verify=verify))


def distinct_texts(signed: Signed) -> tuple[Indices, Indices]:
    """A row of each distinct text, ascending; and [N] which of them each row has, -1 for none."""
    keys, first, of_row = np.unique(signed.texts, return_index=True, return_inverse=True)
    known = keys != 0
    order = np.argsort(first[known])
    number = np.full(len(keys), -1)
    number[np.flatnonzero(known)[order]] = np.arange(len(order))
    return first[known][order].astype(np.int64), number[of_row].astype(np.int64)


def concerned(near: Near) -> npt.NDArray[np.bool_]:
    """[N] rows that an edge of their text, images or vector may lead to another row."""
    lists, edges = near.lists, near.lists.edges
    num_texts = int(near.text_of.max(initial=-1)) + 2
    text = np.zeros(num_texts, np.bool_)
    text[near.texts.one] = text[near.texts.two] = True
    alike = np.zeros(len(lists) + 1, np.bool_)
    alike[edges.one] = alike[edges.two] = True
    alike[near.vectors.lists.one] = alike[near.vectors.lists.two] = True
    vectors = np.zeros(int(near.vectors.example_of.max(initial=-1)) + 2, np.bool_)
    vectors[near.vectors.examples.one] = vectors[near.vectors.examples.two] = True
    found: npt.NDArray[np.bool_] = text[near.text_of] | alike[lists.of_row] | vectors[near.vectors.example_of]
    return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Found:
    """Pairs of rows that the equality levels leave."""

    edges: RowEdges
    """Down to the floors of the matchers; what a threshold removes is chosen afterwards."""
    tied: RowEdges
    """Pictures that look alike beside other texts: both rows stay."""
    review: RowEdges
    """Pages that look alike and have no text that could decide: both rows stay."""


def find_pairs(config: DedupConfig, inputs: Inputs, alive: Alive, near: Near) -> Found:
    """Row pairs of all near levels, each pair once."""
    lists = near.lists
    parts, tied, review = [RowEdges.none()], RowEdges.none(), RowEdges.none()
    if "perceptual" in config.levels:
        parts.append(same_text(alive, lists.edges, lists.page, level=PERCEPTUAL))
        open_pairs = joined([other_text(alive, lists)])
        silent = _without_text(alive, open_pairs)
        parts.append(agreeing(inputs, open_pairs.take(~silent)))
        review = open_pairs.take(silent)
        tied = tied_pictures(alive, lists)
    if "text" in config.levels:
        parts.append(near_text_rows(alive, near, alike=config.threshold("perceptual")))
    if "semantic" in config.levels:
        parts += [near_vectors(alive, near), same_text(alive, near.vectors.lists, lists.page, level=SEMANTIC)]
    return Found(edges=joined(parts), tied=joined([tied]), review=review)


def _without_text(alive: Alive, edges: RowEdges) -> npt.NDArray[np.bool_]:
    """[E] whether the two rows have no text, neither of them."""
    bare = np.sort(alive.rows[alive.equal < 0])
    found: npt.NDArray[np.bool_] = np.isin(edges.one, bare) & np.isin(edges.two, bare)
    return found


def agreeing(inputs: Inputs, edges: RowEdges) -> RowEdges:
    """The pairs whose texts differ by few characters; that they hold the same figures is known."""
    return edges.take(agreement(inputs, edges.one, edges.two))


def agreement(inputs: Inputs, one: Indices, two: Indices) -> npt.NDArray[np.bool_]:
    """[E] whether the texts of two rows differ by few characters."""
    keep = np.zeros(len(one), np.bool_)
    for start in range(0, len(one), _PAIRS_AT_A_TIME):
        part = slice(start, start + _PAIRS_AT_A_TIME)
        rows = np.unique(np.concatenate([one[part], two[part]]))
        texts = {
            position: facts.text
            for piece in inputs.slices(rows)
            for position, facts in zip(piece.positions.tolist(), facts_of(piece), strict=True)
        }
        keep[part] = [
            agrees(texts[first], texts[second])
            for first, second in zip(one[part].tolist(), two[part].tolist(), strict=True)
        ]
    return keep


def agrees(one: str, two: str) -> bool:
    """Whether two compared texts are two readings of one page: at most CHARACTER_ERRORS of the longer one differ."""
    if not (one and two):
        return False
    allowed = int(CHARACTER_ERRORS * max(len(one), len(two)))
    return bool(Levenshtein.distance(one, two, score_cutoff=allowed) <= allowed)
