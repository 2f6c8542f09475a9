"""Which examples, origins and bytes go.

named assets, and files of equal pixels        -> all examples that show them
origins of a source or under a licence         -> the examples that came by them; the picture stays where another
                                                  example shows it by another origin
texts of a source or under a licence           -> these examples
made from any of these (parent_id), or with a
caption that moved to it from one of these     -> these too, and so on
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.engine import Progress
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.forget.criteria import Criteria, Marks, of_texts
from shardkit.prepare.lineage.forget.reasons import ASSET, CODES, DERIVED, LICENCE, SOURCE
from shardkit.prepare.lineage.index import Index

_BLANK = "blank"
_DERIVED_FROM = r"derived_from:(?P<asset>[0-9a-f]{64})"
"""In the preprocessing of an image that was made from another one."""
_ORIGIN = ("source", "input", "origin")
"""Columns of provenance that a source may be named by. Its group is no such: after a split it names a component."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Decision:
    examples: pa.Table
    """[N] example_id, parent_id and what is written anew with each row."""
    reasons: npt.NDArray[np.int8]
    """[N] index into CODES; 0 stays."""
    provenance: Marks
    """[M] rows that stay."""
    assets: Keys
    """First 64 bits of the ids of all files that are here, ascending."""
    gone_assets: Keys
    """Those whose bytes go, ascending."""
    named: Keys
    """What was asked for by id, with all that is the same or was made from it, here or in earlier datasets."""
    elsewhere: Keys
    """Those that lose an origin and stay by another one, ascending."""
    stored: tuple[str, ...]
    """xxh3-128 of bytes that must not be found anywhere afterwards."""

    @property
    def kept(self) -> Marks:
        stays: Marks = self.reasons == 0
        return stays

    @property
    def gone_ids(self) -> Keys:
        """First 64 bits of the ids of examples that go, ascending."""
        return np.unique(leading(self.examples["example_id"])[~self.kept])

    @property
    def num_found(self) -> int:
        """Everything that goes: examples, origins."""
        return int((~self.kept).sum() + (~self.provenance).sum())

    def report(self) -> dict[str, Any]:
        return {
            "assets": len(self.gone_assets),
            "origins": int((~self.provenance).sum()),
            "elsewhere": len(self.elsewhere),
        }


