"""How many steps and epochs a budget of tokens, examples, compute or steps is."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardkit.errors import ConfigError
from shardkit.sequence.plan.mixture import SUBSET_UNITS
from shardkit.sequence.plan.order import Indices
from shardkit.sequence.plan.plan import Plan
from shardkit.sequence.plan.survey import delivered

BUDGET_UNITS = (*SUBSET_UNITS, "steps")
"""What a budget counts."""
_DIGITS = 18
_COUNTED_EPOCHS = 64
"""Epochs that are planned one by one; what comes after them is taken to be like them."""


def parse_budget(text: str) -> tuple[str, int]:
    """Unit and number of `tokens=1_000_000`.

    Raises:
        ConfigError: for anything else.
    """
    unit, _, number = text.partition("=")
    digits = number.replace("_", "").replace(",", "")
    number_of = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS and int(digits)
    if unit not in BUDGET_UNITS or not number_of:
        raise ConfigError(
            f"a budget cannot be {text!r}",
            hint=f"write UNIT=N with N above 0, {_DIGITS} digits at most, and one of {', '.join(BUDGET_UNITS)}",
        )
    return unit, number_of


def spend(plan: Plan, unit: str, budget: int) -> dict[str, Any]:
    """Steps and epochs until so much was delivered, counting whole steps; and what these deliver of every unit.

    Where a mixture comes to its end before (`repeat`), `reached` is false and all there is is told.
    """
    had = np.zeros(len(BUDGET_UNITS), np.int64)
    column = BUDGET_UNITS.index(unit)
    steps, epoch = 0, plan.first_epoch
    while epoch < plan.first_epoch + _COUNTED_EPOCHS:
        sums = np.cumsum(_by_step(plan, epoch), axis=0)
        if not len(sums):
            return _answer(unit, budget, steps, float(epoch), had, reached=False)
        needed = int(np.searchsorted(sums[:, column], budget - had[column])) + 1
        if needed <= len(sums):
            had += sums[needed - 1]
            epochs = epoch + needed / len(sums)
            return _answer(unit, budget, steps + needed, epochs, had, reached=True)
        had += sums[-1]
        steps, epoch = steps + len(sums), epoch + 1
    factor = budget / int(had[column])
    more = np.array([round(number * factor) for number in had.tolist()], object)
    counted = _answer(unit, budget, round(steps * factor), epoch * factor, more, reached=True)
    return {**counted, "estimated": True}


def _by_step(plan: Plan, epoch: int) -> Indices:
    """[steps, units] what each step of an epoch delivers, by BUDGET_UNITS."""
    survey, size = plan.survey(epoch), plan.settings.global_batch
    steps = plan.num_steps(epoch) - plan.start(epoch).step
    packs = np.column_stack([survey.tokens, survey.members, survey.costs])
    packs = delivered(packs, steps * size, plan.settings.tail)
    of_steps = packs.reshape(steps, size, len(SUBSET_UNITS)).sum(axis=1)
    return np.column_stack([of_steps, np.ones(steps, np.int64)])


def _answer(unit: str, budget: int, steps: int, epochs: float, had: Indices, *, reached: bool) -> dict[str, Any]:
    return {
        "unit": unit,
        "budget": budget,
        "steps": steps,
        "epochs": epochs,
        "delivered": dict(zip(SUBSET_UNITS, had.tolist(), strict=False)),
        "reached": reached,
        "estimated": False,
    }
