"""Small committed datasets of examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardkit.records import Example, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def commit(
    folder: Path, examples: Mapping[str, Sequence[Example]], *, shards: str = "arrow", shard_size: int = 1 << 20
) -> Dataset:
    """A dataset with a unit for each split of `examples`."""
    total = sum(len(rows) for rows in examples.values())
    recipe = {"name": folder.name}
    with Output(folder, stage="ingest", recipe=recipe) as output:
        for index, (split, rows) in enumerate(examples.items()):
            with output.unit(index, f"{index:05d}", shards=shards, shard_size=shard_size, split=split) as unit:
                for number, example in enumerate(rows):
                    assets = [_asset(image) for image in example.images]
                    unit.add(
                        example,
                        input=f"{split}.jsonl",
                        position=str(number + 1),
                        assets=assets,
                        provenance=[
                            {"example_id": example.example_id, "source": example.source, "asset_id": asset["asset_id"]}
                            for asset in assets or [{"asset_id": None}]
                        ],
                    )
                unit.finish()
        return output.commit(Sealed(tally=Tally(read=total, kept=total), splits=tuple(examples)))


def _asset(image: object) -> dict[str, object]:
    return {name: getattr(image, name) for name in ("asset_id", "frame", "stored_xxh3", "pixel_id")}
