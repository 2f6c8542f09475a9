"""The proofs of benchmarks/bench_train.py in a small form: real sets by the whole road, with a tokenizer of 1,024 entries."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks.training import feeding, proofs
from benchmarks.training.held_back import per_token
from benchmarks.training.packing import BOUND, compare
from benchmarks.training.runs import RECIPES, Runs
from benchmarks.training.sets import Raw, shardkit
from benchmarks.training.words import write_tokenizer
from shardkit.loader import StreamingLoader
from shardkit.sequence.plan import Mixture
from shardkit.trainer.config import POSITIONS, TrainConfig
from shardkit.trainer.evaluate import evaluate
from shardkit.trainer.loop import endless, train
from tests.trainer.builders import docs_with_pictures, make_batch, make_model

STEPS = {"lm": 130, "sft": 45, "shuffled": 12}
SMALL = {
    "lm": {"max_tokens": 256, "lr": 5e-3},
    "sft": {"max_tokens": 512, "lr": 3e-3},
    "shuffled": {"max_tokens": 512, "global_batch": 2, "warmup": 2},
}


@pytest.fixture(scope="module")
def runs(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder, data = tmp_path_factory.mktemp("proofs"), shared / "data"
    shardkit("ingest", "chat", data / "chat/sft.jsonl", "-o", folder / "raw", "--workers", 1)
    shardkit("tokenizer", "train", folder / "raw", "-o", folder / "tokenizer", "--vocab-size", 1024, "--workers", 1)
    recipes = {name: replace(RECIPES[name], settings=settings) for name, settings in SMALL.items()}
    raw = Raw(data=data, tokenizer=folder / "tokenizer", limit=200)
    return Runs(raw=raw, folder=folder, steps=STEPS, threads=1, recipes=recipes)


def test_held_back_texts_cost_less_than_a_unigram_says(runs: Runs):
    (line,) = proofs.texts_beat_a_unigram(runs)
    assert 4.0 < line.found < line.against < 6.5  # of log 1,024 = 6.93
    assert line.holds, line


def test_answers_of_held_back_dialogues_are_learned(runs: Runs):
    unigram, start = proofs.answers_are_learned(runs)
    assert unigram.found == pytest.approx(start.found)
    assert unigram.holds, unigram
    assert start.holds, start


def test_the_margin_of_held_back_pairs_grows(runs: Runs):
    line = proofs.margin(runs, "shuffled", claimed=True)
    assert line.holds, line


COLOURS = {
    "r": (255, 0, 0),
    "g": (0, 255, 0),
    "b": (0, 0, 255),
    "k": (0, 0, 0),
    "w": (255, 255, 255),
    "y": (255, 255, 0),
}


def test_the_right_picture_beats_a_permuted_one_on_colours_never_seen_together(tmp_path: Path):
    # Two colours, one above the other, and their letters: nine of the 36 pairs are held back.
    noise = np.random.default_rng(0)
    for pair in map("".join, product(COLOURS, repeat=2)):
        place = tmp_path / "raw" / pair
        place.mkdir(parents=True)
        for number in range(4):
            colours = np.repeat([[COLOURS[letter]] for letter in pair], 28, axis=0).repeat(56, axis=1)
            pixels = (colours * 0.8 + noise.normal(25, 12, colours.shape)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(place / f"{number}.png")
            (place / f"{number}.txt").write_text(pair)
    write_tokenizer(tmp_path / "tokenizer.json")
    shardkit("ingest", "ocr", tmp_path / "raw", "-o", tmp_path / "ingested", "--workers", 1)
    # By the letters alone: to a perceptual hash, plain colours are near to one another.
    edges = ("--ratios", "train=0.75,val=0.25", "--edges", "exact", "--workers", 1)
    shardkit("split", tmp_path / "ingested", "-o", tmp_path / "split", *edges)
    places = (tmp_path / "split", "-o", tmp_path / "tokens", "--tokenizer", tmp_path / "tokenizer.json")
    shardkit("tokenize", *places, "--recipe", "vlm", "--set", "image_size=56", "--max-tokens", 32, "--workers", 1)
    settings = {"steps": 40, "max_tokens": 128, "lr": 5e-3, "warmup": 10, "threads": 1}
    run = train(TrainConfig(task="vlm-align", data=tmp_path / "tokens", out=tmp_path / "run", **settings))
    figure = evaluate(run.model, run.config)
    assert (figure.split, figure.num_groups, figure.num_left_out) == ("val", 9, 0)
    # Without the picture two letters out of six cost 1.19 nats a token, with a third token that ends the text.
    assert figure.right < 0.6
    assert figure.difference > proofs.SURE * figure.standard_error


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    ("task", "fixture"), [("lm", "texts"), ("sft", "answers"), ("dpo", "pairs"), ("vlm-align", "tokens")]
)
def test_packing_changes_nothing_for_any_task(task: str, fixture: str, positions: str, request: pytest.FixtureRequest):
    found = proofs.agreement(request.getfixturevalue(fixture), task, positions)
    assert found.documents > 4
    assert found.logits < BOUND
    assert found.gradients < BOUND
    assert found.largest_gradient > 1e-2
    assert found.leak == 0.0
    assert found.own > 1e-3


def test_documents_that_see_each_other_would_be_noticed():
    model, batch = make_model(positions=64), make_batch(docs_with_pictures())
    right = compare(model, batch)
    assert right.holds
    hidden = model.hidden

    def leaky(batch, rows):
        bounds = torch.tensor([0, batch.input_ids.numel()], dtype=torch.int32)
        return hidden(replace(batch, cu_seq_lens_q=bounds), rows)

    model.hidden = leaky
    wrong = compare(model, batch)
    assert wrong.leak > 1e-4
    assert wrong.logits > 1e-4
    assert not wrong.holds


def test_a_mixture_by_loss_keeps_its_shares_to_two_in_a_hundred(road: Path):
    mixture = Mixture.of({"by": "loss", "weights": {"web": 1, "chat": 3}, "epoch": {"tokens": 3000}})
    with StreamingLoader(road / "both", max_tokens=48, mixture=mixture, rank=0, world_size=1, verify="off") as loader:
        first = next(iter(loader))
        assert feeding.shares([first], mixture) == {}  # no block is over yet
    with StreamingLoader(road / "both", max_tokens=48, mixture=mixture, rank=0, world_size=1, verify="off") as loader:
        found = feeding.shares(islice(endless(loader), 2 * len(loader)), mixture)
    assert found == {"chat": pytest.approx(0.75, rel=0.02), "web": pytest.approx(0.25, rel=0.02)}


def test_the_error_of_a_ratio_is_over_groups():
    # Ratio 14 / 7; residuals 1, -1, 0 over three groups: sqrt(2 x 3 / 2) / 7.
    assert per_token([3.0, 3.0, 8.0], [1, 2, 4]) == (2.0, pytest.approx(3**0.5 / 7))


@pytest.mark.full
def test_the_right_picture_beats_a_permuted_one_on_words_never_trained_on(tmp_path: Path):
    begin = sum(os.times()[:4])
    runs = Runs(raw=Raw(data=tmp_path, tokenizer=tmp_path), folder=tmp_path, steps={"words": 1500}, seeds=3, threads=1)
    (line,) = proofs.words_are_read(runs)
    assert line.holds, line
    # Reading, not just noticing: without the picture three letters out of twelve cost 1.86 nats a token.
    assert line.found < 1.5
    # Of the processor: on a busy machine a clock says nothing.
    assert sum(os.times()[:4]) - begin < 600
