"""tokenize: from committed examples to committed sequences."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from shardkit.digest import canonical_json, xxh3
from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.prepare.tokenize import run as module
from shardkit.prepare.tokenize.config import TokenizeConfig, TokenizeResult
from shardkit.prepare.tokenize.run import run
from shardkit.sequence.objectives import spread
from shardkit.sequence.plan.lengths import Lengths
from shardkit.store.dataset import Dataset
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example
from tests.prepare.tokenize.datasets import commit
from tests.tokenizer_builders import byte_level

TRAIN = [
    make_example(0, "cat", "dog", relations=[caption(1, 0), caption(2, 0)]),
    make_example(0),
    make_example("plain text", source="other"),
    *(make_example(f"{number}: " + "x" * 40) for number in range(5)),
]
VAL = [make_example("<|image_pad|>", 0, " and ", 1)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    file.write_bytes(orjson.dumps(byte_level()))
    return file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return commit(tmp_path_factory.mktemp("source") / "set", {"train": TRAIN, "val": VAL}, shard_size=60).path


def settings(source: Path, out: Path, tokenizer: Path, **more: Any) -> TokenizeConfig:
    given = {"recipe": "vlm", "settings": {"image_size": "28"}, "max_tokens": 30, **more}
    return TokenizeConfig(inputs=(source,), output=out, tokenizer=tokenizer, **given)


@pytest.fixture(scope="module")
def done(source: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenizeResult:
    return run(settings(source, tmp_path_factory.mktemp("out") / "tokens", tokenizer))


def rows(dataset: Dataset) -> list[dict[str, Any]]:
    """Its sequences, with a byte a token for what they are targets of."""
    tables = [dataset.sequence_reader(shard).table() for shard in dataset.sequence_shards]
    return [{**row, "objectives": spread(row["objectives"])} for table in tables for row in table.to_pylist()]


def files(folder: Path) -> dict[str, bytes]:
    """Every file but manifest.json, whose parts outside the id may differ."""
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name != "manifest.json"
    }


def test_the_counts_are_of_examples_and_of_sequences(done: TokenizeResult) -> None:
    found = done.to_json()
    assert {key: found[key] for key in ("read", "kept", "excluded", "excluded_by_reason", "changes")} == {
        "read": 9,
        "kept": 8,
        "excluded": 1,
        "excluded_by_reason": {"no_targets": 1},
        "changes": {"examples_windowed": 5},
    }
    # Two captions, one text, five texts of 45 tokens in two windows, one with two images.
    assert (found["sequences"], found["images"]) == (2 + 1 + 10 + 1, 4)
    dataset = Dataset.open(done.path)
    assert found["id"] == dataset.id
    assert found["tokens"] == sum(row["num_tokens"] for row in rows(dataset))
    assert found["supervised_tokens"] == sum(row["num_supervised"] for row in rows(dataset))


def test_a_row_leads_to_its_example_and_holds_its_slots(done: TokenizeResult) -> None:
    dataset = Dataset.open(done.path)
    found = rows(dataset)
    patch = Tokenizer(byte_level()).controls["<|image_pad|>"]
    for row in found:
        shard = dataset.shards[row["shard"]]
        example = dataset.reader(shard).example(row["row"])
        assert (row["example_id"], row["source"], row["group"]) == (example.example_id, example.source, example.group)
        places = [place for place, token in enumerate(row["input_ids"]) if token == patch]
        assert places == [slot["start"] + n for slot in row["slots"] for n in range(slot["count"])]
        assert len(row["objectives"]) == len(row["input_ids"]) == row["num_tokens"] <= 30
        assert row["objectives"][0] == 0
        assert row["num_supervised"] == len(row["objectives"]) - row["objectives"].count(0) > 0
        expected = [row["example_id"], dataset.manifest.identity()["fingerprint"], row["window"]]
        assert row["sequence_id"] == xxh3(canonical_json(expected))
    assert len({row["sequence_id"] for row in found}) == len(found)
    table = dataset.sequence_reader(dataset.sequence_shards[0]).table()
    assert str(table.schema.field("input_ids").type) == "list<item: uint16>"


def test_splits_and_rows_are_carried_over(done: TokenizeResult, source: Path) -> None:
    dataset, before = Dataset.open(done.path), Dataset.open(source)
    assert dataset.splits == ("train", "val")
    with_sequences = {row["shard"] for row in rows(dataset)}
    splits = [shard.split for shard in dataset.shards if shard.index in with_sequences]
    assert [shard.split for shard in dataset.sequence_shards] == splits
    assert [shard.entry.dataset for shard in dataset.shards] == [before.id] * len(before.shards)
    assert len(before.shards) > 3
    kept = [example for example in [*TRAIN, *VAL] if example != TRAIN[1]]
    assert [example for _, _, example in dataset.examples()] == kept
    table = dataset.table("examples").to_pylist()
    assert [(row["input"], row["position"]) for row in table][-2:] == [("train.jsonl", "8"), ("val.jsonl", "1")]
    excluded = TRAIN[1].example_id
    provenance = dataset.table("provenance").to_pylist()
    assert excluded in {row["example_id"] for row in before.table("provenance").to_pylist()}
    assert {row["example_id"] for row in provenance} == {example.example_id for example in kept}
    assert {(row["tokenizer"], row["processor"], row["derived_recipe"]) for row in provenance} == {
        (dataset.recipe["tokenizer"], "square/1", dataset.manifest.identity()["fingerprint"])
    }
    assert len(dataset.table("assets")) == 2


def test_lengths_say_what_the_sequences_are(done: TokenizeResult) -> None:
    dataset = Dataset.open(done.path)
    found = rows(dataset)
    table = dataset.table("lengths").to_pylist()
    places = [(shard.index, row, shard.split) for shard in dataset.sequence_shards for row in range(shard.num_rows)]
    assert [(row["shard"], row["row"], row["split"]) for row in table] == places
    for length, row in zip(table, found, strict=True):
        assert length["key"] == int(row["sequence_id"][:16], 16)
        assert (length["num_tokens"], length["num_supervised"]) == (row["num_tokens"], row["num_supervised"])
        counts = [length[f"supervised_{name}"] for name in ("text", "caption", "ocr")]
        assert counts == [row["objectives"].count(byte) for byte in (1, 2, 3)]
        assert (length["num_images"], length["num_patches"]) == (len(row["slots"]), 4 * len(row["slots"]))
        assert length["source"] == row["source"]
    lengths = Lengths.from_table(dataset.table("lengths"), split="train")
    assert (lengths.sources, len(lengths)) == (("other", "test"), 13)
    assert int(lengths.supervised[2].sum()) == 2 * (3 + 1)


def test_the_tokenizer_lies_in_the_dataset(done: TokenizeResult) -> None:
    again = Tokenizer.load(done.path / "tokenizer")
    assert again.digest == Dataset.open(done.path).recipe["tokenizer"] == Tokenizer(byte_level()).digest


@pytest.mark.parametrize("shards", ["arrow", "tar"])
def test_workers_chunks_and_overwriting_change_no_byte(
    shards: str, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = commit(tmp_path / "set", {"train": TRAIN, "val": VAL}, shards=shards, shard_size=2000).path
    one = run(settings(source, tmp_path / "one", tokenizer))
    monkeypatch.setattr(module, "CHUNK_ROWS", 3)
    two = run(settings(source, tmp_path / "two", tokenizer, workers=2))
    assert two.dataset_id == one.dataset_id
    assert files(tmp_path / "two") == files(tmp_path / "one")
    run(settings(source, tmp_path / "two", tokenizer, max_tokens=31, overwrite=True))
    again = run(settings(source, tmp_path / "two", tokenizer, overwrite=True))
    assert (again.dataset_id, files(tmp_path / "two")) == (one.dataset_id, files(tmp_path / "one"))


def test_a_killed_run_goes_on_and_ends_the_same(
    source: Path, tokenizer: Path, done: TokenizeResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings(source, tmp_path / "tokens", tokenizer)
    real, seen = module.tokenize_chunk, []

    def stop_at_third(job: Any, chunk: Any) -> Any:
        seen.append(chunk.referenced)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return real(job, chunk)

    monkeypatch.setattr(module, "tokenize_chunk", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    assert not (tmp_path / "tokens" / "manifest.json").exists()
    result = run(config)
    assert seen[2:4] == [2, 2]
    assert seen.count(0) == seen.count(1) == 1
    assert result.dataset_id == done.dataset_id
    assert files(tmp_path / "tokens") == files(done.path)


def test_the_same_again_is_unchanged_and_another_recipe_is_refused(
    source: Path, tokenizer: Path, done: TokenizeResult
) -> None:
    again = run(settings(source, done.path, tokenizer))
    assert again == replace(done, unchanged=True)
    with pytest.raises(OutputError, match="max_tokens was 30, now 31"):
        run(settings(source, done.path, tokenizer, max_tokens=31))


def test_a_dry_run_counts_and_writes_nothing(
    source: Path, tokenizer: Path, done: TokenizeResult, tmp_path: Path
) -> None:
    counted = run(settings(source, tmp_path / "none", tokenizer, dry_run=True))
    assert (counted.counts, counted.totals) == (done.counts, done.totals)
    assert (counted.dataset_id, (tmp_path / "none").exists()) == (None, False)


def test_several_inputs_in_any_order(source: Path, tokenizer: Path, tmp_path: Path) -> None:
    other = commit(tmp_path / "other", {"train": [make_example("more")], "test": [make_example("t")]}).path
    results = []
    for inputs in ([source, other], [other, source]):
        config = settings(source, tmp_path / f"out{len(results)}", tokenizer)
        results.append(run(replace(config, inputs=tuple(inputs))))
    assert results[0].dataset_id == results[1].dataset_id
    dataset = Dataset.open(results[0].path)
    assert set(dataset.splits) == {"train", "val", "test"}
    assert [dataset.splits.index(shard.split) for shard in dataset.shards] == sorted(
        dataset.splits.index(shard.split) for shard in dataset.shards
    )
    assert results[0].counts["read"] == 11


def test_a_view_gives_only_its_rows(done: TokenizeResult, source: Path, tokenizer: Path, tmp_path: Path) -> None:
    # A tokenized dataset is a view; made an input by its stage's name, it selects eight of nine rows.
    view = Dataset.open(done.path)
    manifest = replace(view.manifest, stage="dedup", sequences=())
    shutil.copytree(done.path, tmp_path / "view")
    moved = {key: str(source) for key in manifest.locations}
    (tmp_path / "view" / "manifest.json").write_bytes(replace(manifest, locations=moved).to_json())
    result = run(settings(tmp_path / "view", tmp_path / "out", tokenizer))
    assert (result.counts["read"], result.counts["excluded"]) == (8, 0)
    assert Dataset.open(tmp_path / "out").shards[0].holder.id == Dataset.open(source).id


def test_inputs_that_do_not_go_together_are_refused(
    source: Path, tokenizer: Path, done: TokenizeResult, tmp_path: Path
) -> None:
    never_split = commit(tmp_path / "all", {"all": [make_example("a")]}).path
    config = settings(source, tmp_path / "out", tokenizer)
    for inputs, says in (
        ((source, source), "the input is named twice"),
        ((source, never_split), "has (the splits )?all"),
        ((done.path,), "the input holds sequences already"),
    ):
        with pytest.raises(ConfigError, match=says):
            run(replace(config, inputs=inputs))
    assert not (tmp_path / "out").exists()


def test_an_example_that_may_not_be_too_long_ends_the_run(source: Path, tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the example has 45 tokens, --max-tokens is 30"):
        run(settings(source, tmp_path / "out", tokenizer, overlong="error"))
    dropped = run(settings(source, tmp_path / "dropped", tokenizer, overlong="drop"))
    assert dropped.counts["excluded_by_reason"] == {"no_targets": 1, "too_long": 5}
    assert Dataset.open(tmp_path / "dropped").table("lengths").num_rows == 4


def test_a_set_without_a_sequence_is_a_dataset_too(tokenizer: Path, tmp_path: Path) -> None:
    source = commit(tmp_path / "set", {"all": [make_example(0)]}).path
    result = run(settings(source, tmp_path / "out", tokenizer))
    dataset = Dataset.open(result.path)
    assert (result.totals, dataset.sequence_shards) == ({}, ())
    assert "supervised_ocr" in dataset.table("lengths").column_names
    assert len(Lengths.from_table(dataset.table("lengths"))) == 0


def test_control_tokens_are_missing_or_added(source: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(byte_level(("<|im_start|>",), functional=())))
    config = settings(source, tmp_path / "out", tmp_path)
    with pytest.raises(ConfigError, match="it has <\\|im_start\\|>"):
        run(config)
    run(replace(config, add_control_tokens=True))
    dataset = Dataset.open(tmp_path / "out")
    added = ["<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]
    assert dataset.recipe["added_control_tokens"] == added
    again = Tokenizer.load(tmp_path / "out" / "tokenizer")
    assert [again.controls[name] for name in added] == [257, 258, 259, 260]
    assert (again.digest, again.vocab_size) == (dataset.recipe["tokenizer"], dataset.recipe["vocab_size"])
    row = next(row for row in rows(dataset) if row["slots"])
    assert row["input_ids"][row["slots"][0]["start"]] == 259


def test_a_recipe_file_stands_behind_the_settings(source: Path, tokenizer: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "vlm"\nimage_size = 56\ncaptions = "first"\n', encoding="utf-8")
    result = run(settings(source, tmp_path / "out", tokenizer, recipe=str(file)))
    recipe = Dataset.open(result.path).recipe["recipe"]
    assert (recipe["image_size"], recipe["captions"], recipe["bos"]) == (28, "first", "<|im_start|>")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read"),
        ("name = ", "is no TOML"),
        ("image_size = 56", "it names no recipe; there are pretrain"),
        ('name = "vml"', "it names the recipe 'vml'; there are pretrain"),
        ('name = "vlm"\nsize = 3', "recipe vlm has no setting 'size'"),
    ],
)
def test_a_recipe_file_that_says_nothing_useful(
    text: str | None, says: str, source: Path, tokenizer: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        run(settings(source, tmp_path / "out", tokenizer, recipe=str(file), settings={}))


def test_texts_that_the_vocabulary_cannot_spell_are_counted(tmp_path: Path) -> None:
    definition = byte_level()
    del definition["model"]["vocab"]["z"]
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(definition))
    source = commit(tmp_path / "set", {"all": [make_example("abz"), make_example("ab")]}).path
    result = run(settings(source, tmp_path / "out", tmp_path, recipe="pretrain", settings={}))
    assert result.counts["changes"] == {"texts_changed_by_tokenizer": 1}


def test_ids_of_a_large_vocabulary_take_four_bytes(source: Path, tmp_path: Path) -> None:
    definition = byte_level()
    definition["model"]["vocab"]["<far>"] = 70_000
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(definition))
    run(settings(source, tmp_path / "out", tmp_path))
    dataset = Dataset.open(tmp_path / "out")
    batch = dataset.sequence_reader(dataset.sequence_shards[0]).batch(0)
    assert batch.column("input_ids").values.to_numpy().dtype == np.uint32
