"""The proof that vision is used: pictures of words, and a text that only the picture tells.

    python benchmarks/bench_vision.py [--pictures N] [--steps N] [--seeds N] [--json]

Each of the 1,728 words of three letters out of twelve is drawn some times, at changing places, sizes and brightness and
with noise. Its text is the word. The pictures go the whole road: ingest ocr (the word is the group), split, tokenize,
stream, train from nothing. On 64 held-back words the loss with the right picture is then compared with the loss with
pictures permuted across words; each word's losses are averaged over the seeds, the error is over the words. No letter
sequence of a held-back word was ever trained on, so a model wins only by reading letters.
"""

from __future__ import annotations

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from processes import SHARDKIT
from report import about, publish, table
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from shardkit.digest import mix64
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.evaluate import GroupLoss, RightAgainstPermuted, evaluate_groups, summarise
from shardkit.trainer.loop import train

LETTERS = "abcdefghijkl"
LENGTH = 3
SIDE = 56
"""Pixels"""
HELD_BACK = 64
"""Words that are compared"""
PACK = 384
"""Tokens: about 32 pictures with their words"""
CONTROLS = ("<bos>", "<eos>", "<image_start>", "<image_patch>", "<image_end>")


@dataclass(frozen=True, kw_only=True)
class Proof:
    figure: RightAgainstPermuted
    by_seed: list[RightAgainstPermuted]
    seconds: dict[str, float]
    pictures: int
    steps: int

    @property
    def holds(self) -> bool:
        """Whether the right pictures win by more than two standard errors."""
        figure = self.figure
        return figure.difference is not None and figure.difference > 2 * (figure.standard_error or float("inf"))


def prove(folder: Path, *, pictures: int, steps: int, seeds: int, threads: int) -> Proof:
    """Make the pictures in `folder`, take them the whole road, train once a seed and compare."""
    began = time.perf_counter()
    draw_words(folder / "raw", pictures)
    write_tokenizer(folder / "tokenizer.json")
    seconds = {"draw": time.perf_counter() - began}
    for stage, arguments in {
        "ingest": ("ocr", folder / "raw", "-o", folder / "ingest", "--source", "words", "--licence", "CC0-1.0"),
        "split": (folder / "ingest", "-o", folder / "split", "--ratios", "train=0.95,val=0.05"),
        "tokenize": (
            *(folder / "split", "-o", folder / "tokens", "--tokenizer", folder / "tokenizer.json", "--recipe", "vlm"),
            *("--set", f"image_size={SIDE}", "--max-tokens", "32"),
        ),
    }.items():
        began = time.perf_counter()
        command = [*SHARDKIT, stage, *arguments, "--quiet", "--workers", "2"]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
        seconds[stage] = time.perf_counter() - began

    runs: list[dict[str, GroupLoss]] = []
    for seed in range(seeds):
        began = time.perf_counter()
        config = TrainConfig(
            task="vlm-align",
            data=folder / "tokens",
            out=folder / f"run-{seed}",
            steps=steps,
            seed=seed,
            max_tokens=PACK,
            warmup=100,
            checkpoint_every=steps,
            threads=threads,
        )
        result = train(config)
        by_group, num_left_out, split = evaluate_groups(result.model, result.config)
        assert split == "val"
        assert num_left_out == 0
        chosen = sorted(by_group, key=lambda group: mix64(group, "held back"))[:HELD_BACK]
        assert len(chosen) == HELD_BACK, "the split left too few words out"
        runs.append({group: by_group[group] for group in chosen})
        seconds[f"train, seed {seed}"] = time.perf_counter() - began
    return Proof(
        figure=summarise(runs, split="val", num_left_out=0),
        by_seed=[summarise([run], split="val", num_left_out=0) for run in runs],
        seconds=seconds,
        pictures=pictures * len(LETTERS) ** LENGTH,
        steps=steps,
    )


def draw_words(folder: Path, pictures: int) -> None:
    """folder/<word>/<number>.png and .txt, `pictures` of each word."""
    for word in map("".join, itertools.product(LETTERS, repeat=LENGTH)):
        place = folder / word
        place.mkdir(parents=True)
        for number in range(pictures):
            draw_word(word, random.Random(mix64(word, number, "draw"))).save(place / f"{number}.png")
            (place / f"{number}.txt").write_text(word)


def draw_word(word: str, chance: random.Random) -> Image.Image:
    image = Image.new("L", (SIDE, SIDE), chance.randint(180, 255))
    font = ImageFont.load_default(size=chance.randint(18, 22))
    corner = (4 + chance.randint(0, 4), 14 + chance.randint(0, 4))
    ImageDraw.Draw(image).text(corner, word, fill=chance.randint(0, 80), font=font)
    noise = np.random.default_rng(chance.getrandbits(32)).normal(0, 12, (SIDE, SIDE))
    return Image.fromarray((np.asarray(image) + noise).clip(0, 255).astype(np.uint8))


def write_tokenizer(file: Path) -> None:
    """A byte-level tokenizer without merges: every letter is a token."""
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    tokenizer.add_special_tokens(list(CONTROLS))
    tokenizer.save(str(file))


def lines(proof: Proof) -> list[str]:
    seeds = [(f"seed {seed}", figure) for seed, figure in enumerate(proof.by_seed)]
    rows = [
        {
            "": name,
            "right": figure.right,
            "permuted": figure.permuted,
            "difference": figure.difference,
            "error": figure.standard_error,
        }
        for name, figure in [*seeds, ("over seeds", proof.figure)]
    ]
    seconds = [*proof.seconds.items(), ("all", sum(proof.seconds.values()))]
    return [
        f"{proof.pictures} pictures, {proof.steps} steps a seed, {HELD_BACK} held-back words",
        *table(rows),
        "nats a target token; the error is the standard error over the words",
        *(f"{name:14} {value:7.1f} s" for name, value in seconds),
        "vision is used" if proof.holds else "NOT SHOWN: the difference is within two standard errors",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=3, help="of each word")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="the model is small: more threads wait for one another")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        proof = prove(
            Path(folder), pictures=options.pictures, steps=options.steps, seeds=options.seeds, threads=options.threads
        )
    found = {**asdict(proof), "holds": proof.holds}
    publish(about("shardkit", "torch"), found, lines(proof), as_json=options.json)
    return 0 if proof.holds else 1


if __name__ == "__main__":
    sys.exit(main())
