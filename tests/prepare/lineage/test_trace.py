"""From an id back to the raw row: every link of the chain, through views, by whole ids and their beginnings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from shardkit.digest import sha256
from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.prepare.lineage.trace import Tracer, trace
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE
from tests.prepare.builders import example, png, write
from tests.prepare.lineage.conftest import TABLE, WEB, Road

PAGE = WEB[1].example_id
PICTURE = sha256(png(2))


def test_an_example_leads_to_its_row_its_pictures_and_its_sequences(lineage: Road) -> None:
    found = trace(lineage.tokens, PAGE)
    assert (found["kind"], found["asked"], found["stage"]) == ("example", PAGE, "tokenize")
    (made,) = found["examples"]
    assert (made["input"], made["position"], made["source"]) == ("rows.jsonl", "2", "web")
    assert made["dataset"] == Dataset.open(lineage.split).id
    assert made["text"] == "the second page"
    assert [(r["kind"], r["assets"]) for r in made["relations"]] == [("caption", [PICTURE])]
    assert made["stated"] == {"revision": None, "retrieved_at": None, "licence": "MIT"}
    # Where it says that the row lies, there it lies.
    held = Dataset.open(lineage.split)
    shard = next(shard for shard in held.shards if shard.name == made["shard"])
    assert Path(made["path"]).samefile(shard.path)
    assert held.reader(shard).example(made["row"]).example_id == PAGE
    assert [one["window"] for one in found["sequences"]] == list(range(len(found["sequences"]))) != []
    assert {one["example"] for one in found["sequences"]} == {0}


def test_an_asset_has_all_its_origins_and_the_seven_fields(lineage: Road) -> None:
    found = trace(lineage.tokens, PICTURE)
    (asset,) = found["assets"]
    assert asset["asset_id"] == PICTURE
    assert asset["examples"] == 2
    assert {(row["source"], row["input"], row["position"], row["licence"]) for row in asset["provenance"]} == {
        ("web", "rows.jsonl", "2", "CC-BY"),
        ("table", "table.csv", "1", "CC-BY-NC"),
    }
    for row in asset["provenance"]:
        assert list(row) == PROVENANCE.names
        for name in (
            "digest",
            "decoder",
            "preprocessing",
            "relation",
            "group",
            "derived_recipe",
            "tokenizer",
            "processor",
        ):
            assert row[name], name
    assert {example["example_id"] for example in found["examples"]} == {PAGE, TABLE[0].example_id}


def test_a_picture_of_removed_duplicates_keeps_their_origins_through_all_stages(lineage: Road) -> None:
    for stage in (lineage.clean, lineage.split, lineage.tokens):
        (asset,) = trace(stage, sha256(png(1)))["assets"]
        assert asset["examples"] == 1
        assert sorted(row["position"] for row in asset["provenance"]) == ["1", "3"], stage


def test_a_sequence_leads_to_its_example(lineage: Road) -> None:
    sequence = trace(lineage.tokens, PAGE)["sequences"][0]
    found = trace(lineage.tokens, sequence["sequence_id"])
    assert found["kind"] == "sequence"
    assert [example["example_id"] for example in found["examples"]] == [PAGE]
    assert found["sequences"] == [sequence]


def test_beginnings_of_ids_and_several_that_fit(lineage: Road, tmp_path: Path) -> None:
    tracer = Tracer(lineage.tokens)
    assert tracer.trace(PAGE[:8])["asked"] == PAGE
    assert tracer.trace(f" SHA256:{PICTURE[:20].upper()} ")["asked"] == PICTURE
    for text in (PAGE[:7], "no hex digits", "g" * 32, "", "a" * 65, f"{'0' * 32}/{'9' * 5000}/0/0of1"):
        with pytest.raises(ConfigError, match="is no id of a batch"):
            tracer.trace(text)
    twin = f"{PAGE[:10]}{'0' * 22}"
    rows = [WEB[1], example("other", source="web")]
    object.__setattr__(rows[1], "example_id", twin)
    with pytest.raises(ConfigError, match=f"2 ids begin with {PAGE[:10]}: example .*, example "):
        trace(write(tmp_path / "twins", rows).path, PAGE[:10])
    assert trace(tmp_path / "twins", twin)["examples"][0]["text"] == "other"


def test_equal_examples_are_told_apart_by_their_rows(lineage: Road) -> None:
    found = trace(lineage.web, WEB[0].example_id)
    assert [example["position"] for example in found["examples"]] == ["1", "3"]


def test_what_an_earlier_stage_left_out_is_followed_there(lineage: Road) -> None:
    found = trace(lineage.tokens, WEB[4].example_id)
    (row,) = found["history"]
    assert (found["batch"], found["sequences"], found["examples"], found["assets"]) == (None, [], [], [])
    assert [step["outcome"] for step in row["history"]] == ["kept", "has_roles"]
    found = trace(lineage.tokens, sha256(png(3)))
    assert (found["kind"], found["asked"]) == ("asset", sha256(png(3)))
    assert [row["example_id"] for row in found["history"]] == [WEB[4].example_id]


def test_text_examples_name_the_licence_of_their_source(lineage: Road) -> None:
    found = trace(lineage.split, WEB[3].example_id)
    assert found["examples"][0]["stated"]["licence"] == "MIT"
    assert found["assets"] == []
    assert found["sequences"] == []


def test_datasets_are_listed_oldest_first_and_moved_ones_found_below_a_base(lineage: Road, tmp_path: Path) -> None:
    shutil.copytree(lineage.tokens, tmp_path / "elsewhere" / "tokens")
    shutil.copytree(lineage.split, tmp_path / "elsewhere" / "split")
    moved = tmp_path / "elsewhere" / "tokens"
    stages = [one["stage"] for one in trace(lineage.tokens, PAGE)["datasets"]]
    assert stages == ["ingest", "ingest", "dedup", "split", "tokenize"]
    found = trace(moved, PAGE)
    assert [one["stage"] for one in found["datasets"]] == ["split", "tokenize", None]
    assert found["datasets"][-1]["id"] == Dataset.open(lineage.clean).id
    assert found["examples"][0]["position"] == "2"
    assert [one["stage"] for one in trace(moved, PAGE, bases=(lineage.root,))["datasets"]] == stages
    shutil.rmtree(tmp_path / "elsewhere" / "split")
    with pytest.raises(IntegrityError, match=r"the input dataset .* is not at"):
        trace(moved, PAGE)
    (there,) = trace(moved, PAGE, bases=(lineage.root,))["examples"]
    assert there["path"] == str(lineage.split / found["examples"][0]["shard"])
    assert there["row"] == found["examples"][0]["row"]


def test_unknown_ids_and_places_without_a_dataset(lineage: Road, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing has the id 0123456789abcdef"):
        trace(lineage.tokens, "0123456789abcdef")
    with pytest.raises(SourceError, match="no dataset is here"):
        Tracer(tmp_path)


def test_a_damaged_shard_is_named_and_not_read(lineage: Road, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(lineage.web, tmp_path / "web"))
    for shard in copy.rglob("*.arrow"):
        data = bytearray(shard.read_bytes())
        data[len(data) // 2] ^= 1
        shard.write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match="the manifest says xxh3"):
        trace(copy, PAGE)


@pytest.mark.parametrize("shards", ["arrow", "tar"])
def test_either_kind_of_shard(tmp_path: Path, shards: str) -> None:
    path = write(tmp_path / shards, [*WEB, *TABLE], shards=shards, unit_rows=4).path
    for row, made in enumerate([*WEB, *TABLE], 1):
        found = trace(path, made.example_id)
        assert str(row) in [example["position"] for example in found["examples"]]
        assert [image["asset_id"] for image in found["examples"][0]["images"]] == [i.asset_id for i in made.images]


def test_an_empty_dataset_knows_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing has the id"):
        trace(write(tmp_path / "empty", []).path, PAGE)