class Decider:
    """Finds what goes from one dataset."""

    def __init__(
        self, ancestry: Ancestry, criteria: Criteria, *, bases: tuple[Path, ...], workers: int, on_progress: Progress
    ) -> None:
        self._ancestry = ancestry
        self._dataset = ancestry.dataset
        self._criteria = criteria
        self._texts = of_texts(ancestry, criteria, bases=bases, workers=workers, on_progress=on_progress)

    @cached_property
    def _provenance(self) -> pa.Table:
        return self._dataset.table(
            "provenance",
            ["asset_id", "example_id", "source", "input", "position", "origin", "licence", "preprocessing"],
        )

    @cached_property
    def _shown(self) -> Keys:
        """[M] asset of each row of provenance."""
        return leading(self._provenance["asset_id"])

    @cached_property
    def _shown_by(self) -> Keys:
        """[M] example of each row of provenance."""
        return leading(self._provenance["example_id"])

    @cached_property
    def _named(self) -> Keys:
        """Named assets, files of the same bytes or pixels, and what was made from any of them, ascending."""
        named = np.array(sorted(int(one[:16], 16) for one in self._criteria.assets), np.uint64)
        for index in self._ancestry.indices if len(named) else ():
            named = np.union1d(named, _same_pictures(index, named))
            table = index.provenance.columns("asset_id", "preprocessing")
            originals = leading(pc.struct_field(pc.extract_regex(table["preprocessing"], _DERIVED_FROM), "asset"))
            named = np.union1d(named, leading(table["asset_id"])[(originals != 0) & np.isin(originals, named)])
        return named

    def decide(self) -> Decision:
        examples = self._dataset.table("examples")
        ids = leading(examples["example_id"])
        of_asset = np.isin(self._shown, self._named)
        of_source = self._criteria.sources_in(self._provenance, _ORIGIN)
        of_licence = self._licensed(self._provenance)
        reasons = np.zeros(len(ids), np.int8)
        for code, hit in (
            (ASSET, np.isin(ids, self._shown_by[of_asset])),
            (SOURCE, np.isin(ids, self._shown_by[of_source]) | self._same(ids, self._texts.sources)),
            (LICENCE, np.isin(ids, self._shown_by[of_licence]) | self._same(ids, self._texts.licences)),
        ):
            reasons[hit & (reasons == 0)] = CODES.index(code)
        self._add_derived(ids, leading(examples["parent_id"]), reasons)
        return self._decision(examples, ids, reasons, of_asset | of_source | of_licence)

    def _licensed(self, provenance: pa.Table) -> Marks:
        """Rows under a licence that is named; of texts without pictures the rest of what is stated decides."""
        stated: Marks = provenance["asset_id"].is_valid().to_numpy() | provenance["licence"].is_valid().to_numpy()
        return self._criteria.licences_in(provenance["licence"]) & stated

    @staticmethod
    def _same(ids: Keys, marks: Marks) -> Marks:
        """Examples of equal content have one id, and go together."""
        return np.isin(ids, ids[marks])

    def _add_derived(self, ids: Keys, parents: Keys, reasons: npt.NDArray[np.int8]) -> None:
        """Mark what was made from a marked example, and what was made from that."""
        children, makers = self._moved()
        children, makers = np.concatenate([ids, children]), np.concatenate([parents, makers])
        # An equal example that came by another way is here still: what was made from it stays.
        gone = np.union1d(ids[reasons > 0], np.setdiff1d(self._gone_before(), ids[reasons == 0]))
        while True:
            new = (reasons == 0) & np.isin(ids, children[(makers != 0) & np.isin(makers, gone)])
            if not new.any():
                return
            reasons[new] = CODES.index(DERIVED)
            gone = np.union1d(gone, ids[reasons > 0])

    def _moved(self) -> tuple[Keys, Keys]:
        """Examples that took a caption over, and the removed duplicates that they have it from."""
        pairs = [(np.empty(0, np.uint64), np.empty(0, np.uint64))]
        for index in self._ancestry.indices:
            if index.dataset.has_table("moved"):
                table = index.dataset.table("moved", ["example_id", "from_id"])
                pairs.append((leading(table["example_id"]), leading(table["from_id"])))
        return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])

    def _gone_before(self) -> Keys:
        """Examples of earlier datasets that would go by these criteria: what was made from them goes as well."""
        found = [np.empty(0, np.uint64)]
        for index in self._ancestry.indices[:-1]:
            table = index.provenance.columns(
                "asset_id", "example_id", "source", "input", "position", "origin", "licence"
            )
            hit = np.isin(leading(table["asset_id"]), self._named)
            hit |= self._criteria.sources_in(table, _ORIGIN) | self._licensed(table)
            found.append(leading(table["example_id"])[hit])
            rows = index.examples.columns("example_id", "source", "input", "position", "group")
            found.append(leading(rows["example_id"])[self._criteria.sources_in(rows, ("source", "input", "group"))])
        return np.unique(np.concatenate(found))

    def _decision(self, examples: pa.Table, ids: Keys, reasons: npt.NDArray[np.int8], hit: Marks) -> Decision:
        kept, gone = ids[reasons == 0], ids[reasons > 0]
        own = np.isin(self._shown_by, kept)
        shown = np.unique(self._shown[own & (self._shown != 0)])
        # A further origin, left by a removed duplicate, stays with its picture; that of a forgotten example does not.
        stays = own | (~np.isin(self._shown_by, gone) & np.isin(self._shown, shown))
        stays &= ~hit
        assets = np.unique(self._shown[self._shown != 0])
        gone_assets = np.setdiff1d(assets, shown)
        table = self._dataset.table("assets", ["asset_id", "stored_xxh3"])
        went = np.isin(leading(table["asset_id"]), gone_assets)
        stored = pc.unique(table.filter(pa.array(went))["stored_xxh3"])
        # Equal bytes may have come as other files, by origins that stay.
        still = pc.unique(table.filter(pa.array(~went))["stored_xxh3"])
        return Decision(
            examples=examples,
            reasons=reasons,
            provenance=stays,
            assets=assets,
            gone_assets=gone_assets,
            named=self._named,
            elsewhere=np.intersect1d(self._shown[hit & (self._shown != 0)], shown),
            stored=tuple(stored.filter(pc.invert(pc.is_in(stored, still))).to_pylist()),
        )


def _same_pictures(index: Index, named: Keys) -> Keys:
    """Files of the same stored bytes or pixels; blank pictures equal nothing by their pixels."""
    table = index.dataset.table("assets", ["asset_id", "stored_xxh3", "pixel_id", "class"])
    keys, stored = leading(table["asset_id"]), leading(table["stored_xxh3"])
    plain = np.asarray(pc.fill_null(pc.not_equal(table["class"], _BLANK), True).to_numpy(), np.bool_)
    pixels = np.where(plain, leading(table["pixel_id"]), np.uint64(0))
    own = np.isin(keys, named)
    same: Keys = keys[np.isin(stored, stored[own]) | ((pixels != 0) & np.isin(pixels, pixels[own]))]
    return same
