"""What is trained for the proofs, and with what: one table. A run is trained when a proof first asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from shardkit.trainer.config import TrainConfig
from shardkit.trainer.loop import Result, train

from . import sets, words

MIXTURE = {"by": "loss", "weights": {"captions": 2, "lines": 2, "pages": 1}, "objectives": {"ocr": 2}}
"""Of the pictures' sources: shares of weight x supervised tokens"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    task: str
    data: Callable[[sets.Raw, Path], Path]
    """(raw sets, work folder) -> dataset of sequences"""
    steps: int
    quick: int
    """Steps of a short run"""
    after: str | None = None
    """The recipe whose weights it begins with"""
    settings: Mapping[str, Any] = field(default_factory=dict)


RECIPES: dict[str, Recipe] = {
    "lm": Recipe(task="lm", data=sets.texts, steps=300, quick=110, settings={"max_tokens": 1024, "lr": 3e-3}),
    "sft": Recipe(task="sft", data=sets.answers, steps=150, quick=60, after="lm", settings={"max_tokens": 1024}),
    "shuffled": Recipe(
        task="dpo",
        data=sets.shuffled,
        steps=15,
        quick=8,
        after="sft",
        settings={"max_tokens": 1024, "global_batch": 2, "warmup": 5},
    ),
    "pairs": Recipe(
        task="dpo",
        data=sets.pairs,
        steps=15,
        quick=8,
        after="sft",
        settings={"max_tokens": 1024, "global_batch": 4, "warmup": 5, "lr": 3e-4},
    ),
    "words": Recipe(
        task="vlm-align",
        data=partial(words.words, pictures=3),
        steps=900,
        quick=650,
        settings={"max_tokens": words.PACK, "lr": 2e-3, "warmup": 50},
    ),
    "pictures": Recipe(
        task="vlm-align",
        data=sets.pictures,
        steps=310,
        quick=155,
        settings={"max_tokens": 1024, "mixture": MIXTURE},
    ),
}
"""Steps: lm passes the unigram after some 80, sft falls from the first on. Pairs fit the few that they train on after 15,
and their margins then wander. Words are read from some 600 on at 2e-3: until then the loss lies at what they cost without
pictures. Pictures go a little beyond two blocks of their mixture, in a short run beyond one. Why these: decision 43."""


@dataclass(kw_only=True)
class Runs:
    """Datasets and runs of the proofs, made once each in `folder`."""

    raw: sets.Raw
    folder: Path
    steps: Mapping[str, int]
    """Recipe -> steps"""
    seeds: int = 1
    threads: int | None = None
    recipes: Mapping[str, Recipe] = field(default_factory=lambda: RECIPES)
    _datasets: dict[str, Path] = field(default_factory=dict)
    _results: dict[str, list[Result]] = field(default_factory=dict)

    def dataset(self, name: str) -> Path:
        """Of a recipe, taken the whole road."""
        if name not in self._datasets:
            self._datasets[name] = self.recipes[name].data(self.raw, self.folder / name)
        return self._datasets[name]

    def of(self, name: str) -> list[Result]:
        """A run a seed."""
        if name not in self._results:
            self._results[name] = [self._train(name, seed) for seed in range(self.seeds)]
        return self._results[name]

    def _train(self, name: str, seed: int) -> Result:
        recipe = self.recipes[name]
        init = None
        if recipe.after is not None:
            init = self.of(recipe.after)[seed].config.out
        return train(
            TrainConfig(
                task=recipe.task,
                data=self.dataset(name),
                out=self.folder / name / f"run-{seed}",
                init=init,
                steps=self.steps[name],
                seed=seed,
                threads=self.threads,
                checkpoint_every=self.steps[name],
                **recipe.settings,
            )
        )
