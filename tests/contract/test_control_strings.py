"""No text makes the id of a control token: every recipe, every control string of two tokenizers."""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import pytest

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.run import run as ingest
from shardkit.prepare.tokenize.config import TokenizeConfig
from shardkit.prepare.tokenize.run import run as tokenize
from shardkit.records import Example, Image, LayoutItem, Relation
from shardkit.sequence.recipes import RECIPES
from shardkit.store.dataset import Dataset
from shardkit.text.reserved import Reserved
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example
from tests.prepare.builders import png
from tests.prepare.tokenize.datasets import commit
from tests.tokenizer_builders import byte_level, spelled

EARLIER = (
    "<pad>", "<unk>", "<bos>", "<eos>", "<img>", "<image>", "<image_start>", "<image_patch>", "<image_end>", "<video>",
    "<video_start>", "<video_patch>", "<video_end>", "<bbox>", "<ocr>", "<ocr_start>", "<ocr_end>",
)  # fmt: skip
"""Of the first multimodal row schema."""
TOKENIZERS = {
    "minimind": (Reserved().special, (*Reserved().functional, *Reserved().buffers)),
    "multimodal": (EARLIER[:9], EARLIER[9:]),
}
"""Name -> control tokens that are special, and those that are not."""
CASES = [(kind, name) for kind, (special, other) in TOKENIZERS.items() for name in (*special, *other)]
SETTINGS: dict[str, tuple[str, dict[str, str]]] = {
    **{name: (name, {}) for name in RECIPES},
    "ocr with boxes": ("ocr", {"boxes": "true", "labels": "text"}),
    "vlm joined": ("vlm", {"captions": "joined"}),
    "sft drawn": ("sft", {"system_prompt_ratio": "0.5", "think_removal_ratio": "0.5", "alternatives": "2"}),
}
"""What is run: a recipe, and settings that put further text into its sequences."""
PICTURE = "data:image/png;base64," + base64.b64encode(png(side=28)).decode()
MARK = "zq"
"""Stands in a hostile text as often as the control string does."""


def hostile(name: str) -> str:
    return f"{MARK} {name} {MARK}{name}{MARK}\n{name}"


@dataclass(frozen=True)
class Sets:
    folder: Path
    tokenizers: dict[str, Path]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Sets:
    """Two datasets with examples of every kind for every control string, and the two tokenizers."""
    folder = tmp_path_factory.mktemp("controls")
    tokenizers = {}
    for kind, (special, other) in TOKENIZERS.items():
        # The vocabulary can spell some of them whole, as one that was trained on such text can.
        merges = dict.fromkeys([*spelled("<think>"), *spelled("<image>"), *spelled("<|im_end|>")])
        definition = byte_level(special, functional=other, merges=list(merges))
        definition["pre_tokenizer"]["use_regex"] = False
        tokenizers[kind] = folder / f"{kind}.json"
        tokenizers[kind].write_bytes(orjson.dumps(definition))
    names = list(dict.fromkeys(name for _, name in CASES))
    (folder / "chat.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for name in names for row in (*rows(name), *with_picture(name)))
    )
    ingest(IngestConfig(format="chat", paths=(folder / "chat.jsonl",), output=folder / "chat", workers=1))
    commit(folder / "pages", {"all": [one for name in names for one in pages(name)]})
    return Sets(folder=folder, tokenizers=tokenizers)


