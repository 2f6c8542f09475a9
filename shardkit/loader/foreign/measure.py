"""The first pass: every sample read once, for the lengths that a plan is made from."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from shardkit.digest import fingerprint, mix64
from shardkit.errors import ConfigError, SourceError
from shardkit.loader.foreign.sample import Sample, Source, Unusable, to_example
from shardkit.media.reasons import BadMedia
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan import Lengths
from shardkit.sequence.recipes import Recipe
from shardkit.sequence.recipes.built import Built, Encoder
from shardkit.store.files import output_errors, output_is

VERSION = 1
_COLUMNS = ("key", "shard", "row", "tokens", "images", "patches")


@dataclass(frozen=True, kw_only=True)
class Building:
    """How samples become sequences."""

    recipe: Recipe
    tokenizer: Encoder
    max_tokens: int
    overlong: str
    identity: Mapping[str, Any]
    """Of all this, for states."""

    def build(self, sample: Callable[[], Sample], source: str) -> Built:
        """The sequences of a sample, or the reason why there are none.

        Args:
            sample: reads it.
            source: name of its source.

        Raises:
            SourceError: where it cannot be read.
        """
        try:
            example = to_example(sample(), source)
        except (BadMedia, Unusable) as bad:
            return Built(reason=bad.reason, detail=bad.detail)
        except ValueError as error:
            return Built(reason="image_count_mismatch", detail=str(error))
        return self.recipe.build(example, self.tokenizer, self.recipe.image_processor(), self.max_tokens, self.overlong)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """N sequences; a row of `lengths` leads to `row` of the source's shard and the place among the sample's sequences."""

    lengths: Lengths
    place: npt.NDArray[np.int32]
    """[N] which of its sample's sequences each one is."""
    sample_row: npt.NDArray[np.int32]
    """[N] the sample's row in its shard; `lengths.row` counts sequences."""
    first: npt.NDArray[np.int64]
    """[shards] index of the first sequence of each shard."""
    excluded: Mapping[str, int]
    """Samples without a sequence, by reason."""

    def at(self, shard: int, row: int) -> tuple[int, int]:
        """(row of the sample, place among its sequences) of a sequence."""
        index = int(self.first[shard]) + row
        return int(self.sample_row[index]), int(self.place[index])


def measure(source: Source, building: Building, *, file: Path | None = None) -> Measured:
    """Read every sample, or what an earlier pass left in `file`.

    Args:
        file: where the lengths are kept (.npz); written when they are not there.

    Raises:
        ConfigError: where the file is of another source or recipe.
        SourceError: where a sample cannot be read, or none gives a sequence.
        OutputError: where the file cannot be written.
    """
    bound = fingerprint({"version": VERSION, "source": source.identity, "building": dict(building.identity)})
    if file is not None and file.exists():
        return _load(file, bound, source)
    if file is not None:
        # Before a pass that may take hours: the lengths could not be kept.
        with _of_lengths(), output_errors(file), tempfile.TemporaryFile(dir=file.parent):
            pass
    rows: list[list[int]] = []
    supervised: list[list[int]] = []
    excluded: Counter[str] = Counter()
    first_out = ""
    patch = building.recipe.patch_pixels
    first = []
    for shard, number in enumerate(source.num_rows):
        first.append(len(rows))
        for row in range(number):
            built = building.build(partial(source.sample, shard, row), source.name)
            if built.reason:
                excluded[built.reason] += 1
                first_out = first_out or f"{source.place(shard, row)}: {built.detail}"
            for place, sequence in enumerate(built.sequences):
                patches = sum(-(-slot.height // patch) * -(-slot.width // patch) for slot in sequence.slots)
                key = mix64(source.name, shard, row, place)
                numbers = (sequence.num_tokens, sequence.num_images, patches)
                rows.append([key, shard, len(rows) - first[-1], *numbers, row, place])
                counts = np.bincount(np.frombuffer(sequence.objectives, np.uint8), minlength=len(OBJECTIVES))
                supervised.append([0, *counts[1 : len(OBJECTIVES)].tolist()])
    if excluded and not rows:
        raise SourceError(
            f"none of {excluded.total()} samples gives a sequence ({dict(sorted(excluded.items()))}); the first is {first_out}",
            where=source.name,
            hint="name what holds texts and pictures with text= and images=, or choose another recipe",
        )
    table = np.array(rows, np.uint64).reshape(-1, 8)
    columns = dict(zip((*_COLUMNS, "sample_row", "place"), table.T, strict=True))
    columns["supervised"] = np.array(supervised, np.int64).reshape(-1, len(OBJECTIVES)).T
    columns["first"] = np.array(first, np.int64)
    if file is not None:
        _save(file, bound, columns, excluded)
    return _measured(columns, excluded, source)


def _measured(columns: Mapping[str, npt.NDArray[Any]], excluded: Mapping[str, int], source: Source) -> Measured:
    number = len(columns["key"])
    return Measured(
        lengths=Lengths(
            key=columns["key"].astype(np.uint64),
            shard=columns["shard"].astype(np.int32),
            row=columns["row"].astype(np.int32),
            tokens=columns["tokens"].astype(np.int64),
            images=columns["images"].astype(np.int64),
            patches=columns["patches"].astype(np.int64),
            supervised=columns["supervised"].astype(np.int64),
            source=np.zeros(number, np.int32),
            sources=(source.name,) if number else (),
        ),
        place=columns["place"].astype(np.int32),
        sample_row=columns["sample_row"].astype(np.int32),
        first=columns["first"].astype(np.int64),
        excluded=dict(sorted(excluded.items())),
    )


def _of_lengths() -> AbstractContextManager[None]:
    return output_is("the lengths", "choose another file with measured=")


def _save(file: Path, bound: str, columns: Mapping[str, npt.NDArray[Any]], excluded: Mapping[str, int]) -> None:
    """Whole or not at all: written beside it, then renamed."""
    about = np.frombuffer(orjson.dumps({"bound": bound, "excluded": dict(excluded)}), np.uint8)
    with _of_lengths(), output_errors(file):
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as out:
                np.savez(out, allow_pickle=False, **{**columns, "about": about})
                out.flush()
                os.fsync(out.fileno())
            os.replace(name, file)
        except BaseException:
            os.unlink(name)
            raise


def _load(file: Path, bound: str, source: Source) -> Measured:
    hint = "remove the file, and the lengths are measured anew"
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as saved:
            about = orjson.loads(saved["about"].tobytes())
            columns = {name: saved[name] for name in saved.files if name != "about"}
        found, excluded = about["bound"], about["excluded"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(f"the file holds no lengths ({error})", where=str(file), hint=hint) from error
    if found != bound:
        raise ConfigError(
            "the lengths in this file were measured of other files, or for another tokenizer or recipe",
            where=str(file),
            hint=hint,
        )
    return _measured(columns, excluded, source)
