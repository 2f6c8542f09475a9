"""Which texts, pictures and examples are near to one another: read from what dedup found, else compared here.

    edges and near of the input's dedup  ->  pairs of rows     \
    texts, hashes of pictures            ->  pairs of units     ->  pairs of values (ties.py)

A pair is one of values, not of rows: rows of one value are tied already, and a value may be too frequent to tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.engine import Progress
from shardkit.errors import IntegrityError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup import near_text, perceptual, semantic
from shardkit.prepare.dedup.complete import merged
from shardkit.prepare.dedup.edges import NearEdges, row_edges
from shardkit.prepare.dedup.inputs import Inputs
from shardkit.prepare.dedup.keys import Keys, leading, look_up
from shardkit.prepare.dedup.levels import PERCEPTUAL
from shardkit.prepare.dedup.near import agreeing, distinct_texts
from shardkit.prepare.dedup.pictures import Units, units_of
from shardkit.prepare.dedup.signatures import Signed, sign
from shardkit.prepare.dedup.tuples import crossed
from shardkit.prepare.split.earlier import selected_from
from shardkit.prepare.split.ties import id_bits
from shardkit.store.dataset import Dataset

Pairs = tuple[Keys, Keys]
"""[E] each: values that are near to one another."""
_OUTCOMES = ("kept", "review")
"""Of tables/near: pairs that removed nothing and are near all the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NearRules:
    """What is near. Levels that are None are not looked at."""

    perceptual: float | None
    """Share of bits that agree."""
    transforms: tuple[str, ...]
    """mirror, rotate"""
    text: float | None
    """Jaccard similarity of the shingles of `preset`."""
    preset: str
    semantic: float | None
    """Cosine, of vectors that only dedup was given."""
    found_by: Dataset | None = None
    """The dedup whose pairs are taken."""

    def recipe(self) -> dict[str, dict[str, Any]]:
        """Level -> what an audit needs to find the same."""
        found: dict[str, dict[str, Any]] = {}
        if self.perceptual is not None:
            found["perceptual"] = {
                "version": perceptual.VERSION, "threshold": self.perceptual, "transforms": list(self.transforms),
            }  # fmt: skip
        if self.text is not None:
            found["text"] = {"version": near_text.VERSION, "preset": self.preset, "threshold": self.text}
        if self.semantic is not None:
            found["semantic"] = {"version": semantic.VERSION, "threshold": self.semantic}
        return found


def rules_for(dataset: Dataset, before: Mapping[str, Any] | None, *, edges: str, preset: str | None) -> NearRules:
    """What dedup took for near, else what the older split did, else the matchers' own.

    Args:
        before: recipe of the older split.
        edges: near, or exact: nothing is near.
        preset: of near texts, where it is asked for.
    """
    if edges == "exact":
        return NearRules(perceptual=None, transforms=(), text=None, preset=preset or "web", semantic=None)
    dedup = _dedup_of(dataset)
    if dedup is not None:
        thresholds, transforms = dedup.recipe.get("thresholds", {}), dedup.recipe.get("transforms", [])
        usual = dedup.recipe.get("preset", "web")
    else:
        known = {} if before is None else before.get("near", {})
        thresholds = {level: rule["threshold"] for level, rule in known.items()}
        transforms = known.get("perceptual", {}).get("transforms", [])
        usual = known.get("text", {}).get("preset", "web")
    preset = preset or usual
    own = near_text.PRESETS[preset].threshold
    return NearRules(
        perceptual=thresholds.get("perceptual", perceptual.THRESHOLD),
        transforms=tuple(transforms),
        text=thresholds.get("text", own) if preset == usual else own,
        preset=preset,
        semantic=thresholds.get("semantic"),
        found_by=dedup,
    )


def _dedup_of(dataset: Dataset) -> Dataset | None:
    """The dedup that the dataset is, or selects rows of; None where there is none, or it is not where it was."""
    try:
        found = selected_from(dataset)
    except IntegrityError:
        return None
    return found if found.stage == "dedup" else None


