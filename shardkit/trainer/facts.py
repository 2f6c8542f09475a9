"""What the trainer must know of a dataset: vocabulary, image slots, objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardkit.digest import fingerprint
from shardkit.errors import ConfigError, IntegrityError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan import Mixture
from shardkit.store.dataset import Dataset
from shardkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    dataset_id: str
    split: str | None
    """What is trained on; None is everything"""
    tokenizer: str
    """Its digest"""
    vocab_size: int
    longest: int
    """Tokens that sequences were built for"""
    objectives: tuple[str, ...]
    """Those that have a target in the split, in a source that is drawn"""
    num_images: int
    image_token: int | None
    """Id of the token that stands for an image slot; None where the recipe has no images"""
    processor: str | None
    """Fingerprint of what makes pixels; None where the recipe has no images"""
    labels: Mapping[str, Any]
    """The recipe that says what is a target, and what it was told of that"""
    slot_side: int
    """Pixels along the side of the square that a slot stands for"""


def read_facts(dataset: Dataset, mixture: Mixture | None = None) -> Facts:
    """The facts of a tokenized dataset's training split; of everything where it was never split.

    Args:
        mixture: what sources without a weight hold is never learned, and no objective of the run.

    Raises:
        ConfigError: where the dataset holds no sequences, or only prompts or pairs; or is split and has no train.
        IntegrityError: where its tokenizer is not the one it was made with.
    """
    if not dataset.has_table("lengths"):
        raise ConfigError(
            f"a dataset of stage {dataset.stage} holds no sequences",
            where=str(dataset.path),
            hint="run `shardkit tokenize` on it, and give its output with --data",
        )
    split = None if dataset.splits == ("all",) else "train"
    lengths = dataset.table("lengths")
    if split is not None:
        lengths = lengths.filter(pc.equal(lengths["split"], split))
    if not lengths.num_rows:
        raise ConfigError(
            f"there is no sequence to train on (splits: {', '.join(dataset.splits)})",
            where=str(dataset.path),
            hint="split the dataset with train in --ratios",
        )
    columns = {name: f"supervised_{name}" for name in OBJECTIVES if f"supervised_{name}" in lengths.column_names}
    drawn = _drawn(lengths, mixture)
    objectives = tuple(name for name, column in columns.items() if pc.sum(drawn[column]).as_py())
    if not objectives:
        raise ConfigError(
            "it holds prompts: no token is a target",
            where=str(dataset.path),
            hint="give --data a dataset of another recipe, for instance sft",
        )
    recipe = dataset.recipe["recipe"]
    image_token = None
    if "image_patch" in recipe:
        tokenizer = Tokenizer.load(dataset.folder("tokenizer"))
        if tokenizer.digest != dataset.recipe["tokenizer"]:
            raise IntegrityError(
                f"the tokenizer has the digest {tokenizer.digest}, the dataset was made with {dataset.recipe['tokenizer']}",
                where=str(dataset.path / "tokenizer"),
                hint="restore it, or run `shardkit tokenize` again",
            )
        image_token = tokenizer.token_id(recipe["image_patch"])
    processor = recipe.get("image_processor") or {}
    return Facts(
        dataset_id=dataset.id,
        split=split,
        tokenizer=dataset.recipe["tokenizer"],
        vocab_size=dataset.recipe["vocab_size"],
        longest=dataset.recipe["max_tokens"],
        objectives=objectives,
        num_images=pc.sum(lengths["num_images"]).as_py(),
        image_token=image_token,
        processor=fingerprint(processor) if processor else None,
        labels={
            name: value for name, value in recipe.items() if name in {"name", "version"} or name.startswith("supervise")
        },
        slot_side=processor.get("patch", 14) * processor.get("merge", 2),
    )


def _drawn(lengths: pa.Table, mixture: Mixture | None) -> pa.Table:
    """The rows of the sources that a mixture ever draws; all where it names one that is not there, which the plan refuses."""
    if mixture is None or not mixture.weights:
        return lengths
    changes = (change.weights for change in mixture.then)
    sources = {name for weights in (mixture.weights, *changes) for name, weight in weights if weight > 0}
    if not sources <= set(lengths["source"].to_pylist()):
        return lengths
    return lengths.filter(pc.is_in(lengths["source"], pa.array(sorted(sources))))
