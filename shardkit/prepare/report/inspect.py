"""`shardkit inspect`: one example whole: its texts, pictures, relations, where it comes from, and its sequences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.prepare.lineage.trace import Tracer
from shardkit.prepare.named import check_split
from shardkit.prepare.report.pieces import pieces, to_json
from shardkit.sequence.objectives import spread
from shardkit.sequence.sequence import Sequence as TokenSequence
from shardkit.sequence.sequence import Slot
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from shardkit.text.tokenizer import Tokenizer

_SEGMENT = ("kind", "text", "image", "role", "supervised", "name")
_SLOT = tuple(Slot.__dataclass_fields__)


def inspect(
    path: Path,
    given: str | None = None,
    *,
    split: str | None = None,
    bases: Sequence[Path] = (),
    remote: RemoteSettings | None = None,
) -> dict[str, Any]:
    """An example by its id, by that of one of its sequences, or by the beginning of either; without one the first.

    Args:
        split: of which the first is taken.

    Returns:
        what `trace` tells of it, its examples with segments, layout counts and metadata besides, and its sequences, where
        the dataset has any, with their pieces.

    Raises:
        ConfigError: where nothing has the id, several do, or no such split is there.
        IntegrityError: where a shard or table is damaged.
    """
    tracer = Tracer(path, bases=bases, remote=remote)
    dataset = tracer.dataset
    answer = tracer.trace(_first(dataset, split) if given is None else given)
    if answer["kind"] not in ("example", "sequence"):
        raise ConfigError(
            f"{given!r} is the id of {'an' if answer['kind'] == 'asset' else 'a'} {answer['kind']}",
            where=dataset.where,
            hint="`shardkit trace` shows it; give the id of an example or a sequence here",
        )
    for example in answer["examples"]:
        example |= _content(tracer, example)
    if answer["sequences"]:
        tokenizer = Tokenizer.load(dataset.sequence_shards[0].holder.folder("tokenizer"))
        for sequence in answer["sequences"]:
            sequence |= _tokens(tracer, sequence, tokenizer)
    return answer


def _first(dataset: Dataset, split: str | None) -> str:
    if split is not None:
        check_split(dataset, split)
    examples = dataset.table("examples", ["example_id", "shard_index"])
    wanted = [number for number, shard in enumerate(dataset.shards) if split in (None, shard.split)]
    found = examples.filter(pc.is_in(examples["shard_index"], pa.array(wanted, examples["shard_index"].type)))[
        "example_id"
    ]
    if len(found):
        return str(found[0].as_py())
    raise ConfigError("the dataset is empty", where=str(dataset.path), hint="name another dataset")


def _content(tracer: Tracer, told: dict[str, Any]) -> dict[str, Any]:
    held = (told["dataset"], told["shard"])
    shard = next(shard for shard in tracer.dataset.shards if (shard.holder.id, shard.name) == held)
    columns, place = ("segments", "images", "metadata"), told["row"]
    # The tracer has read these rows: behind a URL they are not fetched again.
    row = tracer.chain.shard(shard.index).columns(columns, rows=range(place, place + 1)).to_pylist()[0]
    return {
        "segments": [{name: segment[name] for name in _SEGMENT} for segment in row["segments"]],
        "images": [
            {
                **image,
                "num_labels": None if own["ocr_labels"] is None else len(own["ocr_labels"]),
                "reading_order": own["reading_order"],
                "num_layout": len(own["layout"] or ()),
            }
            for image, own in zip(told["images"], row["images"], strict=True)
        ],
        "metadata": orjson.loads(row["metadata"]),
    }


def _tokens(tracer: Tracer, told: dict[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """What a stored sequence holds, spelled out."""
    stored = (told["shard"], told["split"])
    number = next(n for n, shard in enumerate(tracer.dataset.sequence_shards) if (shard.name, shard.split) == stored)
    batch, place = tracer.chain.sequence_shard(number).locate(told["row"])
    row = batch.slice(place, 1).to_pylist()[0]
    sequence = TokenSequence(
        input_ids=np.array(row["input_ids"], np.uint32),
        objectives=spread(row["objectives"]),
        slots=tuple(Slot(**{name: slot[name] for name in _SLOT}) for slot in row["slots"]),
        documents=tuple(row["documents"]),
    )
    return {
        "alternative": row["alternative"],
        "alternatives": row["alternatives"],
        "prompt": row["prompt"],
        "pieces": [to_json(piece) for piece in pieces(sequence, tokenizer)],
    }
