"""The steps that an iteration takes, over the ends of epochs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from shardkit.sequence.plan import Cursor, Plan, Step

logger = logging.getLogger("shardkit.loader")


def last_epoch(cursor: Cursor, epochs: int | None) -> int:
    """The epoch before which an iteration from `cursor` ends: the next one, or `epochs` where given."""
    return cursor.epoch + 1 if epochs is None else epochs


def steps_until(plan: Plan, cursor: Cursor, end: int) -> Iterator[Step]:
    """The steps from a place to the end of the epoch before `end`."""
    while cursor.epoch < end:
        epoch = cursor.epoch
        for step in plan.steps(cursor):
            yield step
            cursor = step.after
        if cursor.epoch == epoch and plan.rest is not None and epoch == plan.first_epoch:
            cursor = plan.start(epoch + 1)  # the plan before had delivered all that fills a batch
        elif cursor.epoch == epoch:
            if plan.survey(epoch).num_packs:
                logger.warning(
                    "epoch %d has fewer packs than a global batch of %d: no batch (tail: %s)",
                    epoch,
                    plan.settings.global_batch,
                    plan.settings.tail,
                )
            elif len(plan.lengths):
                logger.warning(
                    "epoch %d has nothing: all sources were drawn as often as the mixture lets them be", epoch
                )
            return
