"""What a derived image was made from, as provenance says it: `shrunk,derived_from:<asset id>#<frame>,...`.

The newest comes first; the rest is what was said of the original, which may be derived itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SHRUNK = "shrunk"
_DERIVED = "derived_from:"


def stated(provenance: pa.Table) -> pa.ChunkedArray:
    """`preprocessing` of images that are made smaller now: what it will be, from the rows of the originals."""
    frames = pc.cast(pc.fill_null(provenance["frame"], 0), pa.string())
    origin = pc.binary_join_element_wise(_DERIVED, pc.fill_null(provenance["asset_id"], ""), "#", frames, "")
    before = pc.fill_null(provenance["preprocessing"], "none")
    said = pc.binary_join_element_wise(SHRUNK, origin, ",")
    return pc.if_else(pc.equal(before, "none"), said, pc.binary_join_element_wise(said, before, ","))


def originals(provenance: pa.Table, digits: str) -> set[str]:
    """Whole asset ids that begin with `digits`, of originals that are no longer here."""
    column = provenance["preprocessing"]
    texts = pc.unique(column.filter(pc.fill_null(pc.match_substring(column, _DERIVED + digits), False)))
    parts = (part for text in texts.to_pylist() for part in text.split(","))
    return {part[len(_DERIVED) :].partition("#")[0] for part in parts if part.startswith(_DERIVED + digits)}


def made_from(provenance: pa.Table, assets: Sequence[str]) -> npt.NDArray[np.bool_]:
    """[M] rows of images that were made from one of these."""
    found = np.zeros(provenance.num_rows, np.bool_)
    for asset in assets:
        hit = pc.fill_null(pc.match_substring(provenance["preprocessing"], f"{_DERIVED}{asset}#"), False)
        found |= np.asarray(hit.to_numpy(), np.bool_)
    return found
