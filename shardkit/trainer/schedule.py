"""The learning rate of a step: a warm-up, then what the schedule says.

  rate
   lr  |      ________________  constant
       |    /  ```--.
       |  /          ``-.
lr/10  |/                ``---  cosine
       +----|------------------
        warm-up               last step
"""

from __future__ import annotations

import math

from shardkit.trainer.config import TrainConfig

FLOOR = 0.1
"""Share of the rate at which a cosine ends"""


def learning_rate(config: TrainConfig, number: int, steps: int, *, before: float = 0.0) -> float:
    """Of the step `number`, from 1, of a stage of so many steps.

    Args:
        before: the rate from which the warm-up leads to that of the stage.
    """
    rising = min(1.0, number / max(config.warmup, 1))
    if config.schedule == "constant" or rising < 1.0:
        return before + (config.lr - before) * rising
    done = (number - config.warmup) / max(steps - config.warmup, 1)
    return config.lr * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * min(done, 1.0))) / 2)
