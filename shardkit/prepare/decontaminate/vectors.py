"""Pictures of benchmarks among images by vectors of any model, where files of them are given for both sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.embeddings import ASSET, EXAMPLE, SCALE, read_vectors
from shardkit.prepare.dedup.keys import Keys

Indices = npt.NDArray[np.int64]
_ROWS = 4096
_NO_KEYS = np.empty(0, np.uint64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Embeddings:
    paths: tuple[Path, ...]
    column: str | None
    threshold: float
    """Cosine."""


def alike(
    pictures: Keys, images: Keys, given: Embeddings, *, scratch: Path | None = None
) -> tuple[Indices, Indices, npt.NDArray[np.float64]]:
    """(image, picture, cosine) of all pairs at or above the threshold.

    Every image is compared with every picture, some thousands at a time: the cost is linear in the images, and no pair
    is left to chance.

    Args:
        pictures: asset keys of the benchmarks' pictures.
        images: asset keys of the inputs' images.
        scratch: where the vectors are put for the time being, 2 bytes a component; the system's place without it.

    Raises:
        ConfigError: where a file has no vectors of images.
        SourceError: where a file is damaged or of other images.
    """
    units = np.unique(np.concatenate([pictures, images]))
    with TemporaryDirectory(prefix="shardkit-", dir=scratch) as place:
        by_kind = read_vectors(
            given.paths, column=given.column, units={ASSET: units, EXAMPLE: _NO_KEYS}, scratch=Path(place)
        )
        if set(by_kind) != {ASSET}:
            raise ConfigError(
                f"vectors of pictures are found by the column {ASSET}",
                where=", ".join(map(str, given.paths)),
                hint=f"give files with {ASSET} (and frame), for the images of the inputs and of the benchmarks",
            )
        found = by_kind[ASSET]
        steps = found.stored.open()
        own = np.searchsorted(units, pictures)
        wanted = np.flatnonzero(found.have[own])
        theirs = np.searchsorted(units, images)
        looked = np.flatnonzero(found.have[theirs])
        # Products of whole steps are exact in single precision, so every machine finds the same pairs.
        against = steps[own[wanted]].astype(np.float32).T
        parts = []
        for start in range(0, len(looked), _ROWS):
            part = looked[start : start + _ROWS]
            cosines = (steps[theirs[part]].astype(np.float32) @ against).astype(np.float64) / SCALE**2
            image, picture = np.nonzero(cosines >= given.threshold)
            parts.append((part[image], wanted[picture], np.minimum(cosines[image, picture], 1.0)))
    none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    image, picture, score = (np.concatenate(column) for column in zip(none, *parts, strict=True))
    return image, picture, score
