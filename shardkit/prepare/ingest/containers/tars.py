"""Tar archives of samples: members that share a key, plain or compressed, in whatever order they stand.

The key is the name up to the last dot of its base name, but for extensions of two parts (see `_parted`). Samples come in
the order of their images, so that reading goes forwards; the order of other members does not matter.

    plan    file -> slices of whole samples           (parent)
    chunks  slice -> samples, with places or bytes     (parent)
    records chunk -> samples with their bytes          (worker)
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import side_table
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from shardkit.prepare.ingest.record import Record, exclusion, refused
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion
from shardkit.store.tar_walk import BLOCK, Member, walk

IMAGE_SUFFIXES = frozenset({"jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jfif"})
RARE_SUFFIXES = frozenset({"pnm", "jp2", "j2c"})
"""Of pictures that hardly anything but an export of ours names so; they are pictures where a .json says so."""
TEXT_SUFFIXES = frozenset({"txt", "json", "caption", "text"})
_SMALL = 64 << 10
"""Bytes: members of a compressed archive that are kept at the walk, so that captions need no second pass."""
_BAGGAGE = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    key: str
    members: tuple[Member, ...]
    reason: str = ""
    """Why it cannot be used at all."""
    detail: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Its row in a table beside the archive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """What a walk over an archive found."""

    samples: tuple[Sample, ...]
    changes: Counter[str]
    damage: str = ""
    """With --salvage: what ended the walk early."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleChunk:
    input: str
    folder: str
    samples: tuple[Sample, ...] = ()
    path: str = ""
    """Where the worker reads the members; empty where they carry their bytes."""
    damage: str = ""
    changes: Counter[str] = field(default_factory=Counter)


@lru_cache(maxsize=65_536)
def suffix(name: str) -> str:
    """The extension in lower case, without its dot."""
    return os.path.splitext(name)[1][1:].lower()


def index(file: InputFile, config: IngestConfig) -> Index:
    """The samples of an archive.

    Raises:
        SourceError: where the archive is damaged, unless --salvage was given.
    """
    stream = Stream(file)
    stems: dict[str, list[Member]] = {}
    changes: Counter[str] = Counter()
    damage = ""
    size = file.size if stream.compression is None else None
    try:
        for member in walk(stream, size=size, keep=0 if size is not None else _SMALL):
            base = member.name.rpartition("/")[2]
            if base.startswith("._") or base in _BAGGAGE or member.name.startswith("__MACOSX/"):
                changes["system_member_skipped"] += 1
                continue
            # Of a packed archive only texts are held: pictures are read again when their turn comes.
            kept = replace(member, data=None) if member.data and suffix(base) not in TEXT_SUFFIXES else member
            stems.setdefault(unicodedata.normalize("NFC", _stem(member)), []).append(kept)
    except Damaged as broken:
        damage = f"damaged at byte {broken.place}: {broken.what}"
        if not config.salvage:
            raise refused(file.name, damage) from broken
    finally:
        stream.close()
    forms = sum(len(set(map(_stem, members))) > 1 for members in stems.values())
    keys = {_key(stem, members): members for stem, members in _joined(_parted(stems, changes)).items()}
    if forms:
        changes["stem_matched_by_unicode_form"] += forms
    rows = side_table.read(file, keys.keys(), salvage=config.salvage)
    changes.update(rows.changes)
    samples = [_sample(key, members, file, rows.by_key.get(key, {})) for key, members in keys.items()]
    samples.sort(key=_place)
    return Index(samples=tuple(samples), changes=changes, damage=damage)


def _joined(stems: dict[str, list[Member]]) -> dict[str, list[Member]]:
    """Numbered pictures (KEY.0.jpg, KEY.1.png) with the KEY.json that tells of them, where it has no picture of its own."""
    joined: dict[str, list[Member]] = {}
    for stem, members in stems.items():
        key, _, number = stem.rpartition(".")
        told = stems.get(key, ())
        kinds = {suffix(member.name) for member in told}
        numbered = number.isdigit() and {suffix(member.name) for member in members} <= IMAGE_SUFFIXES | RARE_SUFFIXES
        joins = numbered and "json" in kinds and kinds.isdisjoint(IMAGE_SUFFIXES)
        joined.setdefault(key if joins else stem, []).extend(members)
    return joined


