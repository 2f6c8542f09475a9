"""The generated set: pictures of words, and a text that only the picture tells.

Each of the 1,728 words of three letters out of twelve is drawn some times, at changing places, sizes and brightness and
with noise. Its text is the word, the word is the group. No letter sequence of a held-back word was ever trained on, so
a model wins only by reading letters: without the picture they cost log 12 of each of three letters, and nothing for the
end, 1.86 nats a token.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from shardkit.digest import mix64

from .sets import SIDE, Raw, shardkit, tokens

LETTERS = "abcdefghijkl"
LENGTH = 3
HELD_BACK = 64
"""Words that are compared"""
PACK = 384
"""Tokens: about 32 pictures with their words"""
CONTROLS = ("<bos>", "<eos>", "<image_start>", "<image_patch>", "<image_end>")


def words(_raw: Raw, folder: Path, *, pictures: int) -> Path:
    """`pictures` of each word, the whole road; one word in twenty is held back."""
    draw_words(folder / "raw", pictures)
    write_tokenizer(folder / "tokenizer.json")
    source = ("--source", "words", "--licence", "CC0-1.0", "--workers", 1)
    shardkit("ingest", "ocr", folder / "raw", "-o", folder / "ingested", *source)
    settings = ("--set", f"image_size={SIDE}")
    return tokens(folder, "vlm", folder / "tokenizer.json", 32, *settings, ratios="train=0.95,val=0.05")


def held_back(groups: Mapping[str, object]) -> list[str]:
    """The words that are compared."""
    chosen = sorted(groups, key=lambda group: mix64(group, "held back"))[:HELD_BACK]
    assert len(chosen) == HELD_BACK, "the split left too few words out"
    return chosen


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
