"""The plan: order, mixture, packs, rank shares and loss denominators, from lengths alone."""

from shardkit.sequence.plan.draw import Draw
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.members import Pack
from shardkit.sequence.plan.mixture import Mixture
from shardkit.sequence.plan.plan import Cursor, Plan, Step
from shardkit.sequence.plan.rest import Rest
from shardkit.sequence.plan.settings import TAILS, PlanSettings
from shardkit.sequence.plan.shares import check_world, shares
from shardkit.sequence.plan.survey import Survey

__all__ = [
    "TAILS",
    "Cursor",
    "Draw",
    "Lengths",
    "Mixture",
    "Pack",
    "Plan",
    "PlanSettings",
    "Rest",
    "Step",
    "Survey",
    "check_world",
    "shares",
]