def _parted(stems: dict[str, list[Member]], changes: Counter[str]) -> dict[str, list[Member]]:
    """Samples whose members have extensions of two parts, as WebDataset's keys, which end at the first dot, allow.

    KEY.image.jpg with KEY.caption.txt is a sample where that makes one picture and its texts. Beside KEY.jpg with KEY.txt
    or KEY.json, what is no such pair by itself (KEY.seg.png, KEY.feat.npy) is passed over, counted.
    """
    joined = dict(stems)
    by_key: dict[str, list[str]] = {}
    for stem, members in stems.items():
        keys = [] if all(_kinds(members)) else _shorter(stem)
        if any(all(_kinds(stems.get(key, ()))) for key in keys):
            changes["member_beside_sample"] += len(joined.pop(stem))
        elif keys:
            by_key.setdefault(keys[-1], []).append(stem)
    for key, parts in by_key.items():
        together = [*stems.get(key, ()), *(member for stem in parts for member in stems[stem])]
        found = Counter("picture" if kind in IMAGE_SUFFIXES else kind for kind in map(suffix, _names(together)))
        texts = [found[kind] for kind in TEXT_SUFFIXES & found.keys()]
        if found["picture"] == 1 and texts and max(texts) == 1:
            for stem in parts:
                del joined[stem]
            joined[key] = together
    return joined


def _names(members: Iterable[Member]) -> Iterator[str]:
    return (member.name for member in members)


def _kinds(members: Iterable[Member]) -> tuple[bool, bool]:
    """Whether there is a picture, and a text, among members."""
    found = set(map(suffix, _names(members)))
    return not found.isdisjoint(IMAGE_SUFFIXES), not found.isdisjoint(TEXT_SUFFIXES)


def _shorter(stem: str) -> list[str]:
    """The keys that a stem may have when words, not numbers, behind a dot are part of an extension; the longest first."""
    folder, slash, base = stem.rpartition("/")
    parts = base.split(".")
    return [
        f"{folder}{slash}{'.'.join(parts[:k])}"
        for k in range(len(parts) - 1, 0, -1)
        if parts[0] and parts[k] and not parts[k][0].isdigit()
    ]


def _key(stem: str, members: list[Member]) -> str:
    """The key of a sample as its members spell it."""
    spelled = (_stem(member) for member in members)
    return next((one for one in spelled if unicodedata.normalize("NFC", one) == stem), stem)


def _stem(member: Member) -> str:
    return os.path.splitext(member.name)[0]


def _place(sample: Sample) -> int:
    images = [member.offset for member in sample.members if suffix(member.name) in IMAGE_SUFFIXES]
    return min(images or [member.offset for member in sample.members])


def _sample(key: str, members: list[Member], file: InputFile, beside: Mapping[str, Any]) -> Sample:
    for member in members:
        if member.unsafe:
            detail = f"member {member.name} of {file.name} is {member.unsafe}"
            return Sample(key=key, members=tuple(members), reason="unsafe_member", detail=detail)
    names = Counter(unicodedata.normalize("NFC", member.name) for member in members)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        detail = f"{file.name} has two members named {twice}"
        return Sample(key=key, members=tuple(members), reason="duplicate_member", detail=detail)
    known = IMAGE_SUFFIXES | RARE_SUFFIXES | TEXT_SUFFIXES
    used = [member for member in members if suffix(member.name) in known]
    return Sample(key=key, members=tuple(used or members[:1]), beside=beside)


def _bytes(sample: Sample) -> int:
    return sum(member.size + BLOCK for member in sample.members)


def check(file: InputFile, _required: Required, _config: IngestConfig) -> None:
    """Refuse what has no bytes; the walk that plans an archive looks at everything else.

    Raises:
        SourceError: by name.
    """
    if not file.size:
        raise refused(file.name, "an empty file is no archive")


