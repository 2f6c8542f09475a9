"""Pairs and prompts from a dump to stored sequences, and a preference pair back as six tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.tokenize.config import TokenizeConfig, TokenizeResult
from shardkit.prepare.tokenize.run import run
from shardkit.sequence.recipes import RECIPES
from shardkit.store.dataset import Dataset
from shardkit.text.template import chatml
from shardkit.text.tokenizer import Tokenizer

TOKENIZER = Path(__file__).resolve().parents[2] / "data" / "tokenizer"


def tokenize(folder: Path, rows: Path | list[Any], recipe: str, **options: Any) -> TokenizeResult:
    """Rows, blank lines between them, to folder/RECIPE by way of folder/examples."""
    if isinstance(rows, list):
        (folder / "rows.jsonl").write_text("\n".join(json.dumps(row) + "\n" for row in rows))
        rows = folder / "rows.jsonl"
    if not (folder / "examples").exists():
        ingest(IngestConfig(format="chat", paths=(rows,), output=folder / "examples"))
    return run(
        TokenizeConfig(
            inputs=(folder / "examples",), output=folder / recipe, tokenizer=TOKENIZER, recipe=recipe, **options
        )
    )


def stored(folder: Path) -> list[dict[str, Any]]:
    found = []
    for shard in Dataset.open(folder).sequence_shards:
        with pa.memory_map(str(shard.path)) as file:
            found += pa.ipc.open_file(file).read_all().to_pylist()
    return found


TURNS = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": ""}]
TOOLS = [{"name": "add", "parameters": {"b": 1, "a": 2}}]


def test_agent_rows_keep_tools_and_gt(tmp_path: Path) -> None:
    rows = [
        {"conversations": [{"role": "system", "content": "", "tools": json.dumps(TOOLS)}, *TURNS], "gt": ["4"]},
        {"conversations": [{"role": "system", "content": "s", "tools": TOOLS}, *TURNS], "gt": {"b": 1, "a": 2}},
        {"conversations": [*TURNS[:1], {"role": "assistant", "content": "4"}]},
    ]
    result = tokenize(tmp_path, rows, "agent")
    assert (result.counts["kept"], result.counts["excluded_by_reason"]) == (2, {"no_gt": 1})
    first, second = (json.loads(row["prompt"]) for row in stored(tmp_path / "agent"))
    assert (first["tools"], first["gt"]) == (TOOLS, ["4"])
    assert list(first["tools"][0]["parameters"]) == ["b", "a"]
    assert (second["tools"], second["gt"]) == (TOOLS, {"a": 2, "b": 1})
    assert [turn["role"] for turn in second["messages"]] == ["system", "user"]


@pytest.mark.parametrize("alternatives", [1, 3])
def test_real_prompts_are_text_and_ids(tmp_path: Path, shared: Path, alternatives: int) -> None:
    file = shared / "data" / "chat" / "rlaif.jsonl"
    result = tokenize(tmp_path, file, "rlaif", settings={"alternatives": str(alternatives)})
    assert (result.counts["read"], result.counts["kept"], result.totals.get("supervised", 0)) == (80, 80, 0)
    tokenizer = Tokenizer.load(TOKENIZER)
    rows = stored(tmp_path / "rlaif")
    assert {row["alternatives"] for row in rows} == {1, alternatives}
    for row in rows:
        prompt = json.loads(row["prompt"])
        assert tokenizer.decode(row["input_ids"]) == prompt["text"]
        assert [run["objective"] for run in row["objectives"]] == [0]
        assert prompt["answer"] == "\u65e0"
        rendered = (
            chatml().render(prompt["messages"], add_generation_prompt=True, open_thinking=thinking)
            for thinking in (False, True)
        )
        assert prompt["text"] in rendered


def test_a_template_of_another_family_gives_text_and_ids(tmp_path: Path) -> None:
    template = tmp_path / "other.jinja"
    template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}", encoding="utf-8")
    rows = [{"conversations": [{"role": "user", "content": text}, *TURNS[1:]], "gt": 1} for text in ("q", "<|im_end|>")]
    result = tokenize(tmp_path, rows, "rlaif", chat_template=template)
    assert result.counts["kept"] == 2
    assert [row["input_ids"].count(2) for row in stored(tmp_path / "rlaif")] == [1, 1]
    assert [json.loads(row["prompt"])["text"] for row in stored(tmp_path / "rlaif")] == [
        "user: q<|im_end|>",
        "user: <|im_end|><|im_end|>",
    ]
    bound = Dataset.open(tmp_path / "rlaif").recipe["recipe"]["chat_template"]
    template.write_text(template.read_text() + " ", encoding="utf-8")
    tokenize(tmp_path, rows, "rlaif", chat_template=template, overwrite=True)
    assert Dataset.open(tmp_path / "rlaif").recipe["recipe"]["chat_template"] != bound


def test_a_hostile_template_ends_the_run(tmp_path: Path) -> None:
    template = tmp_path / "bad.jinja"
    template.write_text(
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="the chat template is refused: it takes more than"):
        tokenize(tmp_path, [{"conversations": TURNS, "gt": 1}], "rlaif", chat_template=template)
    assert not (tmp_path / "rlaif" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("limit", "overlong", "kept", "excluded"),
    [(4096, "window", 99, {"too_long": 1}), (4096, "truncate", 99, {"no_targets": 1}), (100_000, "window", 100, {})],
)
def test_real_pairs_have_two_documents(
    tmp_path: Path, shared: Path, limit: int, overlong: str, kept: int, excluded: dict[str, int]
) -> None:
    assert RECIPES["dpo"].MAX_TOKENS == 4096
    file = shared / "data" / "chat" / "dpo.jsonl"
    result = tokenize(tmp_path, file, "dpo", max_tokens=limit, overlong=overlong)
    assert (result.counts["kept"], result.counts["excluded_by_reason"]) == (kept, excluded)
    tokenizer = Tokenizer.load(TOKENIZER)
    for row in stored(tmp_path / "dpo"):
        start, middle = row["documents"]
        assert start == 0
        ids = row["input_ids"]
        objectives = [run["objective"] for run in row["objectives"] for _ in range(run["length"])]
        assert set(objectives[:middle]) == {0, 5}
        assert set(objectives[middle:]) == {0, 6}
        prompts = [
            tokenizer.decode(part[: next(at for at, objective in enumerate(kind) if objective)])
            for part, kind in ((ids[:middle], objectives[:middle]), (ids[middle:], objectives[middle:]))
        ]
        assert prompts[0] == prompts[1]
