"""From dump to batch by the command line: what comes out, and that it is the same every time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest

from shardkit.store.schema import PROVENANCE
from tests.journey.road import Road, apart, content, dataset_id, ingest_lines, result, shardkit, walk

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("captions", "lines", "pages", "clean", "split", "tokens")


def manifest(dataset: Path) -> dict:
    return json.loads((dataset / "manifest.json").read_bytes())


def test_every_stage_is_byte_identical_with_any_worker_count(road: Road, sample: Path, tmp_path: Path):
    again = walk(tmp_path, sample, workers=3, command=apart)
    for name in STAGES:
        assert content(again.stages[name]) == content(road.stages[name]), name
        assert dataset_id(again.stages[name]) == dataset_id(road.stages[name]), name


def test_the_order_in_which_inputs_are_listed_changes_nothing(sample: Path, tmp_path: Path):
    folders = [tmp_path / "raw" / name for name in ("one", "two", "three")]
    for index, path in enumerate(sorted((sample / "ocr").iterdir())):
        folder = folders[index // 3 % 3]
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / path.name)
    outs = [tmp_path / "forwards", tmp_path / "backwards"]
    shardkit(*ingest_lines(sample, outs[0], folders))
    shardkit(*ingest_lines(sample, outs[1], folders[::-1]))
    assert content(outs[0]) == content(outs[1])
    assert dataset_id(outs[0]) == dataset_id(outs[1])


def test_the_same_command_again_is_unchanged(road: Road, sample: Path):
    for name, command in road.commands(sample).items():
        before = content(road.stages[name])
        again = shardkit(*command)
        assert again.stdout == f"{road.stages[name]}\t{dataset_id(road.stages[name])}\n"
        assert "unchanged" in again.stderr
        assert content(road.stages[name]) == before


def test_rows_are_accounted_for_at_every_stage(road: Road):
    counts = {name: manifest(road.stages[name])["counts"] for name in STAGES}
    for name, count in counts.items():
        assert count["read"] == count["kept"] + count["excluded"], name
        assert sum(count["excluded_by_reason"].values()) == count["excluded"], name
    assert counts["captions"]["read"] == 62
    assert counts["lines"]["read"] == 60
    assert counts["pages"]["read"] == 60
    kept = sum(counts[name]["kept"] for name in ("captions", "lines", "pages"))
    assert counts["clean"]["read"] == kept
    assert counts["clean"]["excluded"] == 4, "the pairs that stand in the tar and in the table"
    assert counts["split"]["read"] == counts["split"]["kept"] == counts["clean"]["kept"]


def test_every_manifest_is_valid(road: Road):
    schema = json.loads((ROOT / "manifests" / "schema" / "manifest.schema.json").read_bytes())
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for name in STAGES:
        validator.validate(manifest(road.stages[name]))
    broken = manifest(road.stages["clean"])
    broken["shards"][0]["path"] = "../../elsewhere.arrow"
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(broken)


def test_provenance_has_the_seven_fields_for_every_asset(road: Road):
    for name, licence, revision in (("captions", "MIT", "8bd5355"), ("lines", "public domain", None)):
        table = pq.read_table(road.stages[name] / "provenance" / "provenance.parquet")
        assert table.schema.names == PROVENANCE.names
        assets = pq.read_table(road.stages[name] / "tables" / "assets.parquet")["asset_id"].to_pylist()
        rows = table.to_pylist()
        assert {row["asset_id"] for row in rows} == set(assets)
        assert len(assets) > 40
        for row in rows:
            assert row["source"] == {"captions": "alttext", "lines": "dta"}[name]
            assert row["revision"] == revision
            assert row["digest"] == f"sha256:{row['asset_id']}"
            assert row["licence"] == licence
            assert row["decoder"]
            assert row["relation"] in ("caption", "ocr")
            assert row["input"]
            assert row["position"] is not None


def test_every_example_leads_back_to_its_input(road: Road, sample: Path):
    lines = pq.read_table(road.stages["lines"] / "tables" / "examples.parquet").to_pylist()
    assert len(lines) == 60
    for row in lines:
        assert (sample / "ocr" / row["input"]).is_file() or list((sample / "ocr").glob(f"{row['position']}*")), row
    first = {row["example_id"]: (row["input"], row["position"]) for name in ("captions", "lines", "pages")
             for row in pq.read_table(road.stages[name] / "tables" / "examples.parquet").to_pylist()}  # fmt: skip
    for name in ("clean", "split", "tokens"):
        rows = pq.read_table(road.stages[name] / "tables" / "examples.parquet").to_pylist()
        assert rows
        for row in rows:
            origin = row["parent_id"] if row["example_id"] not in first else row["example_id"]
            assert first[origin] == (row["input"], row["position"]), name


def test_books_do_not_cross_the_split(road: Road):
    splits: dict[str, set[str]] = {}
    for shard in pq.read_table(road.stages["split"] / "tables" / "examples.parquet").to_pylist():
        if shard["source"] == "dta":
            splits.setdefault(shard["group"], set()).add(shard["shard"].split("/")[1])
    assert len(splits) == 19
    assert all(len(places) == 1 for places in splits.values()), splits
    assert len(set.union(*splits.values())) >= 2


def test_verify_and_audit_pass_on_what_was_made(road: Road):
    shardkit("verify", road.stages["lines"])
    shardkit("verify", road.stages["tokens"], "--deep")
    apart("audit", road.stages["split"])


def test_the_looking_commands_speak_json(road: Road):
    stats = json.loads(apart("stats", road.stages["tokens"], "--json", "--quiet").stdout)
    assert set(stats["by_source"]) == {"alttext", "dta", "pages"}
    plan = json.loads(apart("plan", road.stages["tokens"], "--json", "--quiet").stdout)
    train = manifest(road.stages["tokens"])["totals"]["by_split"]["train"]
    assert (plan["sequences"], plan["tokens"]) == (train["sequences"], train["tokens"])
    assert len(result("head", road.stages["clean"], "-n", 2)["examples"]) == 2


def test_training_resumes_to_the_same_weights(road: Road, tmp_path: Path):
    common = ["train", "--task", "vlm-align", "--data", road.stages["tokens"]]

    def last(*arguments: object) -> dict:
        return json.loads(shardkit(*common, *arguments).stdout.splitlines()[-1])

    whole = last("--steps", 2, "--out", tmp_path / "whole")
    half = last("--steps", 1, "--out", tmp_path / "halves")
    assert half["step"] == 1
    rest = last("--steps", 2, "--out", tmp_path / "halves", "--resume")
    assert rest["step"] == whole["step"] == 2
    assert rest["loss"] == whole["loss"]
    assert rest["weights_digest"] == whole["weights_digest"] != half["weights_digest"]