def plan(file: InputFile, config: IngestConfig, opener: Opener) -> Iterator[Slice]:
    """Slices of at most `config.unit_size` bytes of whole samples; `start` and `end` count samples."""
    samples = opener.remember(file.name, lambda: index(file, config)).samples
    start = size = 0
    for number, sample in enumerate(samples):
        if number > start and size + _bytes(sample) > config.unit_size:
            yield Slice(container="tar", file=file, start=start, end=number, size=size)
            start, size = number, 0
        size += _bytes(sample)
    yield Slice(container="tar", file=file, start=start, end=len(samples), size=size)


def chunks(piece: Slice, config: IngestConfig, opener: Opener) -> Iterator[SampleChunk]:
    """The samples of a slice; those of a compressed archive with their bytes."""
    found = opener.remember(piece.file.name, lambda: index(piece.file, config))
    folder = piece.file.name.rpartition("/")[0]
    if piece.start == 0 and found.changes:
        yield SampleChunk(input=piece.file.name, folder=folder, changes=found.changes)
    stream = opener.at(piece.file, 0) if _compressed(piece.file) else None
    held: list[Sample] = []
    size = 0
    for sample in found.samples[piece.start : piece.end]:
        held.append(sample if stream is None else _loaded(sample, piece.file, opener, config))
        size += _bytes(sample)
        if len(held) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield SampleChunk(
                input=piece.file.name, folder=folder, samples=tuple(held), path="" if stream else piece.file.path
            )
            held, size = [], 0
    if held:
        yield SampleChunk(
            input=piece.file.name, folder=folder, samples=tuple(held), path="" if stream else piece.file.path
        )
    if found.damage and piece.end == len(found.samples):
        yield SampleChunk(input=piece.file.name, folder=folder, damage=found.damage)


def _compressed(file: InputFile) -> bool:
    stream = Stream(file)
    stream.close()
    return stream.compression is not None


def _loaded(sample: Sample, file: InputFile, opener: Opener, config: IngestConfig) -> Sample:
    """`sample` with the bytes of its members, read forwards."""
    if sample.reason:
        return sample
    members = []
    for member in sorted(sample.members, key=lambda one: one.offset):
        data = member.data
        if data is None and member.size <= config.limits.max_bytes:
            stream = opener.at(file, member.offset)
            data = b""
            while len(data) < member.size:
                data += stream.read(member.size - len(data))
        members.append(replace(member, data=data))
    return replace(sample, members=tuple(members))


def records(chunk: SampleChunk, config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """Samples with the bytes of their members, and exclusions, in order."""
    max_bytes = config.limits.max_bytes
    if chunk.changes:
        yield chunk.changes
    if chunk.damage:
        yield exclusion(chunk.input, "end", "damaged_input", f"{chunk.input} is {chunk.damage}")
    descriptor = os.open(chunk.path, os.O_RDONLY | os.O_CLOEXEC) if chunk.path else -1
    try:
        for sample in chunk.samples:
            if sample.reason:
                yield exclusion(chunk.input, sample.key, sample.reason, sample.detail)
                continue
            too_large = next((member for member in sample.members if member.size > max_bytes), None)
            if too_large is not None:
                detail = f"member {too_large.name} has {too_large.size} bytes, the limit is {max_bytes}"
                yield exclusion(chunk.input, sample.key, "too_many_bytes", detail)
                continue
            members = [
                member if member.data is not None else replace(member, data=_read(descriptor, member, chunk.input))
                for member in sample.members
            ]
            beside = config.with_split(chunk.input, dict(sample.beside))
            yield Record(input=chunk.input, position=sample.key, value=members, folder=chunk.folder, beside=beside)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _read(descriptor: int, member: Member, name: str) -> bytes:
    data = os.pread(descriptor, member.size, member.offset)
    if len(data) != member.size:
        raise SourceError(
            f"the archive changed while it was read: member {member.name} is not whole any more",
            where=name,
            hint="run the command again when nothing writes to the inputs",
        )
    return data
