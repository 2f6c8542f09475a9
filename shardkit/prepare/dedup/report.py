"""What dedup says of its findings: a table by source, texts that many images share, and the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.errors import SourceError
from shardkit.prepare.dedup.candidates import Candidates
from shardkit.prepare.dedup.edges import Indices
from shardkit.prepare.dedup.inputs import Inputs, facts_of
from shardkit.prepare.dedup.keys import group_starts
from shardkit.prepare.dedup.levels import LEVELS, ONLY_BOILERPLATE
from shardkit.prepare.dedup.signatures import Signed
from shardkit.text.excerpt import excerpt

GUARD_ROWS = 1000
"""A source with fewer rows is not judged by its share."""
LISTED_TEXTS = 100


def by_source(
    signed: Signed,
    kept: npt.NDArray[np.bool_],
    levels: Sequence[str],
    level_of: npt.NDArray[np.int8],
    emptied: Indices | None,
) -> dict[str, dict[str, int]]:
    """Source -> read, kept, and removed by level; with `emptied`, also as documents of repeated lines alone.

    Args:
        kept: [n] of the rows that are deduplicated.
        level_of: [n] place in LEVELS of the level that removed the row, -1 for the others.
        emptied: rows of which no line is left; None where lines stay.
    """
    table = {}
    sources = signed.sources[: len(kept)]
    for number, name in enumerate(signed.names):
        own = sources == number
        if not own.any():
            continue
        removed = {level: int((level_of[own] == LEVELS.index(level)).sum()) for level in levels}
        table[name] = {"read": int(own.sum()), "kept": int(kept[own].sum()), **removed}
        if emptied is not None:
            table[name][ONLY_BOILERPLATE] = int(own[emptied].sum())
    return table


def guard(table: Mapping[str, Mapping[str, int]], limit: float) -> None:
    """Stop where a source all but vanishes: more often a fault of the levels than of the source.

    Raises:
        SourceError: naming the source and both shares.
    """
    for source, counts in table.items():
        removed = counts["read"] - counts["kept"]
        if counts["read"] >= GUARD_ROWS and removed > limit * counts["read"]:
            raise SourceError(
                f"{removed} of {counts['read']} examples of the source {source!r} would be removed "
                f"({removed / counts['read']:.1%}, the limit is {limit:.1%}); nothing was written",
                hint="look at --dry-run, then raise --max-removed-per-source or name fewer levels with --level",
            )


def frequent_texts(inputs: Inputs, signed: Signed, kept: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Texts that stand beside different images: they stay, and are reported, because templates teach nothing.

    Returns:
        texts, examples: how many such texts, and how many examples have one; top: the first hundred by count.
    """
    rows = np.flatnonzero(kept & (signed.texts != 0) & (signed.pictures != 0))
    rows = rows[np.lexsort((signed.pictures[rows], signed.texts[rows]))]
    texts, pictures = signed.texts[rows], signed.pictures[rows]
    starts = group_starts(texts)
    sizes = np.diff(np.append(starts, len(rows)))
    other = np.ones(len(rows), np.int64)
    other[1:] = pictures[1:] != pictures[:-1]
    other[starts] = 1
    num_pictures = np.add.reduceat(other, starts) if len(starts) else sizes
    found = np.flatnonzero(num_pictures > 1)
    order = found[np.lexsort((texts[starts[found]], -sizes[found]))][:LISTED_TEXTS]
    wanted = np.sort(rows[starts[order]])
    words = {
        int(position): facts.text
        for piece in inputs.slices(wanted)
        for position, facts in zip(piece.positions, facts_of(piece), strict=True)
    }
    top = [
        {"text": excerpt(words[int(rows[starts[k]])]), "examples": int(sizes[k]), "images": int(num_pictures[k])}
        for k in order
    ]
    return {"texts": len(found), "examples": int(sizes[found].sum()), "top": top}


def conflicts(inputs: Inputs, candidates: Candidates, pairs: tuple[Indices, Indices]) -> dict[str, Any]:
    """Equal images from which different texts were read: both stay, and at most one of the two is right.

    Args:
        pairs: candidates with the same images and other text.

    Returns:
        pairs: how many; top: the first hundred, each with its two ids and where the texts part.
    """
    found = candidates.transcribed[pairs[0]] & candidates.transcribed[pairs[1]]
    one, two = pairs[0][found], pairs[1][found]
    shown = slice(0, LISTED_TEXTS)
    rows = candidates.positions[np.unique(np.concatenate([one[shown], two[shown]]))]
    known = {
        int(position): facts
        for piece in inputs.slices(rows)
        for position, facts in zip(piece.positions, facts_of(piece), strict=True)
    }
    top = []
    for left, right in zip(candidates.positions[one[shown]], candidates.positions[two[shown]], strict=True):
        pair = known[int(left)], known[int(right)]
        same = next(
            (place for place, (a, b) in enumerate(zip(pair[0].text, pair[1].text, strict=False)) if a != b),
            min(len(facts.text) for facts in pair),
        )
        top.append(
            {
                "ids": [facts.example_id for facts in pair],
                "from_character": same,
                "texts": [excerpt(facts.text[same:]) for facts in pair],
            }
        )
    return {"pairs": len(one), "top": top}