def rows(name: str) -> list[dict]:
    """Dialogues with every part of a turn, a preference, prompts with and without tools."""
    text = hostile(name)
    ask, answer = {"role": "user", "content": text}, {"role": "assistant", "content": text}
    call = {"name": "f", "arguments": {"x": text}}
    tools = [{"type": "function", "function": {"name": "f", "description": text, "parameters": {}}}]
    talk = [
        {"role": "system", "content": text, "tools": json.dumps(tools)},
        ask,
        {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": json.dumps([call])},
        {"role": "tool", "content": text},
        answer,
    ]
    return [
        {"conversations": talk},
        {"conversations": [{"role": "system", "content": text}, ask, answer]},
        {"chosen": [ask, answer], "rejected": [ask, {"role": "assistant", "content": f"no {text}"}]},
        {"conversations": [ask, {"role": "assistant", "content": "-"}]},
        {"conversations": talk, "gt": [text]},
    ]


def with_picture(name: str) -> list[dict]:
    """The same in a dialogue and a preference that show a picture."""
    text = hostile(name)
    ask = {"role": "user", "content": [{"type": "image_url", "image_url": PICTURE}, {"type": "text", "text": text}]}
    answers = [{"role": "assistant", "content": f"{side} {text}"} for side in ("yes", "no")]
    return [{"messages": [ask, answers[0]]}, {"chosen": [ask, answers[0]], "rejected": [ask, answers[1]]}]


def pages(name: str) -> list[Example]:
    """Plain texts, captions, interleaved documents, pages."""
    text = hostile(name)
    page = Relation(kind="ocr", images=(0,), segments=(1,), scope="page", annotator="test", confidence=None)
    return [
        make_example(text),
        make_example(text, text),
        make_example(0, text, relations=[caption(1, 0)]),
        make_example(0, text, f"two {text}", relations=[caption(1, 0), caption(2, 0)]),
        make_example(text, 0, text, 1, f"end {text}"),
        make_example(0, text, relations=[page], images=(labelled(text),)),
    ]


def labelled(text: str) -> Image:
    """A page with a line of its own, labels and reading order."""
    line = LayoutItem(level="line", text=text.replace("\n", " "), polygon=(1, 1, 9, 1, 9, 5, 1, 5))
    return replace(make_example(0).images[0], ocr_labels=(1, 2, 3), reading_order=(0,), layout=(line,))


@pytest.fixture(scope="module")
def sequences(sets: Sets):
    """(recipe, tokenizer) -> control string -> its sequences; made when it is asked for."""
    known: dict[tuple[str, str], tuple[Tokenizer, dict[str, list[dict]]]] = {}

    def make(recipe: str, kind: str) -> tuple[Tokenizer, dict[str, list[dict]]]:
        if (recipe, kind) not in known:
            known[recipe, kind] = _tokenized(sets, recipe, kind)
        return known[recipe, kind]

    return make


def _tokenized(sets: Sets, recipe: str, kind: str) -> tuple[Tokenizer, dict[str, list[dict]]]:
    output = sets.folder / f"{recipe}-{kind}"
    name, settings = SETTINGS[recipe]
    tokenize(
        TokenizeConfig(
            inputs=(sets.folder / "chat", sets.folder / "pages"), output=output, tokenizer=sets.tokenizers[kind],
            recipe=name, settings=settings, max_tokens=8192, add_control_tokens=True,
        )
    )  # fmt: skip
    made = Dataset.open(output)
    texts = {one.example_id: str(one.segments) for _, _, one in made.examples()}
    found: dict[str, list[dict]] = defaultdict(list)
    names = sorted({name for _, name in CASES}, key=len, reverse=True)
    for shard in made.sequence_shards:
        for row in made.sequence_reader(shard).table(["example_id", "input_ids", "slots"]).to_pylist():
            text = texts[row["example_id"]]
            found[next(name for name in names if name in text)].append(row)
    return Tokenizer.load(output / "tokenizer"), found


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: value)
@pytest.mark.parametrize("recipe", SETTINGS)
def test_a_control_string_in_data_stays_text(recipe: str, kind: str, name: str, sequences) -> None:
    tokenizer, found = sequences(recipe, kind)
    assert name in tokenizer.controls
    assert found[name], "no example of these gave a sequence"
    controls = set(tokenizer.controls.values())
    marks = 0
    for row in found[name]:
        labels = [label for slot in row["slots"] for label in slot["ocr_labels"] or ()]
        assert recipe != "ocr with boxes" or (labels and controls.isdisjoint(labels))
        # The text between control tokens: where one was made of data, its text is missing there.
        pieces: list[list[int]] = [[]]
        for token in row["input_ids"]:
            if token in controls:
                pieces.append([])
            else:
                pieces[-1].append(token)
        text = "\n".join(map(tokenizer.decode, pieces))
        assert text.count(MARK) == text.count(name)
        marks += text.count(MARK)
    assert marks >= 3


@pytest.mark.parametrize("kind", TOKENIZERS)
@pytest.mark.parametrize("recipe", SETTINGS)
def test_ids_of_control_tokens_come_as_often_whatever_the_text_says(recipe: str, kind: str, sequences) -> None:
    tokenizer, found = sequences(recipe, kind)
    counts = {
        name: {(control, row["input_ids"].count(control)) for row in rows for control in tokenizer.controls.values()}
        for name, rows in found.items()
    }
    for name, own in counts.items():
        if name in tokenizer.controls:
            # Draws (a system prompt, an open think block) differ from example to example, so sets are compared.
            others = set().union(*(counts[other] for other in counts if other != name))
            assert {one for one in own if one[0] == tokenizer.controls[name]} <= others


def test_hostile_texts_are_hostile() -> None:
    """Not vacuous: encoded with control tokens on, each of these texts makes ids of them."""
    for kind, name in CASES:
        special, other = TOKENIZERS[kind]
        tokenizer = Tokenizer(byte_level(special, functional=other))
        assert tokenizer._full.encode(hostile(name)).ids.count(tokenizer.controls[name]) == 3
        assert len(re.findall(MARK, hostile(name))) == 3
