"""Folders: files that share a stem belong together, an image and its label.

plan    files -> slices of a few hundred stems  (parent)
chunks  slice -> its pairs                      (parent)
records chunk -> pairs                          (worker)
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.claims import Peek, by_reference
from shardkit.prepare.ingest.containers.naming import PLAIN, Naming
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

_DERIVED = (".bin", ".nrm", ".raw", ".dew")
"""What binarizing and normalizing tools put before an image's extension; it is no part of the stem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Files of one stem, by name relative to the input root."""

    stem: str
    images: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    """(suffix, name), for instance (".gt.txt", "book/page.gt.txt")."""

    def image(self) -> str:
        """The one image.

        Raises:
            Bad: where there is none, or several.
        """
        if not self.images:
            raise Bad("no_image", f"no image belongs to {', '.join(name for _, name in self.labels)}")
        if len(self.images) > 1:
            raise Bad("ambiguous_image", f"several images of one stem: {', '.join(self.images)}")
        return self.images[0]

    def label_files(self) -> dict[str, str]:
        """Suffix -> name, the first of several folders.

        Raises:
            Bad: where two names of one folder end alike (they differ in case or Unicode form).
        """
        in_folders = {(name.rpartition("/")[0], suffix) for suffix, name in self.labels}
        if len(in_folders) < len(self.labels):
            raise Bad("ambiguous_label", f"several labels of one kind: {', '.join(name for _, name in self.labels)}")
        return dict(reversed(self.labels))

    def more_label_files(self) -> list[tuple[str, str]]:
        """(suffix, name) of those that lie in other folders than the one of their suffix in `label_files`."""
        return sorted(set(self.labels) - set(self.label_files().items()))

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.images, *(name for _, name in self.labels))


@dataclass(frozen=True, kw_only=True, slots=True)
class PairChunk:
    pairs: tuple[Pair, ...]
    changes: Counter[str] = field(default_factory=Counter)


def part(name: str, labels: Iterable[str], naming: Naming = PLAIN) -> tuple[str, str] | None:
    """(stem, what the file is to it): "image" or a suffix of `labels`; None for a file that is neither."""
    found = _part(name, labels)
    if found is None or naming is PLAIN:
        return found
    if naming.whole:
        return None if found[1] == "image" else (name, found[1])
    stem = naming.stem(found[0], is_image=found[1] == "image")
    return None if stem is None else (stem, found[1])


def _part(name: str, labels: Iterable[str]) -> tuple[str, str] | None:
    folded = name.lower()
    for suffix in sorted(labels, key=len, reverse=True):
        if folded.endswith(suffix):
            return name[: -len(suffix)], suffix
    stem, dot, extension = name.rpartition(".")
    if not dot or extension.lower() not in IMAGE_SUFFIXES or stem.endswith("/") or not stem:
        return None
    for derived in _DERIVED:
        stem = stem.removesuffix(derived)
    return stem, "image"


def plan(
    files: Iterable[InputFile],
    labels: tuple[str, ...],
    root: InputFile,
    *,
    max_bytes: int,
    naming: Naming = PLAIN,
    peeks: Mapping[str, Peek] | None = None,
) -> Iterator[Slice]:
    """Slices of whole stems in the order of their stems; other files are not looked at.

    Args:
        peeks: suffix -> how to find out what images a layout file names; such images come before those of its stem.
    """
    bound = min(max_bytes, CHUNK_BYTES)
    parts = [
        (unicodedata.normalize("NFC", found[0]), found[1], file)
        for file in files
        if (found := part(file.name, labels, naming)) is not None
    ]
    known = by_reference(parts, peeks or {})
    known.sort(key=lambda entry: (entry[0], entry[1].name))
    held: list[tuple[str, InputFile]] = []
    num_stems = size = 0
    for _, together in groupby(known, key=itemgetter(0)):
        files_of_stem = list(together)
        num_bytes = sum(max(0, file.size) for _, file in files_of_stem)
        if held and (num_stems >= CHUNK_RECORDS or size + num_bytes > bound):
            yield _slice(root, held, size, naming)
            held, num_stems, size = [], 0, 0
        held += files_of_stem
        num_stems += 1
        size += num_bytes
    if held:
        yield _slice(root, held, size, naming)


def _slice(root: InputFile, held: list[tuple[str, InputFile]], size: int, naming: Naming) -> Slice:
    stems, files = zip(*held, strict=True)
    return Slice(container="files", file=root, files=files, stems=stems, size=size, naming=naming)


def pairs(piece: Slice, labels: tuple[str, ...]) -> PairChunk:
    """The pairs of a slice."""
    found: dict[str, tuple[list[str], list[tuple[str, str]], set[str]]] = {}
    changes: Counter[str] = Counter()
    for stem, file in zip(piece.stems, piece.files, strict=True):
        known = part(file.name, labels, piece.naming)
        assert known is not None, "plan keeps only files of the format"
        spelling, role = known
        images, named, spellings = found.setdefault(stem, ([], [], set()))
        if unicodedata.normalize("NFC", spelling) == stem:
            spellings.add(spelling)
        if role == "image":
            images.append(file.name)
        else:
            named.append((role, file.name))
    for _, _, spellings in found.values():
        changes["stem_matched_by_unicode_form"] += len(spellings) > 1
    return PairChunk(
        pairs=tuple(
            Pair(stem=stem, images=tuple(images), labels=tuple(named)) for stem, (images, named, _) in found.items()
        ),
        changes=+changes,
    )


def records(chunk: PairChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """One record a stem."""
    if chunk.changes:
        yield chunk.changes
    for pair in chunk.pairs:
        yield Record(input=pair.files[0], position=pair.stem, value=pair, folder=pair.files[0].rpartition("/")[0])
