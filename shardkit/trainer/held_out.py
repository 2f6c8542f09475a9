"""The loss on a split that is not trained on, by source and by what is summed: every sequence once, in a fixed order."""

from __future__ import annotations

import torch

from shardkit.errors import ConfigError
from shardkit.loader import EvaluationLoader
from shardkit.store.dataset import Dataset
from shardkit.trainer.config import LIMITS, TrainConfig
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.ranks import sum_over_ranks
from shardkit.trainer.tasks import Task


class HeldOut:
    """Evaluates a model on a split; each rank its share.

    Args:
        dataset: of sequences of the same recipe as those that are trained on.

    Raises:
        ConfigError: where a sequence of the split is above a limit of the run.
    """

    def __init__(self, dataset: Dataset, config: TrainConfig, *, rank: int, world_size: int) -> None:
        self._sources = sorted(set(dataset.table("lengths", ["source"])["source"].to_pylist()))
        split = None if dataset.splits == ("all",) else config.eval_split
        try:
            self.loader = EvaluationLoader(
                dataset,
                split=split,
                **{name: getattr(config, name) for name in LIMITS},
                device=config.device,
                global_batch=world_size,
                rank=rank,
                world_size=world_size,
            )
        except ConfigError as error:
            raise ConfigError(
                f"evaluation holds the limits of the run: {error.what}",
                where=f"{dataset.where}, split {split or 'all'}",
                hint=f"{error.hint}, or leave out --eval-every",
            ) from error

    def __call__(self, model: VisionLanguage, task: Task) -> dict[str, dict[str, float]]:
        """Source -> name -> mean over what it counts; the source "" is everything."""
        shape = (len(self._sources), len(task.names))
        sums, counts = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
        with torch.no_grad():
            for batch in self.loader:
                places = torch.tensor([self._sources.index(source) for source in batch.sources], dtype=torch.int64)
                values_SK, counts_SK = task.by_sequence(model, batch)
                sums.index_add_(0, places, values_SK.cpu())
                counts.index_add_(0, places, counts_SK.cpu())
        sum_over_ranks([sums, counts])
        rows = {"": (sums.sum(0), counts.sum(0))} | dict(
            zip(self._sources, zip(sums, counts, strict=True), strict=True)
        )
        return {
            source: {
                name: float(value / count)
                for name, value, count in zip(task.names, total.tolist(), number.tolist(), strict=True)
                if count
            }
            for source, (total, number) in rows.items()
        }


def check_split(dataset: Dataset, config: TrainConfig) -> None:
    """Refuse to evaluate where there is nothing to evaluate on.

    Raises:
        ConfigError: where the dataset was split and has no such split.
    """
    if dataset.splits != ("all",) and config.eval_split not in dataset.splits:
        raise ConfigError(
            f"the dataset has no split {config.eval_split!r} to evaluate on; it has {', '.join(dataset.splits)}",
            where=str(dataset.path),
            hint="name one with --eval-split, or leave out --eval-every",
        )
