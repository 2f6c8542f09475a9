"""`shardkit padding`: what padded batches of a dataset's sequences would waste, beside packs of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardkit.errors import ConfigError
from shardkit.prepare.ragged import Numbers, bounds_of, row_sums
from shardkit.sequence.intervals import bounds, in_parts
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.padding import (
    Figure,
    Samples,
    compat,
    cross_blocks,
    meta_bytes,
    padded,
    padded_bytes,
    reference,
    self_blocks,
)
from shardkit.sequence.plan import Plan, PlanSettings
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings

LLAMA = {"tile": 448, "patch": 14, "max_tiles": 4}
"""Of the published reference."""
_WITHOUT_TILES = ("tiles", "cross-attention mask")
_ALIGN = 16
"""Images begin at multiples of so many bytes, see shardkit.loader.batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddingConfig:
    dataset: Path | None
    """None: the sixteen samples of the published report."""
    split: str | None = None
    batch_size: int = 16
    max_tokens: int | None = None
    """Tokens of a pack; None is the longest that a sequence may be."""
    compat: bool = False
    """The padded rows as the first program printed them."""
    bases: tuple[Path, ...] = ()
    remote: RemoteSettings | None = None
    """How a dataset behind a URL is reached, and where its files are kept."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sequences:
    """N sequences of a split, in the order of their shards and rows."""

    tokens: Numbers
    alternative: Numbers
    document_bounds: Numbers
    """[N + 1] into `documents`."""
    documents: Numbers
    """First tokens of documents."""
    slot_bounds: Numbers
    """[N + 1] into the columns of slots."""
    starts: Numbers
    areas: Numbers
    """Pixels of each image after processing."""
    used: Numbers
    """Those that show the image."""

    def of(self, index: int) -> tuple[list[int], slice]:
        """First tokens of the documents of a sequence, and where its slots are."""
        first, stop = self.document_bounds[index : index + 2]
        return self.documents[first:stop].tolist(), slice(*self.slot_bounds[index : index + 2].tolist())


def run(config: PaddingConfig) -> dict[str, Any]:
    """The report.

    Returns:
        batch_size, num_batches, num_samples; tiles (tile, patch and max_tiles of the processor, or None); padded (rows with
        name, useful, total, padding, share; those of tiles only where there are tiles) and padded_bytes (None without
        tiles); packed (None for the published reference, which has packed_bytes in its place: its samples end to end, as
        uint8 tiles and words): max_tokens, packs, supervised_tokens, text (share of the packs' tokens that is
        padding), images, tiles and mask elements that are padded (0), mask_bytes (two int32 a token), pixel_fill (share of
        processed pixels that show an image), self_allowed, self_blocks, self_fill and the same for cross (elements), bytes.

    Raises:
        ConfigError: where the dataset has no sequences, or no such split.
        IntegrityError: where it is damaged.
    """
    if config.dataset is None:
        samples = reference()
        return {"packed": None, **_padded(samples, LLAMA, config), "packed_bytes": bytes_of(samples, LLAMA)}
    dataset = Dataset.open(config.dataset, base=config.bases, remote=config.remote)
    if not dataset.has_table("lengths"):
        raise ConfigError(
            "the dataset holds examples, no sequences",
            where=dataset.where,
            hint="run `shardkit tokenize` on it first",
        )
    split = choose_split(dataset, config.split)
    tiles = _tiles(dataset)
    sequences = _read(dataset, split)
    first = np.flatnonzero(sequences.alternative == 0)
    per_tile = tiles["tile"] ** 2 if tiles else 1
    samples = Samples(
        tokens=sequences.tokens[first],
        images=np.diff(sequences.slot_bounds)[first],
        tiles=row_sums(sequences.slot_bounds, sequences.areas)[first] // per_tile,
    )
    return {
        "dataset": dataset.where,
        "id": dataset.id,
        "split": split,
        **_padded(samples, tiles, config),
        "packed": _packed(dataset, split, sequences, tiles, config),
    }


def _tiles(dataset: Dataset) -> dict[str, int] | None:
    processor = dataset.recipe["recipe"].get("image_processor") or {}
    return {name: processor[name] for name in LLAMA} if "tile" in processor else None


def _tile_tokens(tiles: dict[str, int]) -> int:
    """Keys of a tile: its patches, and one for the whole."""
    return (tiles["tile"] // tiles["patch"]) ** 2 + 1


def _padded(samples: Samples, tiles: dict[str, int] | None, config: PaddingConfig) -> dict[str, Any]:
    form = compat if config.compat else padded
    known = tiles or LLAMA
    sizes = {
        "batch_size": config.batch_size,
        "max_tiles": known["max_tiles"],
        "tile_tokens": _tile_tokens(known),
    }
    rows = [row for row in form(samples, **sizes) if tiles or row.name not in _WITHOUT_TILES]
    return {
        "batch_size": config.batch_size,
        "num_batches": -(-len(samples) // config.batch_size),
        "num_samples": len(samples),
        "compat": config.compat,
        "tiles": tiles,
        "padded": [_row(row) for row in rows],
        "padded_bytes": padded_bytes(samples, **sizes, tile=known["tile"]) if tiles else None,
    }


def bytes_of(samples: Samples, tiles: dict[str, int]) -> int:
    """Bytes of samples as one pack of a host batch."""
    words = meta_bytes(
        tokens=int(samples.tokens.sum()),
        documents=len(samples),
        sequences=len(samples),
        packs=1,
        images=int(samples.images.sum()),
        objectives=len(OBJECTIVES),
    )
    return words + int(samples.tiles.sum()) * 3 * tiles["tile"] ** 2


def _row(figure: Figure) -> dict[str, Any]:
    share = None if figure.total == 0 else figure.share
    return {**asdict(figure), "padding": figure.padding, "share": share}


def _packed(
    dataset: Dataset, split: str, sequences: _Sequences, tiles: dict[str, int] | None, config: PaddingConfig
) -> dict[str, Any]:
    lengths = read_lengths(dataset, split)
    limit = config.max_tokens or dataset.recipe["max_tokens"]
    plan = Plan(lengths, PlanSettings(max_tokens=limit), identity=identity(dataset, split))
    packs = num_tokens = supervised = num_bytes = pixels = used = 0
    sums = {"self": [0, 0], "cross": [0, 0]}
    for step in plan.steps(plan.start(0)):
        for pack in step.packs:
            packs += 1
            laid = _lay_out(sequences, pack)
            num_tokens += laid.num_tokens
            supervised += int(lengths.supervised[:, list(pack)].sum())
            num_bytes += laid.num_bytes
            pixels, used = pixels + laid.pixels, used + laid.used
            found = {"self": self_blocks(laid.documents, laid.num_tokens)}
            if tiles:
                counts = (laid.areas // tiles["tile"] ** 2 * _tile_tokens(tiles)).tolist()
                found["cross"] = cross_blocks(
                    *in_parts(*bounds(laid.starts, laid.num_tokens, None, laid.documents), counts)
                )
            for name, counted in found.items():
                sums[name] = [had + more for had, more in zip(sums[name], counted, strict=True)]
    attention = {
        f"{name}_{part}": value
        for name, (allowed, blocks) in sums.items()
        if name == "self" or tiles
        for part, value in (("allowed", allowed), ("blocks", blocks), ("fill", allowed / blocks if blocks else None))
    }
    return {
        "max_tokens": limit,
        "packs": packs,
        "text": 1 - num_tokens / (packs * limit) if packs else None,
        "supervised_tokens": supervised,
        "images": 0,
        "tiles": 0,
        "mask": 0,
        "mask_bytes": 8 * num_tokens,
        "pixel_fill": used / pixels if pixels else None,
        **attention,
        "bytes": num_bytes,
    }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Laid:
    """A pack, laid end to end."""

    num_tokens: int
    num_bytes: int
    documents: list[int]
    starts: list[int]
    areas: Numbers
    pixels: int
    used: int


def _lay_out(sequences: _Sequences, pack: Sequence[int]) -> _Laid:
    documents: list[int] = []
    starts: list[int] = []
    places: list[slice] = []
    at = 0
    for index in pack:
        own, slots = sequences.of(index)
        documents += [at + first for first in own]
        starts += sorted((at + sequences.starts[slots]).tolist())
        places.append(slots)
        at += int(sequences.tokens[index])
    areas = np.concatenate([sequences.areas[slots] for slots in places] or [np.zeros(0, np.int64)])
    used = sum(int(sequences.used[slots].sum()) for slots in places)
    stored = -(-areas * 3 // _ALIGN) * _ALIGN
    words = meta_bytes(
        tokens=at,
        documents=len(documents),
        sequences=len(pack),
        packs=1,
        images=len(starts),
        objectives=len(OBJECTIVES),
    )
    return _Laid(
        num_tokens=at,
        num_bytes=words + int(stored.sum()),
        documents=documents,
        starts=starts,
        areas=areas,
        pixels=int(areas.sum()),
        used=used,
    )


def _read(dataset: Dataset, split: str) -> _Sequences:
    """The sequences of a split, as numbers."""
    parts: dict[str, list[Numbers]] = {}
    for columns in _columns(dataset, split):
        for name, values in columns.items():
            parts.setdefault(name, []).append(values)
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    return _Sequences(
        tokens=joined["tokens"],
        alternative=joined["alternative"],
        document_bounds=bounds_of(joined["num_documents"]),
        documents=joined["documents"],
        slot_bounds=bounds_of(joined["num_slots"]),
        starts=joined["starts"],
        areas=joined["areas"],
        used=joined["used"],
    )


_SIDES = ("height", "width", "used_height", "used_width")
_NUMBERS = ("tokens", "alternative", "num_documents", "documents", "num_slots", "starts", "areas", "used")


def _columns(dataset: Dataset, split: str) -> Iterator[dict[str, Numbers]]:
    yield {name: np.zeros(0, np.int64) for name in _NUMBERS}
    for shard in dataset.sequence_shards:
        if shard.split != split:
            continue
        reader = dataset.sequence_reader(shard)
        try:
            for batch in reader.table().to_batches():
                slots, documents = batch.column("slots"), batch.column("documents")
                field = {name: _int64(slots.flatten().field(name)) for name in ("start", *_SIDES)}
                yield {
                    "tokens": _int64(batch.column("num_tokens")),
                    "alternative": _int64(batch.column("alternative")),
                    "num_documents": _int64(documents.value_lengths()),
                    "documents": _int64(documents.flatten()),
                    "num_slots": _int64(slots.value_lengths()),
                    "starts": field["start"],
                    "areas": field["height"] * field["width"],
                    "used": field["used_height"] * field["used_width"],
                }
        finally:
            reader.close()


def _int64(column: Any) -> Numbers:
    values: Numbers = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values
