"""Layout files that name their image: which files belong together where names alone do not say it.

An image that a layout file names comes before one that shares its stem. It is looked for as named, then by its base
name, in the folder of the layout file, then in the folder above it; then by its base name in the folders beside the
layout's, and last by its stem in all of these, for pictures are delivered in other forms than they were annotated in.
Folders parted by backslashes, addresses of files and names in percent signs are understood. A layout file without a reference that leads to an
image, and without an image of its stem beside it, takes the one of its stem in the folder above it, or in the one
folder beside its own that has it (ALTO/, page/ beside the images), or in the one folder whose path differs from its own in
one name (alto/BOOK, images/BOOK). A record of a document that is named by its folder
takes the one image in there, whatever it is called.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from urllib.parse import unquote

from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.roots import read_bounded
from shardkit.prepare.ingest.units import InputFile


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """What a layout file says before it is parsed."""

    images: tuple[str, ...] = ()
    """What it calls its images."""
    is_other: bool = False
    """It is a file of another kind that ends alike."""
    of_folder: bool = False
    """It belongs to the one image of its folder, whatever that is called."""


_MOST = 64 << 20
"""Bytes of a layout file that is looked into."""
_MOST_SHOWN = 8
"""Images that a layout may mean, and is excluded for; where there are more, it means none of them."""
Peek = Callable[[bytes], Head]

Known = tuple[str, str, InputFile]
"""(stem, what the file is to it, the file)"""


@dataclass(kw_only=True, slots=True)
class _Stem:
    labels: list[InputFile] = field(default_factory=list)
    images: list[InputFile] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    """What its layout files call their images."""
    has_layout: bool = False
    of_folder: bool = False
    only_other: bool = True
    """All its labels are files of another kind."""


def by_reference(known: Sequence[Known], peeks: Mapping[str, Peek]) -> list[tuple[str, InputFile]]:
    """(stem, file): every label under one stem, an image under each stem that it belongs to.

    Args:
        known: all files of a run.
        peeks: suffix -> how to look into such a layout file.
    """
    if not any(role in peeks for _, role, _ in known):
        return [(stem, file) for stem, _, file in known]
    stems: dict[str, _Stem] = {}
    for stem, role, file in known:
        entry = stems.setdefault(stem, _Stem())
        if role == "image":
            entry.images.append(file)
            continue
        head = _head(file, peeks[role]) if role in peeks else Head()
        entry.has_layout |= role in peeks and not head.is_other
        entry.of_folder |= head.of_folder
        entry.named += head.images
        entry.only_other &= head.is_other
        entry.labels.append(file)
    return list(dict.fromkeys(_arranged(stems, _Images(stems))))


def _arranged(stems: dict[str, _Stem], images: _Images) -> Iterator[tuple[str, InputFile]]:
    claimed: set[str] = set()
    for stem, entry in stems.items():
        if not entry.labels or (entry.only_other and not entry.images):
            continue
        owned = images.of(stem, entry)
        owner = images.stem_of(owned[0]) if len(owned) == 1 else stem
        # One page described in several folders is one record; a layout of another name is one of its own.
        target = owner if posixpath.basename(owner) == posixpath.basename(stem) else stem
        claimed.update(image.name for image in owned)
        yield from ((target, file) for file in entry.labels)
        yield from ((target, image) for image in owned)
    for stem, entry in stems.items():
        left = [image for image in entry.images if image.name not in claimed]
        yield from ((image.name if entry.labels else stem, image) for image in left)


def _head(file: InputFile, peek: Peek) -> Head:
    try:
        return peek(read_bounded(file.path, _MOST, file.name))
    except Bad:
        return Head()  # met again, and named, where the record is read


def _spellings(name: str) -> Iterator[str]:
    """The path of an image as it may be meant."""
    path = name.replace("\\", "/").removeprefix("file://")
    yield path
    if "%" in path:
        yield unquote(path)


def _but_one(stem: str) -> Iterator[str]:
    """The stem without the name of one of its folders, for each of them."""
    parts = stem.split("/")
    for k in range(len(parts) - 1):
        yield "/".join([*parts[:k], "", *parts[k + 1 :]])


class _Images:
    """The images of a run, by name, by stem and by base name."""

    def __init__(self, stems: dict[str, _Stem]) -> None:
        self._by_name: dict[str, InputFile] = {}
        self._stems: dict[str, str] = {}
        self._by_stem: dict[str, list[InputFile]] = {}
        self._beside: dict[tuple[str, str], list[InputFile]] = {}
        self._bare: dict[tuple[str, str], list[InputFile]] = {}
        """Those of `_beside` that no layout shares the stem of."""
        self._called: dict[tuple[str, str], list[InputFile]] = {}
        self._in_folder: dict[str, list[InputFile]] = {}
        self._but_one: dict[str, list[str]] = {}
        self._of_folder = Counter(posixpath.dirname(stem) for stem, entry in stems.items() if entry.of_folder)
        for stem, entry in stems.items():
            folder, base = posixpath.split(stem)
            for image in entry.images:
                self._by_name[image.name] = image
                self._stems[image.name] = stem
                self._by_stem.setdefault(stem, []).append(image)
                above = posixpath.dirname(folder)
                self._beside.setdefault((above, base), []).append(image)
                self._called.setdefault((above, posixpath.basename(image.name)), []).append(image)
                if not entry.has_layout:
                    self._bare.setdefault((above, base), []).append(image)
                self._in_folder.setdefault(folder, []).append(image)
            if entry.images:
                for path in _but_one(stem):
                    self._but_one.setdefault(path, []).append(stem)

    def stem_of(self, image: InputFile) -> str:
        return self._stems[image.name]

    def of(self, stem: str, entry: _Stem) -> list[InputFile]:
        """The images of a stem that has labels."""
        folder = posixpath.dirname(entry.labels[0].name)
        named = [image for name in entry.named if (image := self._named(name, folder)) is not None]
        if named:
            return list({image.name: image for image in named}.values())
        if entry.images or not entry.has_layout:
            return entry.images
        here = posixpath.dirname(stem)
        if entry.of_folder and self._of_folder[here] == len(self._in_folder.get(here, ())) == 1:
            return self._in_folder[here]
        return self._near(stem)

    def _named(self, name: str, folder: str) -> InputFile | None:
        paths = list(_spellings(name))
        above = posixpath.dirname(folder)
        for path in paths:
            for below in dict.fromkeys((folder, above)):
                for shown in (path, posixpath.basename(path)):
                    found = self._by_name.get(posixpath.normpath(posixpath.join(below, shown)))
                    if found is not None:
                        return found
        for path in paths:
            base = posixpath.basename(path)
            bare = posixpath.splitext(base)[0]
            beside = self._beside.get((above, bare), [])
            near = [self._by_stem.get(posixpath.join(below, bare), []) for below in dict.fromkeys((folder, above))]
            called = self._called.get((above, base), []) if beside else []
            for found_there in (called, *near, beside):
                if len(found_there) == 1:
                    return found_there[0]
        return None

    def _near(self, stem: str) -> list[InputFile]:
        folder, base = posixpath.split(stem)
        if not folder:
            return []
        above = posixpath.dirname(folder)
        near = self._by_stem.get(posixpath.join(above, base)) or self._in_folders_beside(above, base)
        return near or self._parallel(stem)

    def _in_folders_beside(self, above: str, base: str) -> list[InputFile]:
        """The images of a stem in the folders below `above`: of several those that have no layout of their own, if few."""
        found = self._beside.get((above, base), [])
        if len(found) < 2:
            return found
        bare = self._bare.get((above, base), [])
        return bare if len(bare) <= _MOST_SHOWN else []

    def _parallel(self, stem: str) -> list[InputFile]:
        """The images of the one folder whose path differs from that of `stem` in one name."""
        found = ""
        for key in chain.from_iterable(self._but_one.get(path, ()) for path in _but_one(stem)):
            if key not in (stem, found):
                if found:
                    return []
                found = key
        return self._by_stem[found] if found else []