def known_levels(rules: NearRules) -> frozenset[str]:
    """The levels of which the input's dedup has compared all pairs by the same rules.

    Not where there were crowds: among the rows that are left the first of a key are others, which it did not compare.
    """
    dedup = rules.found_by
    if dedup is None or rules.text is None:
        return frozenset()
    crowded = dedup.manifest.report.get("crowded", {})
    levels = frozenset(dedup.recipe.get("levels", ())) & {name for name, number in crowded.items() if not number}
    same = dedup.recipe.get("preset", "web") == rules.preset
    return levels if same else levels - {"text"}


# ---------------------------------------------------------------------- read
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowValues:
    """[N] each, by row: the value that stands for it in a pair of a level; 0 for none."""

    ids: Keys
    """First 64 bits of the example id."""
    text: Keys
    picture: Keys
    """Of its first image: lists are near where their images are, one by one."""

    def only(self, own: slice) -> RowValues:
        """The first rows."""
        return RowValues(ids=self.ids[own], text=self.text[own], picture=self.picture[own])

    def of(self, level: str) -> Keys:
        if level == "semantic":
            return id_bits("vector", self.ids)
        return self.text if level == "text" else self.picture


def stored_pairs(dataset: Dataset, rows: RowValues, rules: NearRules) -> Iterator[tuple[str, Indices, Indices, Pairs]]:
    """(level, rows, rows, values) of what dedup found near but not equal; equal rows tie by their values.

    Removed rows are among them; keepers of a reference dataset are not here.
    """
    dataset = rules.found_by or dataset
    if rules.text is None or not dataset.has_table("edges"):
        return
    order = np.argsort(rows.ids, kind="stable")
    known = rows.ids[order]
    table = dataset.table("edges", ["level", "score", "kept_id", "removed_id"])
    tables = [table]
    if dataset.has_table("near"):
        near = dataset.table("near", ["level", "score", "example_id", "other_id", "outcome"])
        near = near.filter(pc.is_in(near["outcome"], pa.array(_OUTCOMES)))
        tables.append(near.rename_columns(["level", "score", "kept_id", "removed_id", "outcome"]))
    thresholds = {"perceptual": rules.perceptual, "text": rules.text, "semantic": rules.semantic}
    for table in tables:
        # Pictures that look alike beside other texts stand at the level of equal ones.
        levels = pc.if_else(pc.equal(table["level"], "image"), "perceptual", table["level"])
        for level, threshold in thresholds.items():
            if threshold is None:
                continue
            some = table.filter(pc.and_(pc.equal(levels, level), pc.greater_equal(table["score"], threshold)))
            ends = [look_up(leading(some[name]), known, order) for name in ("kept_id", "removed_id")]
            both = (ends[0] >= 0) & (ends[1] >= 0)
            values = rows.of(level)
            one, two = values[ends[0][both]], values[ends[1][both]]
            # The score says nothing here: what is near may agree in all bits, and texts that were equal may have changed.
            differ = (one != two) & (one != 0) & (two != 0)
            yield level, ends[0][both][differ], ends[1][both][differ], (one[differ], two[differ])


# ---------------------------------------------------------------------- compared
def computed_pairs(
    inputs: Inputs,
    rows: RowValues,
    rules: NearRules,
    levels: Sequence[str],
    *,
    unseen: slice,
    present: npt.NDArray[np.bool_],
    workers: int,
    on_progress: Progress,
) -> Mapping[str, Pairs]:
    """Level -> pairs among all rows of the inputs, by content alone: neither workers nor the order of rows matter.

    Where many share a key, each is compared with the first of them only. Which are the first is another matter among
    those that are written; so what is crowded is compared again among these, as an audit will.

    Args:
        unseen: removed rows, whose pictures have no hashes in the inputs' tables; dedup's own edges tie them.
        present: [N] rows that will be written.
    """
    signed = sign(inputs, (), workers=workers, on_progress=on_progress)
    found = {}
    if "text" in levels:
        with TemporaryDirectory(prefix="shardkit-") as folder:
            found["text"] = _texts(inputs, signed, rows, rules, present, Path(folder), workers, on_progress)
    if "perceptual" in levels:
        seen = (signed.image_rows < unseen.start) | (signed.image_rows >= unseen.stop)
        images = {name: getattr(signed, name)[seen] for name in ("image_rows", "image_keys", "image_pixels")}
        found["perceptual"] = _pictures(inputs, replace(signed, **images), rules, present)
    return found


