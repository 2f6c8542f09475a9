"""What a run is asked for."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan.settings import option
from shardkit.store.remote import RemoteSettings
from shardkit.trainer.sizes import PRESETS

TASKS: dict[str, str] = {
    "vlm-align": "texts or dialogues with images: tower, projector and language model",
    "lm": "texts alone: the language model",
    "sft": "answers of dialogues: the language model",
    "dpo": "preference pairs: the language model, against what it said before",
    "vlm-dpo": "the same with images: tower, projector and language model",
}
"""Task -> what it trains."""
LOOKING = ("vlm-align", "vlm-dpo")
"""Tasks that train the tower, too."""
PREFERRING = ("dpo", "vlm-dpo")
"""Tasks of preference pairs."""
POSITIONS = ("rotary", "learned")
SCHEDULES: dict[str, str] = {
    "constant": "stays after the warm-up, so that a run can be given more steps later",
    "cosine": "falls from there to a tenth by the last step, which is fixed thereby",
}
"""Schedule -> what becomes of the learning rate."""
THETA = 10_000.0
"""Base of rotary positions, where nothing else is said"""
DECODERS: dict[str, str] = {
    "pillow": "those that the dataset records, the same on every machine",
    "turbo": "others by a hair in half the time (needs simplejpeg)",
    "device": "plain JPEGs are decoded where batches are built",
}
"""Decoder -> its pixels; those of shardkit.loader, which is not imported here because it needs torch."""
DEVICES: dict[str, str] = {
    "cpu": "a run can be repeated bit for bit",
    "cuda": "the GPU of this process, float32 matrices in TF32; repeated within rounding",
}
"""Device -> what computing there gives."""
PRECISIONS: dict[str, str] = {
    "fp32": "float32 throughout",
    "bf16": "bfloat16 for matrices and attention (autocast); weights, optimizer, loss in float32",
}
"""Precision -> what numbers a step computes with."""
UNSAID = {"device": "cpu", "precision": "fp32"}
"""Settings that runs and their records leave out where they are as here: runs of before there was a choice have none."""
PARTS = ("vision", "lm")
"""Parts of the model that can be frozen."""
LIMITS = ("max_tokens", "max_images", "max_patches", "max_attention")
"""Of a pack."""
_WHOLE_NUMBERS: dict[str, int] = {
    **dict.fromkeys(("steps", *LIMITS, "global_batch", "micro_steps", "checkpoint_every", "keep_last", "threads"), 1),
    **dict.fromkeys(("resume_from", "warmup", "eval_every", "objective_norms_every"), 0),
}
"""Setting -> the least that it can be."""
_OPTIONAL = (*LIMITS, "threads", "resume_from")
"""Settings that may be None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    task: str
    """A name of TASKS"""
    data: Path
    """A tokenized dataset"""
    out: Path
    """The run's folder: run.json, log.jsonl, checkpoints/"""
    steps: int
    """The step after which the run ends, counted from its beginning"""
    resume: bool = False
    """Go on from the latest checkpoint in `out`"""
    resume_from: int | None = None
    """Go on from the checkpoint of this step instead; needs `resume`"""
    init: Path | None = None
    """The folder of a run whose latest weights this one begins with; None draws them from the seed"""
    bases: tuple[Path, ...] = ()
    """Where moved inputs of the dataset are looked for"""
    remote: RemoteSettings | None = None
    """How a dataset behind a URL is reached, and where its files are kept"""
    seed: int = 0
    preset: str = "smoke"
    """A name of PRESETS"""
    positions: str = "rotary"
    """One of POSITIONS"""
    theta: float = THETA
    """Base of rotary positions; a larger one turns slower, for longer documents"""
    max_tokens: int | None = None
    """Tokens of a pack; None is what the dataset was tokenized for"""
    max_images: int | None = None
    """Images of a pack"""
    max_patches: int | None = None
    """Patches of all images of a pack"""
    max_attention: int | None = None
    """Pairs of tokens that attend to one another in a pack: the sum of the squares of the sequences' lengths"""
    global_batch: int = 1
    """Packs of a step, over all ranks and micro-steps"""
    packer: str = "best-fit"
    """A name of PACKERS"""
    decoder: str = "pillow"
    """One of DECODERS: what makes pixels of stored pictures"""
    mixture: Mapping[str, Any] | Path | None = None
    """Shares of the dataset's sources, or the file that says them; None takes everything once an epoch"""
    micro_steps: int = 1
    """Parts in which a rank computes its share of a step; their gradients are added"""
    lr: float = 1e-3
    warmup: int = 20
    """Steps in which the learning rate rises to `lr`"""
    schedule: str = "constant"
    """A name of SCHEDULES: what it does then"""
    weight_decay: float = 0.01
    """Of matrices; vectors have none"""
    clip: float = 1.0
    """Largest norm of the gradient"""
    freeze: tuple[str, ...] = ()
    """Names of PARTS that keep their weights"""
    beta: float = 0.1
    """Tasks of preference pairs: how strongly the reference holds"""
    objective_weights: Mapping[str, float] = field(default_factory=dict)
    """Objective -> weight; empty for 1.0 each, else it names every objective of the dataset"""
    eval_every: int = 0
    """Steps after which the model is evaluated on `eval_split`; 0 = never"""
    eval_split: str = "val"
    """Of a dataset that was never split, everything"""
    objective_norms_every: int = 50
    """Steps after which the gradient of each objective alone is measured, at the cost of a pass for each; 0 = never"""
    checkpoint_every: int = 50
    keep_last: int = 2
    """Checkpoints that are kept"""
    tensorboard: Path | None = None
    """A folder for TensorBoard, beside the log"""
    device: str = "cpu"
    """One of DEVICES: where model and batches are"""
    precision: str = "fp32"
    """One of PRECISIONS: what a step computes with"""
    compile: bool = False
    """Compile the feed-forward layers; the run then ends with other bits than one without"""
    threads: int | None = None
    """CPU threads; None is one a core, or what the run began with. Sums depend on it, so a run keeps its number"""

    def __post_init__(self) -> None:
        for name in ("data", "out", "init", "tensorboard"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, Path(getattr(self, name)))
        choices: list[tuple[str, str, Collection[str]]] = [
            ("task", self.task, TASKS),
            ("preset", self.preset, PRESETS),
            ("positions", self.positions, POSITIONS),
            ("schedule", self.schedule, SCHEDULES),
            ("packer", self.packer, PACKERS),
            ("decoder", self.decoder, DECODERS),
            ("device", self.device, DEVICES),
            ("precision", self.precision, PRECISIONS),
            *(("freeze", part, PARTS) for part in self.freeze),
        ]
        for name, value, known in choices:
            if value not in known:
                raise ConfigError(f"{name} {value!r} is none of {', '.join(known)}", hint=f"choose one with --{name}")
        for name, least in _WHOLE_NUMBERS.items():
            value = getattr(self, name)
            if not (value is None and name in _OPTIONAL) and (type(value) is not int or value < least):
                raise ConfigError(
                    f"{name} is {value!r}, not a whole number from {least} on",
                    hint=f"set {option(name)} to such a number",
                )
        if self.resume_from is not None and not self.resume:
            raise ConfigError("resume_from is set, resume is not", hint="set both, or use --resume-from")
        if self.global_batch % self.micro_steps:
            raise ConfigError(
                f"{self.micro_steps} micro-steps do not share {self.global_batch} packs evenly",
                hint="make --global-batch a multiple of --micro-steps and of the number of ranks",
            )
        for name in ("lr", "weight_decay", "beta", "clip"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < math.inf or (name == "clip" and value == 0):
                bound = "above 0" if name == "clip" else "from 0 on"
                raise ConfigError(
                    f"{name} is {value!r}, not a number {bound}", hint=f"set {option(name)} to such a number"
                )
        if not _is_number(self.theta) or not 1 < self.theta < math.inf:
            raise ConfigError(f"theta is {self.theta!r}", hint="set --theta to a number above 1, for instance 10000")
        for name, weight in self.objective_weights.items():
            if not _is_number(weight) or not 0 <= weight < math.inf:
                raise ConfigError(
                    f"the weight of {name} is {weight!r}, not a number from 0 on",
                    hint=f"write --objective-weight {name}=1.0",
                )
        trained = {part for part in (PARTS if self.task in LOOKING else ("lm",)) if part not in self.freeze}
        if not trained:
            raise ConfigError("everything is frozen, nothing can be trained", hint="leave out one --freeze")

    def bound(self) -> dict[str, Any]:
        """The settings that a resumed run must share: all that its weights depend on, and nothing else."""
        return {
            "task": self.task,
            "seed": self.seed,
            "preset": self.preset,
            "positions": self.positions,
            **({"theta": self.theta} if self.positions == "rotary" else {}),
            **{name: getattr(self, name) for name in LIMITS},
            "global_batch": self.global_batch,
            "packer": self.packer,
            "decoder": self.decoder,
            "mixture": str(self.mixture) if isinstance(self.mixture, Path) else self.mixture,
            "micro_steps": self.micro_steps,
            "lr": self.lr,
            "warmup": self.warmup,
            "schedule": self.schedule,
            **({"steps": self.steps} if self.schedule == "cosine" else {}),
            "weight_decay": self.weight_decay,
            "clip": self.clip,
            "freeze": sorted(self.freeze),
            **({"beta": self.beta} if self.task in PREFERRING else {}),
            "objective_weights": dict(self.objective_weights),
            **{name: getattr(self, name) for name, usual in UNSAID.items() if getattr(self, name) != usual},
            "compile": self.compile,
            "threads": self.threads,
        }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
