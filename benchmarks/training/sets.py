"""Datasets of the proofs, from raw files by the command line: ingest, split by groups, tokenize."""

from __future__ import annotations

import contextlib
import io
import json
import random
from dataclasses import dataclass
from pathlib import Path

from shardkit import cli
from shardkit.digest import mix64

RATIOS = "train=0.8,val=0.2"
BOOK = "@path:([^/]+)_[0-9]+_[0-9]+"
"""Of a line's file name in ocr_lines_dta: book, page, line"""
SIDE = 56
"""Pixels of a picture in a sequence: four slots"""


def shardkit(*words: object) -> None:
    """Run a command of the command line in this process.

    Raises:
        RuntimeError: where it fails.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = cli.run([str(word) for word in (*words, "--quiet")])
    if code:
        raise RuntimeError(f"shardkit {words[0]} ended with {code}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Raw:
    data: Path
    """The folder of raw sets"""
    tokenizer: Path
    limit: int | None = None
    """Records of each set; None is all"""

    def ingest(self, form: str, place: Path, *words: object) -> None:
        """With the options `words`."""
        most = () if self.limit is None else ("--limit", self.limit)
        shardkit("ingest", form, place, *words, "--workers", 1, *most)


def texts(raw: Raw, folder: Path) -> Path:
    """Web texts, poems and classics of `chat`, for lm."""
    return _chat(raw, folder, "pretrain", form="text", recipe="pretrain", longest=256)


def answers(raw: Raw, folder: Path) -> Path:
    """Dialogues of `chat`, for sft."""
    return _chat(raw, folder, "sft", form="chat", recipe="sft", longest=512)


def pairs(raw: Raw, folder: Path) -> Path:
    """The hundred preference pairs of `chat`, for dpo. They are few, so more of them are held back."""
    more = ("--overlong", "truncate")
    return _chat(raw, folder, "dpo", *more, form="chat", recipe="dpo", longest=1024, ratios="train=0.6,val=0.4")


def shuffled(raw: Raw, folder: Path) -> Path:
    """Pairs made of the first answers of `chat`'s dialogues, for dpo: as they were written, and with their words shuffled.

    Both answers of a pair have the same words, so only their order tells which was chosen.
    """
    rows = []
    for line in (raw.data / "chat" / "sft.jsonl").read_text(encoding="utf-8").splitlines()[: raw.limit]:
        question, answer = json.loads(line)["conversations"][:2]
        rejected = {**answer, "content": _shuffled(answer["content"])}
        rows.append(json.dumps({"chosen": [question, answer], "rejected": [question, rejected]}))
    folder.mkdir()
    (folder / "pairs.jsonl").write_text("\n".join(rows), encoding="utf-8")
    raw.ingest("chat", folder / "pairs.jsonl", "-o", folder / "ingested")
    return tokens(folder, "dpo", raw.tokenizer, 512)


def _shuffled(text: str) -> str:
    """Words in another order; characters, where the language puts no spaces between words."""
    words = text.split()
    spaced = len(words) > len(text) / 20
    parts = words if spaced else list(text)
    random.Random(mix64(text, "shuffle")).shuffle(parts)
    return (" " if spaced else "").join(parts)


def pictures(raw: Raw, folder: Path) -> Path:
    """Captions, web pages and text lines, one source each, for vlm-align."""
    pages = raw.data / "obelics_pages"
    sources: dict[str, tuple[str, Path, tuple[object, ...]]] = {
        "captions": ("caption", raw.data / "captions_alttext", ()),
        "pages": ("obelics", pages / "obelics.parquet", ("--images", pages, "--url-map", pages / "url_map.jsonl")),
        "lines": ("ocr", raw.data / "ocr_lines_dta", ("--group-by", BOOK)),
    }
    for name, (form, place, words) in sources.items():
        raw.ingest(form, place, "-o", folder / name, "--source", name, *words)
    shardkit("concat", *(folder / name for name in sources), "-o", folder / "ingested")
    return tokens(folder, "vlm", raw.tokenizer, 512, "--set", f"image_size={SIDE}")


def _chat(
    raw: Raw, folder: Path, name: str, *more: object, form: str, recipe: str, longest: int, ratios: str = RATIOS
) -> Path:
    raw.ingest(form, raw.data / "chat" / f"{name}.jsonl", "-o", folder / "ingested", "--source", name)
    return tokens(folder, recipe, raw.tokenizer, longest, *more, ratios=ratios)


def tokens(folder: Path, recipe: str, tokenizer: Path, longest: int, *settings: object, ratios: str = RATIOS) -> Path:
    """FOLDER/ingested -> FOLDER/split -> FOLDER/tokens"""
    shardkit("split", folder / "ingested", "-o", folder / "split", "--ratios", ratios, "--workers", 1)
    shardkit(
        *("tokenize", folder / "split", "-o", folder / "tokens", "--tokenizer", tokenizer, "--recipe", recipe),
        *("--max-tokens", longest, "--add-control-tokens", "--workers", 1, *settings),
    )
    return folder / "tokens"
