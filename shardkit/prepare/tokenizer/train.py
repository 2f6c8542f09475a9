"""`shardkit tokenizer train`: the text of datasets to a tokenizer.

    datasets -> bytes of their texts -> which examples are drawn -> texts, block by block -> counts -> merges -> files

Texts are read while they are counted. What stays in memory are the counts of pieces; `max_bytes` bounds them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from shardkit.digest import xxh3
from shardkit.engine import silent
from shardkit.engine.progress import Progress
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.dedup.inputs import Slice
from shardkit.prepare.tokenizer.config import TrainConfig, TrainResult
from shardkit.prepare.tokenizer.measured import Measured
from shardkit.prepare.tokenizer.texts import Source, num_bytes, open_sources, texts_of
from shardkit.store.folder import Folder
from shardkit.text.reserved import Reserved, read_reserved
from shardkit.text.template import ChatTemplate, chatml
from shardkit.text.tokenizer import Tokenizer
from shardkit.text.training import (
    TEMPLATE_MARKS,
    TRAINING_VERSION,
    check_settings,
    library,
    tokenizer_config,
    train,
)

NOTE = "training.json"
"""Beside the tokenizer: what it was made from, and what it makes of that text."""

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """Everything that is decided before a text is read."""

    config: TrainConfig
    reserved: Reserved
    template: str | None
    sources: tuple[Source, ...]

    @property
    def made_from(self) -> dict[str, Any]:
        return {
            "version": TRAINING_VERSION,
            "inputs": [source.dataset.id for source in self.sources],
            "split": self.config.split,
            "max_bytes": self.config.max_bytes,
            "vocab_size": self.config.vocab_size,
            "pattern": self.config.pattern,
            "control_tokens": self.reserved.to_json(),
            "chat_template": None if self.template is None else xxh3(self.template.encode()),
        }


def run(config: TrainConfig, on_progress: Progress = silent) -> TrainResult:
    """Train and publish a tokenizer; or say that it is there already; or only look at the text (dry run).

    Raises:
        ConfigError: for an impossible setting.
        SourceError: where there is no text.
        IntegrityError: where an input is damaged.
        OutputError: where the output cannot be written.
    """
    plan = _plan(config)
    if config.dry_run or config.output is None:
        text, _ = _draw(plan)
        return TrainResult(
            path=config.output, digest=None, unchanged=False, vocab_size=None, text=text, measured=None,
            has_template=plan.template is not None,
        )  # fmt: skip
    holders = {shard.holder.path for source in plan.sources for shard in source.dataset.shards}
    with Folder(
        config.output,
        note=NOTE,
        made_from=plan.made_from,
        protected=[*config.inputs, *sorted(holders)],
        overwrite=config.overwrite,
    ) as folder:
        if folder.unchanged:
            return _result(plan, folder.note, unchanged=True)
        text, drawn = _draw(plan)
        tokenizer = _train(plan, drawn, text, on_progress)
        files = [folder.write(name, data) for name, data in sorted(tokenizer.files().items())]
        facts = {
            "tokenizer": tokenizer.digest,
            "vocab_size": tokenizer.vocab_size,
            "trained_by": library(),
            "text": text,
            "measured": _measure(plan, tokenizer, drawn, text, on_progress).to_json(),
        }
        return _result(plan, folder.commit(files, facts), unchanged=False)


def _plan(config: TrainConfig) -> _Plan:
    reserved = Reserved() if config.control_tokens is None else read_reserved(config.control_tokens)
    check_settings(vocab_size=config.vocab_size, reserved=reserved, pattern=config.pattern)
    if config.max_bytes < 1:
        raise ConfigError("there is no text in 0 bytes", hint="raise --max-bytes")
    template = _template(config.chat_template, reserved)
    sources = open_sources(config.inputs, split=config.split, bases=config.bases, train_only=True)
    return _Plan(config=config, reserved=reserved, template=template, sources=sources)


def _template(file: Path | None, reserved: Reserved) -> str | None:
    if file is None:
        return chatml().source if set(TEMPLATE_MARKS) <= set(reserved.names) else None
    return ChatTemplate.load(file).source


# --------------------------------------------------------------------------- texts
Drawn = tuple[npt.NDArray[np.bool_] | None, ...]
"""Of each source, which of its rows are drawn; None is all of them."""


def _draw(plan: _Plan) -> tuple[dict[str, int], Drawn]:
    """What text there is and which examples are read of it."""
    there = sum(num_bytes(piece) for source in plan.sources for piece in source.slices())
    if not there:
        raise SourceError("there is no text in it", where=str(plan.config.inputs[0]), hint="name datasets with text")
    drawn: Drawn = (None,) * len(plan.sources)
    if there > plan.config.max_bytes:
        drawn = tuple(source.drawn(plan.config.max_bytes / there) for source in plan.sources)
    pieces = list(_slices(plan, drawn))
    read = sum(map(num_bytes, pieces)) if there > plan.config.max_bytes else there
    if not read:
        raise SourceError(
            f"none of the examples is drawn: --max-bytes {plan.config.max_bytes} of {there}",
            where=str(plan.config.inputs[0]),
            hint="raise --max-bytes",
        )
    examples = sum(len(source.rows) for source in plan.sources)
    num_read = sum(len(piece.rows) for piece in pieces)
    return {"examples": num_read, "bytes": read, "examples_there": examples, "bytes_there": there}, drawn


def _slices(plan: _Plan, drawn: Drawn) -> Iterator[Slice]:
    for source, keep in zip(plan.sources, drawn, strict=True):
        yield from source.slices(keep)


def _texts(plan: _Plan, drawn: Drawn, on_text: Callable[[int], None]) -> Iterator[list[str]]:
    """The drawn texts, block by block; `on_text` is told how many bytes were read so far."""
    done = 0
    for piece in _slices(plan, drawn):
        for texts in texts_of(piece):
            yield texts
            done += sum(len(text.encode()) for text in texts)
            on_text(done)


# --------------------------------------------------------------------------- training
def _train(plan: _Plan, drawn: Drawn, text: dict[str, int], on_progress: Progress) -> Tokenizer:
    config = plan.config

    def batches() -> Iterator[list[str]]:
        yield from _texts(plan, drawn, lambda done: on_progress(done, 2 * text["bytes"], "reading"))
        on_progress(text["bytes"], 2 * text["bytes"], "merging")

    def learn() -> dict[str, Any]:
        return train(batches(), vocab_size=config.vocab_size, reserved=plan.reserved, pattern=config.pattern)

    with _threads(config.workers):
        definition = _interruptible(learn)
    return Tokenizer(definition, config=tokenizer_config(plan.reserved, plan.template), where=str(config.output))


def _measure(plan: _Plan, tokenizer: Tokenizer, drawn: Drawn, text: dict[str, int], on_progress: Progress) -> Measured:
    measured = Measured.of(tokenizer)
    num_bytes = text["bytes"]

    def on_text(done: int) -> None:
        on_progress(num_bytes + done, 2 * num_bytes, "measuring")

    with _threads(plan.config.workers):
        for texts in _texts(plan, drawn, on_text):
            measured.add_texts(tokenizer, texts)
    return measured


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Let the library use so many threads; it takes the number where it starts its first one, from the environment."""
    before = {name: os.environ.get(name) for name in ("RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM")}
    os.environ.update(RAYON_NUM_THREADS=str(number), TOKENIZERS_PARALLELISM="true" if number > 1 else "false")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _interruptible(function: Callable[[], Value]) -> Value:
    """`function()`, in a thread: the library merges for minutes without a look at signals, which this one still hears."""
    answers: list[Value] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            answers.append(function())
        except BaseException as error:  # noqa: BLE001 - handed over to the thread that waits
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
    if errors:
        raise errors[0]
    return answers[0]


def _result(plan: _Plan, note: dict[str, Any], *, unchanged: bool) -> TrainResult:
    return TrainResult(
        path=plan.config.output,
        digest=note["tokenizer"],
        unchanged=unchanged,
        vocab_size=note["vocab_size"],
        text=note["text"],
        measured=note["measured"],
        has_template=note["made_from"]["chat_template"] is not None,
    )
