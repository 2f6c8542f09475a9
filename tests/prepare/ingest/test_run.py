"""The whole stage: equal bytes for any workers, resumption, unchanged inputs, every row accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.errors import OutputError, SourceError
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.store.dataset import Dataset
from tests.prepare.ingest.builders import examples, files_of, jsonl, picture, tar


@pytest.fixture
def inputs(tmp_path) -> Path:
    """60 rows, 30 of them with a picture; two are bad."""
    folder = tmp_path / "inputs"
    (folder / "img").mkdir(parents=True)
    rows: list[object] = []
    for n in range(60):
        if n % 2:
            rows.append({"text": f"text {n}", "site": f"s{n % 5}"})
        else:
            (folder / "img" / f"{n}.png").write_bytes(picture(n))
            rows.append({"text": "<image> number", "images": [f"img/{n}.png"], "site": f"s{n % 5}"})
    rows[10] = {"text": "<image> gone", "images": ["img/gone.png"]}
    rows[11] = {"text": 5}
    (folder / "rows.jsonl").write_bytes(jsonl(rows))
    return folder


def ask(inputs: Path, out: Path, **settings) -> IngestConfig:
    return IngestConfig(
        **{
            "format": "rows",
            "paths": (inputs / "rows.jsonl",),
            "output": out,
            "unit_size": 300,
            "shard_size": 2000,
            **settings,
        }
    )


def test_every_row_is_kept_or_excluded_and_leads_back_to_its_place(tmp_path, inputs):
    result = run(ask(inputs, tmp_path / "out", group_by="site"))
    assert (result.tally.read, result.tally.kept, dict(result.tally.excluded)) == (
        60, 58, {"asset_missing": 1, "wrong_type": 1},
    )  # fmt: skip
    dataset = Dataset.open(tmp_path / "out")
    assert dataset.manifest.counts["read"] == 60
    places = dataset.table("examples").to_pylist()
    assert [row["position"] for row in places] == [str(n + 1) for n in range(60) if n not in (10, 11)]
    assert {row["input"] for row in places} == {"rows.jsonl"}
    assert [row["group"] for row in places][:3] == ["s0", "s1", "s2"]
    assert dataset.table("provenance").num_rows == result.num_images == 29
    counted = {row["input"]: row for row in dataset.table("inputs").to_pylist()}
    assert [counted["rows.jsonl"][key] for key in ("read", "kept", "excluded")] == [60, 58, 2]
    assert counted["img/0.png"]["size"] == len(picture(0))
    assert counted["@missing///img/gone.png"]["size"] == -1
    assert len(dataset.shards) > 8


@pytest.mark.parametrize("settings", [{"workers": 2}, {"workers": 3}, {"workers": 2, "shards": "tar"}])
def test_workers_change_nothing(tmp_path, inputs, settings):
    alone = {**settings, "workers": 1}
    run(ask(inputs, tmp_path / "one", **alone))
    run(ask(inputs, tmp_path / "many", **settings))
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


class Stopped(Exception):
    pass


@pytest.mark.parametrize("after", [1, 2, 5, 9])
def test_a_run_that_stops_goes_on_after_its_last_receipt(tmp_path, inputs, after):
    run(ask(inputs, tmp_path / "whole"))
    config = ask(inputs, tmp_path / "out")
    receipts = tmp_path / "out" / ".work" / "receipts"

    def stop(_done: int, _total: int | None, _note: str = "") -> None:
        if len(list(receipts.glob("*.json"))) >= after:
            raise Stopped

    with pytest.raises(Stopped):
        run(config, stop)
    kept = {path.name: path.stat().st_mtime_ns for path in receipts.glob("*.json")}
    assert len(kept) == after
    begun = []
    run(config, lambda done, _total, note="": begun.append(done))
    assert begun[0] > 0, "the first units were not done again"
    assert files_of(tmp_path / "out") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("change", ["a picture", "the rows", "a picture that was missing"])
def test_units_whose_inputs_changed_are_done_again(tmp_path, inputs, change):
    config = ask(inputs, tmp_path / "out")

    def stop(_done: int, _total: int | None, _note: str = "") -> None:
        if len(list((tmp_path / "out" / ".work" / "receipts").glob("*.json"))) >= 6:
            raise Stopped

    with pytest.raises(Stopped):
        run(config, stop)
    if change == "a picture":
        (inputs / "img" / "2.png").write_bytes(picture(1002))
    elif change == "the rows":
        (inputs / "rows.jsonl").write_bytes((inputs / "rows.jsonl").read_bytes().replace(b"text 3", b"word 3"))
    else:
        (inputs / "img" / "gone.png").write_bytes(picture(77))
    run(config)
    run(ask(inputs, tmp_path / "fresh"))
    assert files_of(tmp_path / "out") == files_of(tmp_path / "fresh")


def test_the_same_command_again_is_unchanged_and_another_input_is_not(tmp_path, inputs):
    config = ask(inputs, tmp_path / "out")
    first = run(config)
    before = files_of(tmp_path / "out")
    again = run(config)
    assert again.unchanged
    assert (again.dataset, again.tally, again.num_images) == (first.dataset, first.tally, first.num_images)
    (inputs / "img" / "4.png").write_bytes(picture(99))
    with pytest.raises(OutputError, match="other bytes"):
        run(config)
    assert files_of(tmp_path / "out") == before
    replaced = run(ask(inputs, tmp_path / "out", overwrite=True))
    assert not replaced.unchanged
    run(ask(inputs, tmp_path / "fresh"))
    assert files_of(tmp_path / "out") == files_of(tmp_path / "fresh")


def test_a_root_or_map_that_finds_a_missing_picture_is_a_change(tmp_path, inputs):
    run(ask(inputs, tmp_path / "out"))
    other = tmp_path / "other"
    (other / "img").mkdir(parents=True)
    (other / "img" / "elsewhere.png").write_bytes(picture(5))
    assert run(ask(inputs, tmp_path / "out", images=(inputs, other))).unchanged
    (other / "img" / "gone.png").write_bytes(picture(5))
    with pytest.raises(OutputError, match="other bytes"):
        run(ask(inputs, tmp_path / "out", images=(inputs, other)))
    assert run(ask(inputs, tmp_path / "out")).unchanged, "without that root nothing is different"
    (other / "map.jsonl").write_bytes(jsonl([{"url": "https://x", "file": "img/gone.png"}]))
    with pytest.raises(OutputError, match=r"map\.jsonl"):
        run(ask(inputs, tmp_path / "out", url_maps=(other / "map.jsonl",)))


def test_a_file_that_comes_into_a_folder_of_pairs_is_a_change(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.png").write_bytes(picture())
    (folder / "a.txt").write_text("a")
    config = IngestConfig(format="ocr", paths=(folder,), output=tmp_path / "out")
    run(config)
    assert run(config).unchanged
    (folder / "b.txt").write_text("an orphan")
    with pytest.raises(OutputError):
        run(config)


def test_the_order_and_form_of_the_paths_change_nothing(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    for n in range(20):
        (folder / f"{n}.png").write_bytes(picture(n))
        (folder / f"{n}.txt").write_text(f"page {n}")
    files = sorted(folder.iterdir())
    for number, paths in enumerate([[folder], files, files[::-1]]):
        run(IngestConfig(format="ocr", paths=tuple(paths), output=tmp_path / f"out{number}", unit_size=2000))
    whole = files_of(tmp_path / "out0")
    assert whole == files_of(tmp_path / "out1") == files_of(tmp_path / "out2")
    assert len(examples(tmp_path / "out0")) == 20


def test_names_of_the_machine_do_not_reach_the_dataset(tmp_path, inputs):
    run(ask(inputs, tmp_path / "out", images=(inputs,)))
    assert not [n for n, data in files_of(tmp_path / "out").items() if str(tmp_path).encode() in data]


def test_limit_reads_so_many_records(tmp_path, inputs):
    result = run(ask(inputs, tmp_path / "out", limit=12, workers=2))
    assert (result.tally.read, result.tally.kept) == (12, 10)
    assert list(examples(tmp_path / "out")) == [str(n + 1) for n in range(10)]


def test_a_dry_run_counts_and_writes_nothing(tmp_path, inputs):
    result = run(ask(inputs, tmp_path / "out", dry_run=True))
    wet = run(ask(inputs, tmp_path / "wet"))
    assert (result.tally, result.num_images, result.num_bytes) == (wet.tally, wet.num_images, wet.num_bytes)
    assert not (tmp_path / "out").exists()


def test_on_error_fail_stops_at_the_first_bad_record(tmp_path, inputs):
    with pytest.raises(SourceError, match=r"rows\.jsonl:11.*gone\.png") as error:
        run(ask(inputs, tmp_path / "out", on_error="fail", workers=2))
    assert "--on-error exclude" in error.value.hint
    assert run(ask(inputs, tmp_path / "out")).tally.read == 60, "the same output goes on without the option"


def test_too_many_bad_records_commit_nothing_and_a_larger_share_does(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"".join(b"broken\n" if n % 10 == 0 else b'{"text": "a"}\n' for n in range(1000)))
    config = {"format": "rows", "paths": (rows,), "output": tmp_path / "out"}
    with pytest.raises(SourceError, match=r"100 of 1000 .*invalid_json 100") as error:
        run(IngestConfig(**config))
    assert "--max-bad" in error.value.hint
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert run(IngestConfig(**config, max_bad=0.1)).tally.kept == 900


def test_below_a_thousand_records_no_share_is_judged(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"broken\n" * 998 + b'{"text": "a"}\n')
    assert run(IngestConfig(format="rows", paths=(rows,), output=tmp_path / "out")).tally.kept == 1


def test_rows_that_all_lack_a_field_are_refused_with_the_fields_that_are_there(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(jsonl([{"content": "a"}, {"content": "b"}]))
    with pytest.raises(SourceError, match=r"found: content") as error:
        run(IngestConfig(format="rows", paths=(rows,), output=tmp_path / "out"))
    assert "--field" in error.value.hint


def test_several_refused_inputs_are_named_together(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        (tmp_path / name).write_bytes(b"PAR1 cut")
    with pytest.raises(SourceError, match=r"2 inputs are refused: a\.parquet.*b\.parquet"):
        run(IngestConfig(format="rows", paths=(tmp_path,), output=tmp_path.parent / "out"))


def test_salvage_keeps_the_rows_before_the_damage_and_says_so(tmp_path):
    data = tar([(f"{n}.{kind}", picture(n) if kind == "png" else b"t") for n in range(5) for kind in ("png", "txt")])
    (tmp_path / "s.tar").write_bytes(data[: data.index(b"3.txt") + 20])
    config = {"format": "webdataset", "paths": (tmp_path / "s.tar",), "output": tmp_path / "out"}
    with pytest.raises(SourceError, match=r"s\.tar"):
        run(IngestConfig(**config))
    result = run(IngestConfig(**config, overwrite=True, salvage=True))
    assert (result.tally.kept, dict(result.tally.excluded)) == (3, {"missing_label": 1, "damaged_input": 1})
    assert "damaged_input" in json.dumps(dict(Dataset.open(tmp_path / "out").manifest.counts))
