"""What is claimed, and what was found. Each proof gives lines of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from shardkit.loader import EvaluationLoader
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import build_model
from shardkit.trainer.config import POSITIONS, TrainConfig
from shardkit.trainer.evaluate import GroupLoss, evaluate_groups, summarise
from shardkit.trainer.facts import read_facts

from . import feeding, words
from .held_back import HELD_BACK, ByGroup, groups_of, losses, mean, per_token, pooled, said_of_pairs, unigram
from .packing import BOUND, Agreement, compare
from .runs import RECIPES, Runs

SURE = 2.0
"""Standard errors that a difference must be away from nothing"""
MOST_OFF = 0.02
"""Of a source's share in a mixture, as a part of that share"""
MOST_WAITED = 0.05
LEAST_TIMES = 5.0
PACK = 2048
"""Tokens of a pack that is compared with its documents"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    proof: str
    what: str
    found: float | None
    """None where it could not be measured"""
    against: float | None = None
    """What it is compared with, or the bound that it must keep"""
    error: float | None = None
    """Standard error of the difference"""
    holds: bool | None = None
    """None: it is shown, nothing is claimed"""


def texts_beat_a_unigram(runs: Runs) -> list[Line]:
    data = runs.dataset("lm")
    costs = unigram(data)
    found = pooled(losses(run.model, data, costs) for run in runs.of("lm"))
    return [_beats("lm", found)]


def answers_are_learned(runs: Runs) -> list[Line]:
    data = runs.dataset("sft")
    costs = unigram(data)
    before = pooled(losses(run.model, data, costs) for run in runs.of("lm"))
    after = pooled(losses(run.model, data, costs) for run in runs.of("sft"))
    tokens = [sums.tokens for sums in after.values()]
    start, _ = per_token([before[group].model for group in after], tokens)
    gain, error = per_token([before[group].model - sums.model for group, sums in after.items()], tokens)
    what = f"nats an answer's token, against its start, {len(after)} groups"
    fallen = Line(proof="sft", what=what, found=start - gain, against=start, error=error, holds=gain > SURE * error)
    return [_beats("sft", after), fallen]


def margins_grow(runs: Runs) -> list[Line]:
    """Claimed of the pairs that differ in the order of words alone, which a model of this size can learn; shown of the others."""
    return [margin(runs, "shuffled", claimed=True), margin(runs, "pairs", claimed=False)]


def words_are_read(runs: Runs) -> list[Line]:
    found = []
    for run in runs.of("words"):
        by_group, num_left_out, _ = evaluate_groups(run.model, run.config)
        assert num_left_out == 0, "every word has another one to change places with"
        found.append({group: by_group[group] for group in words.held_back(by_group)})
    return [_seen("words", "generated words", found, claimed=True)]


def pictures_are_seen(runs: Runs) -> list[Line]:
    dataset = Dataset.open(runs.dataset("pictures"))
    groups, source_of = groups_of(dataset), {}
    with EvaluationLoader(dataset, split=HELD_BACK) as loader:
        for batch in loader:
            source_of |= {groups[one]: source for one, source in zip(batch.ids, batch.sources, strict=True)}
    found = [evaluate_groups(run.model, run.config)[0] for run in runs.of("pictures")]
    lines = [_seen("pictures", "all sources", found, claimed=False)]
    for source in sorted(set(source_of.values())):
        own = [{group: loss for group, loss in run.items() if source_of[group] == source} for run in found]
        lines.append(_seen("pictures", source, own, claimed=False))
    return lines


def mixture_is_kept(runs: Runs) -> list[Line]:
    config = runs.of("pictures")[0].config
    found = feeding.delivered(config)
    if not found:
        return [Line(proof="mixture", what="the run of pictures is shorter than a block", found=None, holds=False)]
    what = "share of weight x supervised tokens"
    return [
        Line(
            proof="mixture",
            what=f"{what}, {source}",
            found=found.get(source, 0.0),
            against=share,
            holds=abs(found.get(source, 0.0) - share) <= MOST_OFF * share,
        )
        for source, share in feeding.wanted(config).items()
    ]


def data_is_there(runs: Runs) -> list[Line]:
    lines = []
    for name in ("lm", "pictures"):
        of, task = feeding.feeding(runs.of(name)[0].config), RECIPES[name].task
        steps = f"{task}, steps of {of.step_seconds * 1000:.0f} ms"
        lines += [
            _within("feeding", f"share of the time that waits for data, {steps}", of.waited, MOST_WAITED),
            Line(
                proof="feeding",
                what=f"times what it needs that the loader alone delivers, {task}",
                found=of.times,
                against=LEAST_TIMES,
                holds=of.times >= LEAST_TIMES,
            ),
        ]
    return lines


def packing_changes_nothing(runs: Runs) -> list[Line]:
    lines = []
    for name in ("lm", "sft", "pairs", "pictures"):
        recipe, data = RECIPES[name], runs.dataset(name)
        for positions in POSITIONS:
            found = agreement(data, recipe.task, positions)
            where = f"{recipe.task}, {positions}, {found.documents} documents"
            logits = f"logits of up to {found.largest_logit:.2g} apart, {where}"
            gradients = f"gradients of up to {found.largest_gradient:.2g} apart, {where}"
            leak = f"others' logits, where one document is changed, {where}"
            lines += [
                _within("packing", logits, found.logits, BOUND),
                _within("packing", gradients, found.gradients, BOUND),
                _within("packing", leak, found.leak if found.own else None, 0.0),
            ]
    return lines


def agreement(data: Path, task: str, positions: str) -> Agreement:
    """Of a model at its start, on the batch of most documents among the first held-back ones; with pictures, where there are any."""
    dataset = Dataset.open(data)
    longest = max(PACK, dataset.recipe["max_tokens"])
    config = TrainConfig(task=task, data=data, out=data, steps=1, positions=positions, max_tokens=longest)
    model = build_model(config, read_facts(dataset), tower=task == "vlm-align")
    with EvaluationLoader(dataset, max_tokens=longest) as loader:
        batch = max(islice(loader, 200), key=lambda batch: (len(batch.image_slots) > 0, len(batch.cu_seq_lens_q)))
    return compare(model, batch, pairs=task == "dpo")


def _within(proof: str, what: str, found: float | None, bound: float) -> Line:
    return Line(proof=proof, what=what, found=found, against=bound, holds=found is not None and found <= bound)


def _beats(proof: str, found: ByGroup) -> Line:
    """Of a held-back split, the model against the unigram."""
    tokens = [sums.tokens for sums in found.values()]
    other, _ = per_token([sums.unigram for sums in found.values()], tokens)
    gain, error = per_token([sums.unigram - sums.model for sums in found.values()], tokens)
    what = f"nats a target token, against a unigram, {len(found)} groups"
    return Line(proof=proof, what=what, found=other - gain, against=other, error=error, holds=gain > SURE * error)


def margin(runs: Runs, name: str, *, claimed: bool) -> Line:
    """By how much the chosen answers gain on the rejected ones, mean over held-back pairs."""
    data = runs.dataset(name)
    by_pair: dict[tuple[int, int], list[float]] = {}
    for start, end in zip(runs.of("sft"), runs.of(name), strict=True):
        before, after = said_of_pairs(start.model, data), said_of_pairs(end.model, data)
        for row, (chosen, rejected) in after.items():
            by_pair.setdefault(row, []).append((chosen - before[row][0]) - (rejected - before[row][1]))
    margin, error = mean(sum(values) / len(values) for values in by_pair.values())
    what = f"margin in nats, {len(by_pair)} pairs of {name}"
    holds = margin > SURE * error if claimed else None
    return Line(proof="dpo", what=what, found=margin, against=0.0, error=error, holds=holds)


def _seen(proof: str, which: str, runs: Sequence[Mapping[str, GroupLoss]], *, claimed: bool) -> Line:
    """The right picture against another's; groups weigh the same."""
    figure = summarise(runs, split=HELD_BACK, num_left_out=0)
    what = f"nats a target token, against permuted pictures, {which}, {figure.num_groups} groups"
    gain, error = figure.difference, figure.standard_error
    if figure.right is None or gain is None or error is None:
        return Line(proof=proof, what=what, found=None, holds=False if claimed else None)
    holds = gain > SURE * error if claimed else None
    return Line(proof=proof, what=what, found=figure.right, against=figure.permuted, error=error, holds=holds)


PROOFS: dict[str, Callable[[Runs], list[Line]]] = {
    "lm": texts_beat_a_unigram,
    "sft": answers_are_learned,
    "dpo": margins_grow,
    "words": words_are_read,
    "pictures": pictures_are_seen,
    "mixture": mixture_is_kept,
    "feeding": data_is_there,
    "packing": packing_changes_nothing,
}
