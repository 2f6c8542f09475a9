"""What a worker finds in one shard of a split: values that may stand on one side only, from the bytes themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import xxhash

from shardkit.media.phash import Looks
from shardkit.prepare.audit.content import content_ids
from shardkit.prepare.audit.images import differences, look
from shardkit.prepare.dedup.facts import Facts, read_facts
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, asset_key, words
from shardkit.prepare.dedup.perceptual import ImageHashes, read_hashes
from shardkit.prepare.dedup.signatures import figures_key
from shardkit.prepare.ingest.group import field_of
from shardkit.prepare.split.declared import by_path, fact_key, path_key
from shardkit.store.dataset import Dataset
from shardkit.store.shard import ShardReader
from shardkit.store.tar_shard import TarReader
from shardkit.store.whole import open_whole

_ID = re.compile("[0-9a-f]{32,}")
_ASSET = re.compile("[0-9a-f]{64}")

KINDS = ("asset", "pixel", "text", "group", "parent")
"""What may not stand on two sides. parent: an example and those made from it."""

Indices = npt.NDArray[np.int64]

_ROWS = 4096
"""Read at a time."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    dataset: Path
    bases: tuple[Path, ...]
    shard: int
    """Place among the shards of examples, or of sequences."""
    rows: npt.NDArray[np.int32]
    """Ascending; of a shard of sequences all."""
    first: bool
    """Whether the whole file is compared: once a shard, however many jobs it has."""
    group_by: str | None
    """As the split recorded it."""
    with_column: bool
    """Whether the group column counts: it holds what the split kept together."""
    asked: str | None
    """A further key."""
    parent_field: str | None
    """Field of the metadata that names what the row was made from, as the split recorded it."""
    places: pa.Table
    """row, parent_id and, where the key comes from the path, input, position of the shard's rows, as tables/examples has
    them; ascending by row."""
    with_looks: bool
    """Whether pictures that look alike are searched for."""

    def place_of(self, rows: npt.NDArray[np.int32]) -> dict[int, dict[str, str]]:
        """Row -> input, position, parent_id, of some ascending rows."""
        known = as_int32(self.places["row"])
        begin, end = np.searchsorted(known, [rows[0], rows[-1] + 1])
        return {place.pop("row"): place for place in self.places.slice(begin, end - begin).to_pylist()}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Images:
    """m images of a shard that were decoded, and u different pictures among them."""

    rows: npt.NDArray[np.int32]
    """[m]"""
    keys: Keys
    """[m] asset key, as the row has it."""
    pixels: Keys
    """[m, 2] pixel id, of the bytes."""
    figures: Keys
    """[m] of the row's text; see signatures.figures_key"""
    picture: Indices
    """[m] place in `hashes`"""
    hashes: ImageHashes
    """[u], with salt 0; none where nobody asked for looks"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Side:
    """M values of rows of one shard."""

    shard: int
    """Place among the shards of examples, those of sequences after them."""
    num_rows: int
    num_keyed: int
    """Rows that have the key that is asked for."""
    kinds: npt.NDArray[np.int8]
    """[M] index into KINDS."""
    values: Keys
    """[M, 2] 128 bits of the value."""
    rows: npt.NDArray[np.int32]
    """[M]"""
    made_rows: npt.NDArray[np.int32]
    made: Keys
    """[P], [P, 2] rows, and the id of an example that each was made from"""
    ids: Keys
    """[num_rows] first 64 bits of each example id, of the content."""
    images: Images
    faults: list[str]
    """What rows say and bytes do not."""
    changed: list[tuple[int, str]]
    """(asset key, where) of images whose stored bytes are not the original: metadata was removed, or the id is wrong."""


def value_bits(kind: str, value: str) -> tuple[int, int]:
    """128 bits of a value: of ids their own, of texts and groups a digest, as of an id that is none."""
    if kind in ("text", "group") or not _ID.fullmatch(value):
        number = xxhash.xxh3_128_intdigest(value.encode())
        return number >> 64, number & 0xFFFFFFFFFFFFFFFF
    return int(value[:16], 16), int(value[16:32], 16)


class Values:
    """Values as they are found; every few rows they become arrays, for a shard may hold a million small rows."""

    def __init__(self) -> None:
        self._kinds: list[int] = []
        self._values: list[tuple[int, int]] = []
        self._rows: list[int] = []
        self._parts: list[tuple[npt.NDArray[np.int8], Keys, npt.NDArray[np.int32]]] = []

    def add(self, row: int, found: set[tuple[str, str]]) -> None:
        """(kind, value) pairs of a row."""
        self._kinds += [KINDS.index(kind) for kind, _ in found]
        self._values += [value_bits(kind, value) for kind, value in found]
        self._rows += [row] * len(found)
        if len(self._rows) >= _ROWS:
            self._settle()

    def _settle(self) -> None:
        self._parts.append(
            (
                np.array(self._kinds, np.int8),
                np.array(self._values, np.uint64).reshape(-1, 2),
                np.array(self._rows, np.int32),
            )
        )
        self._kinds, self._values, self._rows = [], [], []

    def arrays(self) -> tuple[npt.NDArray[np.int8], Keys, npt.NDArray[np.int32]]:
        self._settle()
        kinds, values, rows = zip(*self._parts, strict=True)
        return np.concatenate(kinds), np.concatenate(values), np.concatenate(rows)


class Pictures:
    """Images as they are decoded; each different picture is held once."""

    def __init__(self) -> None:
        self._columns: list[tuple[int, int, int, int]] = []
        self._pixels: list[str] = []
        self._place: dict[str, int] = {}
        self._looks: list[Looks] = []

    def add(self, row: int, key: int, pixel: str, figures: int, seen: Looks | None) -> None:
        place = self._place.setdefault(pixel, len(self._place))
        if seen is not None and place == len(self._looks):
            self._looks.append(seen)
        self._columns.append((row, key, figures, place))
        self._pixels.append(pixel)

    def images(self) -> Images:
        rows, keys, figures, picture = (
            np.array([column[number] for column in self._columns], kind)
            for number, kind in enumerate((np.int32, np.uint64, np.uint64, np.int64))
        )
        return Images(
            rows=rows,
            keys=keys,
            pixels=words(self._pixels, 2),
            figures=figures,
            picture=picture,
            hashes=_hashes(self._looks),
        )


def _hashes(seen: Sequence[Looks]) -> ImageHashes:
    columns = {
        "phash": pa.array([one.phash for one in seen], pa.string()),
        "phash_fine": pa.array([one.phash_fine for one in seen], pa.string()),
        "preview": pa.array([one.preview for one in seen], pa.binary()),
        "class": pa.array([one.picture_class for one in seen], pa.string()),
    }
    return read_hashes(pa.table(columns))


@dataclass(kw_only=True, slots=True, eq=False)
class Collected:
    """What is collected of a shard, or of a part of one."""

    shard: int
    values: Values = field(default_factory=Values)
    pictures: Pictures = field(default_factory=Pictures)
    faults: list[str] = field(default_factory=list)
    changed: list[tuple[int, str]] = field(default_factory=list)
    ids: list[Keys] = field(default_factory=lambda: [np.empty(0, np.uint64)])
    made: list[tuple[int, int, int]] = field(default_factory=list)
    """row, 128 bits of its parent"""
    num_keyed: int = 0

    def side(self) -> Side:
        kinds, values, rows = self.values.arrays()
        ids = np.concatenate(self.ids)
        return Side(
            shard=self.shard,
            num_rows=len(ids),
            num_keyed=self.num_keyed,
            kinds=kinds,
            values=values,
            rows=rows,
            made_rows=np.array([one[0] for one in self.made], np.int32),
            made=np.array([one[1:] for one in self.made], np.uint64).reshape(-1, 2),
            ids=ids,
            images=self.pictures.images(),
            faults=self.faults,
            changed=self.changed,
        )


def examine(job: Job) -> Side:
    """Read rows of a shard of examples; run by a worker.

    Raises:
        IntegrityError: where the file is not the one that the manifest names.
    """
    dataset = opened(job.dataset, job.bases)
    shard = dataset.shards[job.shard]
    found = Collected(shard=job.shard)
    if not len(job.rows) and shard.holder is not dataset:
        return found.side()
    reader = open_whole(shard, compare=job.first)
    if job.first:
        found.faults += _members(reader, shard.name)
    for start in range(0, len(job.rows), _ROWS):
        rows = job.rows[start : start + _ROWS]
        places = job.place_of(rows)
        ids = []
        contents = zip(rows.tolist(), read_facts(reader, rows, with_gaps=True), content_ids(reader, rows), strict=True)
        for row, facts, content in contents:
            where = f"{shard.name}:{row}"
            if content != facts.example_id:
                found.faults.append(
                    f"{where}: the content gives the example id {content}, the row says {facts.example_id}"
                )
            ids.append(content[:16])
            seen = _look_at(reader, row, facts, where, found, with_looks=job.with_looks)
            found.values.add(row, seen | _said(job, row, facts, content, places.get(row, {}), found))
        found.ids.append(words(ids, 1)[:, 0])
    reader.close()
    return found.side()


def _look_at(
    reader: ShardReader, row: int, facts: Facts, where: str, found: Collected, *, with_looks: bool
) -> set[tuple[str, str]]:
    """Assets and pixels of a row, from the bytes."""
    values, figures = set(), figures_key(facts)
    for number, (asset, frame) in enumerate(zip(facts.assets, facts.frames, strict=True)):
        place = f"{where} image {number}"
        seen = look(reader.image_bytes(row, number), with_looks=with_looks)
        wrong = differences(seen, stored_xxh3=facts.stored[number], pixel=facts.pixels[number])
        if not _ASSET.fullmatch(asset):
            wrong.append(f"{asset!r} is no asset id")
            asset = seen.sha256
        found.faults += [f"{place}: {what}" for what in wrong]
        key = asset_key(asset, frame)
        if seen.sha256 != asset:
            found.changed.append((key, place))
        if seen.pixel_id is not None:
            found.pictures.add(row, key, seen.pixel_id, figures, seen.looks)
        values |= {("asset", asset), ("pixel", seen.pixel_id or facts.pixels[number])}
    return values


def _said(  # noqa: PLR0917 - a row, and where it is collected
    job: Job, row: int, facts: Facts, content: str, place: Mapping[str, str], found: Collected
) -> set[tuple[str, str]]:
    """Text, groups and ids of a row."""
    values = {("parent", facts.example_id), ("parent", content)}
    if facts.text:
        values.add(("text", facts.text))
    values |= {("group", group) for group in groups_of(job, facts, place)}
    found.num_keyed += job.asked is not None and _declared(job.asked, facts, place) is not None
    at_ingest = place.get("parent_id")
    for parent in {*([at_ingest] if at_ingest else []), *_named_parents(facts.metadata, job.parent_field)}:
        values.add(("parent", parent))
        found.made.append((row, *value_bits("parent", parent)))
    return values


def _named_parents(metadata: str, name: str | None) -> list[str]:
    """Ids that a field of the metadata names: one, or a list of them."""
    if name is None:
        return []
    value = field_of(orjson.loads(metadata), name)
    ids = value if isinstance(value, list) else [value]
    return [one for one in ids if isinstance(one, str)]


def _members(reader: ShardReader, name: str) -> list[str]:
    """Of a tar: where its members are not those that its index describes, also in rows that a view leaves out."""
    if not isinstance(reader, TarReader):
        return []
    return [f"{name}:{row}: {what}" for row, what in reader.unlike_members()]


def groups_of(job: Job, facts: Facts, place: Mapping[str, str]) -> set[str]:
    """The declared keys of a row that is audited; see `groups_by`."""
    keys = [key for key in (job.group_by, job.asked) if key is not None]
    return _all_declared([*keys, None] if job.with_column else keys, facts, place)


def groups_by(keys: Sequence[str | None], facts: Facts, place: Mapping[str, str]) -> set[str]:
    """The declared keys, from the row itself or from its raw place, and what stands in the group column.

    Args:
        place: of place_of(); empty where tables/examples does not know the row.
    """
    return _all_declared((*keys, None), facts, place)


def _all_declared(keys: Sequence[str | None], facts: Facts, place: Mapping[str, str]) -> set[str]:
    return {group for key in dict.fromkeys(keys) for group in [_declared(key, facts, place)] if group}


def _declared(key: str | None, facts: Facts, place: Mapping[str, str]) -> str | None:
    if key is not None and by_path(key):
        return path_key(key)(place["input"], place["position"]) if place else None
    return fact_key(key)(facts)


@lru_cache(maxsize=8)
def opened(path: Path, bases: tuple[Path, ...]) -> Dataset:
    """The dataset, opened once a process."""
    return Dataset.open(path, base=bases, check_id=False)


def forget() -> None:
    """Close what this process keeps open between shards."""
    opened.cache_clear()
