"""A dataset of referred and of changed rows, through every command that reads one, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from shardkit.cli import run
from shardkit.loader import StreamingLoader
from shardkit.store import Dataset
from shardkit.text.tokenizer import Tokenizer
from tests.prepare.builders import png

TOKENIZER = Path(__file__).resolve().parents[1] / "data" / "tokenizer"
NAVIGATION = "Home | News | Gallery | Contact"
WORDS = Path(__file__).read_text(encoding="utf-8").split()


def shardkit(command: str, *arguments: object) -> None:
    workers = [] if command in ("stats", "head", "explain") else ["--workers", "1"]
    assert run([command, *map(str, arguments), *workers]) == 0


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    capsys.readouterr()
    shardkit(*arguments, "--json", "--quiet")
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 documents, of which 10 have no repeated line, 20 captioned pictures, two of them one picture; deduplicated."""
    folder = tmp_path_factory.mktemp("changed")
    chance = Random(1)
    (folder / "rows").mkdir()
    (folder / "captions").mkdir()
    documents = [
        {
            "text": "\n".join([*([NAVIGATION] if number < 20 else []), " ".join(chance.choices(WORDS, k=40))]),
            "url": f"http://www.harbour.example/{number}",
        }
        for number in range(30)
    ]
    (folder / "rows" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents), encoding="utf-8")
    caption = " ".join(chance.choices(WORDS, k=30))
    texts = [caption, f"{caption} again", *(f"picture {number}" for number in range(18))]
    rows = []
    for number, text in enumerate(texts):
        (folder / "captions" / f"{number}.png").write_bytes(png(max(number, 1), side=40))
        rows.append({"image": f"{number}.png", "caption": text})
    (folder / "captions" / "captions.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )
    shardkit("ingest", "text", folder / "rows" / "rows.jsonl", "-o", folder / "texts", "--source", "web", "--quiet")
    shardkit("ingest", "caption", folder / "captions", "-o", folder / "shown", "--source", "shown", "--quiet")
    options = ["--boilerplate", "remove", "--boilerplate-min", 3, "--relations", "move", "--shard-size", 2000]
    shardkit("dedup", folder / "texts", folder / "shown", "-o", folder / "clean", *options, "--quiet")
    return folder / "clean"


def test_rows_are_referred_to_and_changed(clean: Path):
    dataset = Dataset.open(clean)
    assert dataset.manifest.counts["changes"] == {"captions_moved": 1, "lines_removed": 20}
    own = [shard for shard in dataset.shards if shard.holder is dataset]
    assert len(own) > 1
    assert sum(shard.num_rows for shard in own) == 21
    assert len({shard.holder.id for shard in dataset.shards}) == 3


def test_every_reader_sees_both(clean: Path, capsys: pytest.CaptureFixture[str]):
    for command in (["verify", "--deep"], ["stats"], ["head", "-n", 3], ["audit"]):
        name, *options = command
        said(capsys, name, clean, *options)
    verified = said(capsys, "verify", clean, "--deep")
    assert (verified["ok"], verified["examples"]) == (True, 49)
    split = clean.with_name("split")
    shardkit("split", clean, "-o", split, "--ratios", "train=0.5,val=0.5", "--quiet", "--allow-empty")
    assert said(capsys, "audit", split)["ok"]
    tokens = clean.with_name("tokens")
    shardkit("tokenize", clean, "-o", tokens, "--tokenizer", TOKENIZER, "--recipe", "vlm", "--set", "image_size=56", "--quiet")  # fmt: skip
    assert said(capsys, "verify", tokens, "--deep")["ok"]
    tokenizer = Tokenizer.load(TOKENIZER)
    seen, texts = set(), []
    with StreamingLoader(tokens, max_tokens=512, epochs=1, tail="pad") as batches:
        for batch in batches:
            seen |= set(batch.example_ids)
            texts.append(tokenizer.decode(batch.input_ids[0].tolist()))
    examples = Dataset.open(clean).table("examples").to_pylist()
    assert {row["example_id"] for row in examples} <= seen
    assert NAVIGATION not in "".join(texts)
    again = clean.with_name("again")
    assert said(capsys, "dedup", clean, "-o", again)["kept"] == 49
    assert said(capsys, "verify", again, "--deep")["ok"]
    assert said(capsys, "decontaminate", clean, "-o", clean.with_name("less"), "--against", clean.with_name("shown"))["read"] == 49  # fmt: skip


def test_old_and_new_ids_are_explained(clean: Path, capsys: pytest.CaptureFixture[str]):
    row = next(row for row in Dataset.open(clean).table("examples").to_pylist() if row["parent_id"])
    assert said(capsys, "explain", clean, row["example_id"])["outcome"] == "kept"
    old = said(capsys, "explain", clean, row["parent_id"])
    assert old["outcome"] == "changed"
    assert row["example_id"] in old["detail"]