def _texts(  # noqa: PLR0917 - what a comparison of texts is told
    inputs: Inputs,
    signed: Signed,
    rows: RowValues,
    rules: NearRules,
    present: npt.NDArray[np.bool_],
    scratch: Path,
    workers: int,
    on_progress: Progress,
) -> Pairs:
    positions, text_of = distinct_texts(signed)
    search = partial(
        near_text.search,
        inputs,
        preset=near_text.PRESETS[rules.preset],
        workers=workers,
        scratch=scratch,
        on_progress=on_progress,
    )
    looked = search(positions)
    again = _again(looked.crowded, text_of[present & (text_of >= 0)])
    parts = [(positions, looked.edges), (positions[again], search(positions[again]).edges if len(again) else None)]
    ones, twos = [], []
    for own, edges in parts:
        near = (edges or NearEdges.none()).above(rules.text or 1.0)
        ones.append(rows.text[own[near.one]])
        twos.append(rows.text[own[near.two]])
    return np.concatenate(ones), np.concatenate(twos)


def _again(crowded: npt.NDArray[np.bool_], present: Indices) -> Indices:
    """The units that are compared again: crowded ones that are present; none where nothing is absent."""
    there = np.zeros(len(crowded), np.bool_)
    there[present] = True
    return np.empty(0, np.int64) if there.all() else np.flatnonzero(crowded & there)


def _pictures(inputs: Inputs, signed: Signed, rules: NearRules, present: npt.NDArray[np.bool_]) -> Pairs:
    """Each picture with each that looks like it; pages also need texts that agree, or none."""
    units = units_of(inputs, signed, near=True)
    if units.hashes is None or not len(units.page):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    transforms = frozenset(rules.transforms)
    looked = perceptual.search(units.hashes, transforms=transforms)
    edges = looked.edges
    again = _again(looked.crowded, units.of_image[present[signed.image_rows]])
    if len(again):
        more = perceptual.find(units.hashes.take(again), transforms=transforms)
        more = replace(more, one=again[more.one], two=again[more.two])
        known = np.isin((more.one << 32) | more.two, (edges.one << 32) | edges.two)
        edges = merged(edges, more.take(np.flatnonzero(~known)))
    edges = edges.above(rules.perceptual or 1.0)
    ties = ~(units.page[edges.one] | units.page[edges.two])
    ties[_pages_that_agree(inputs, signed, units, edges, np.flatnonzero(~ties))] = True
    value = np.zeros(len(units.page), np.uint64)
    value[units.of_image] = id_bits("pixel", signed.image_pixels)
    return value[edges.one[ties]], value[edges.two[ties]]


def _pages_that_agree(
    inputs: Inputs, signed: Signed, units: Units, edges: NearEdges, pages: Indices
) -> npt.NDArray[np.int64]:
    """The edges with a page of which two rows have the same text, none, or two readings of one."""
    chosen = edges.take(pages)
    one, two, edge = crossed(chosen.one, chosen.two, units.of_image)
    one, two = signed.image_rows[one], signed.image_rows[two]
    texts = signed.texts
    equal = texts[one] == texts[two]
    both = units.page[chosen.one[edge]] & units.page[chosen.two[edge]]
    # Of a page and a picture it is not known that they hold the same figures.
    open_ = np.flatnonzero(both & ~equal & (texts[one] != 0) & (texts[two] != 0))
    found = [edge[equal]]
    if len(open_):
        asked = row_edges(one[open_], two[open_], level=PERCEPTUAL, edges=chosen, of=edge[open_])
        agreed = agreeing(inputs, asked)
        keys = (agreed.one << 32) | agreed.two
        found.append(edge[open_][np.isin((asked.one << 32) | asked.two, keys)])
    agree: Indices = pages[np.unique(np.concatenate(found))]
    return agree
