"""Where the sequences of a batch come from, by names that `shardkit trace DATASET ID` takes further.

The chain on to raw files, relations and licences is the preparing wing's: it reads tables that a stream never opens.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any
from weakref import WeakValueDictionary

from shardkit.errors import ConfigError, IntegrityError
from shardkit.loader.batch import BatchInfo
from shardkit.store.dataset import Dataset


def trace(info: BatchInfo, dataset: Dataset | None = None) -> list[dict[str, Any]]:
    """One entry a sequence, in the order of the batch:

        sequence_id, example_id, source, window       all but `window` and `source` are IDs of `shardkit trace`
        sequence, example                             where each lies: {"shard": path in its dataset, "row"}
        assets                                        id of each image that the sequence shows, in order; an ID too
        quarantined                                   the images of it that could not be read: {"image", "reason"}

    Args:
        dataset: the one that the batch was read from, where no loader of it is here and it is not any more where it was.

    Raises:
        ConfigError: for a batch that was read from no dataset.
        IntegrityError: where a shard is missing or damaged, or another dataset is there.
    """
    if dataset is None:
        if not info.dataset:
            raise ConfigError(
                f"the batch {info.batch_id} was read from no dataset of shardkit",
                hint="trace batches of a tokenized dataset; a reader of foreign files names them in batch.ids",
            )
        dataset = _opened(info)
    places: dict[int, list[int]] = {}
    for number, (shard, _) in enumerate(info.rows):
        places.setdefault(shard, []).append(number)
    found: dict[int, dict[str, Any]] = {}
    for shard, numbers in places.items():
        reference = dataset.sequence_shards[shard]
        examples = dataset.examples_of(reference)
        with closing(dataset.sequence_reader(reference, whole=False)) as reader:
            for number in numbers:
                row = info.rows[number][1]
                batch, place = reader.locate(row)
                value = {name: batch.column(name)[place].as_py() for name in _COLUMNS}
                found[number] = {
                    "sequence_id": value["sequence_id"],
                    "example_id": value["example_id"],
                    "source": value["source"],
                    "window": value["window"],
                    "sequence": {"shard": reference.name, "row": row},
                    "example": {"shard": dataset.shards[examples[value["shard"]]].name, "row": value["row"]},
                    "assets": [slot["asset_id"] for slot in value["slots"]],
                    "quarantined": [
                        {"image": bad.image, "reason": bad.reason}
                        for bad in info.quarantined
                        if (bad.shard, bad.row) == (shard, row)
                    ],
                }
    return [found[number] for number in range(len(info.rows))]


_COLUMNS = ("sequence_id", "example_id", "source", "window", "shard", "row", "slots")


_here: WeakValueDictionary[str, Dataset] = WeakValueDictionary()
"""Those that loaders of this process opened, by id: with their bases and the settings of what is behind a URL."""


def remember(dataset: Dataset) -> None:
    """Have batches of a dataset traced in it, as it was opened."""
    _here[dataset.id] = dataset


def _opened(info: BatchInfo) -> Dataset:
    found = _here.get(info.dataset_id)
    if found is None:
        found = Dataset.open(info.dataset)
        if found.id != info.dataset_id:
            raise IntegrityError(
                f"the batch was read from the dataset {info.dataset_id}, here is {found.id}",
                where=info.dataset,
                hint="give trace() the dataset that the batch was read from",
            )
        _here[found.id] = found
    return found
