"""dedup as a whole: what stays, what is said of it, and that nothing but content decides."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.dedup.config import DedupConfig, DedupResult
from shardkit.prepare.dedup.run import run
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write


def dedup(out: Path | None, *inputs: Path, **options) -> DedupResult:
    return run(DedupConfig(inputs=inputs, output=out, dry_run=out is None, **options))


def content(dataset: Dataset) -> list[tuple[str, str, str]]:
    return sorted((e.example_id, e.text, e.group or "") for _, _, e in dataset.examples())


def files(path: Path) -> dict[str, bytes]:
    found = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    manifest = orjson.loads(found.pop("manifest.json"))
    return {**found, "id": manifest["dataset_id"].encode()}


def test_texts_repeat_and_short_ones_are_no_exception(tmp_path: Path):
    write(tmp_path / "a", [example(t) for t in ("cat", "dog", "Cat ", "\u6211\u559c\u6b22", "cat")])
    result = dedup(tmp_path / "c", tmp_path / "a")
    assert texts(Dataset.open(tmp_path / "c")) in (
        ["Cat ", "dog", "\u6211\u559c\u6b22"],
        ["cat", "dog", "\u6211\u559c\u6b22"],
    )
    assert result.counts == {"read": 5, "kept": 3, "excluded": 2, "excluded_by_reason": {"duplicate_text": 2}}


def test_rows_without_an_image_are_not_alike(tmp_path: Path):
    rows = [example(f"text {k}") for k in range(10)] + [example(None, png(1)), example(None, png(1))]
    write(tmp_path / "a", rows)
    assert dedup(tmp_path / "c", tmp_path / "a").counts["kept"] == 11


def test_images_with_the_same_caption_stay_and_are_reported(tmp_path: Path):
    write(
        tmp_path / "a",
        [example("image.jpg" if k % 2 else "photo", png(k)) for k in range(20)] + [example("else", png(30))],
    )
    result = dedup(tmp_path / "c", tmp_path / "a")
    assert result.counts["kept"] == 21
    assert result.report["frequent_texts"]["texts"] == 2
    assert result.report["frequent_texts"]["examples"] == 20
    assert sorted((t["text"], t["examples"], t["images"]) for t in result.report["frequent_texts"]["top"]) == [
        ("image.jpg", 10, 10),
        ("photo", 10, 10),
    ]


def test_one_image_with_several_texts_stays_whole_and_its_rows_are_tied(tmp_path: Path):
    rows = [example(text, png(1)) for text in ("a", "b", "c")] + [example("a", png(2))]
    write(tmp_path / "a", rows)
    result = dedup(tmp_path / "c", tmp_path / "a")
    assert result.counts["excluded"] == 0
    assert result.report["same_images_other_text"] == {"images": 1, "examples": 3}
    edges = Dataset.open(tmp_path / "c").table("edges").to_pylist()
    assert {edge["level"] for edge in edges} == {"image"}
    joined = {edge["kept_id"] for edge in edges} | {edge["removed_id"] for edge in edges}
    assert joined == {row.example_id for row in rows[:3]}
    assert len(edges) == 2


def test_a_text_without_image_goes_where_an_image_has_it(tmp_path: Path):
    write(tmp_path / "a", [example("page text", png(1)), example("Page  text"), example("page text", png(2))])
    result = dedup(tmp_path / "c", tmp_path / "a", priority=("test",))
    assert result.counts["excluded_by_reason"] == {"duplicate_text": 1}
    assert [len(e.images) for _, _, e in Dataset.open(tmp_path / "c").examples()] == [1, 1]


def test_keeper_by_source_then_pixels_then_licence_then_text(tmp_path: Path):
    def kept(rows: list[Example], name: str, licences: dict[int, str] | None = None, **options) -> Example:
        write(tmp_path / name, rows, licences=licences)
        dedup(tmp_path / f"{name}-c", tmp_path / name, **options)
        (found,) = [e for _, _, e in Dataset.open(tmp_path / f"{name}-c").examples()]
        return found

    sources = [example("t", source=s) for s in ("one", "two", "three")]
    for source in ("one", "two", "three"):
        assert kept(sources, f"priority-{source}", priority=(source,)).source == source
    licensed = [example("t", n=n) for n in range(4)]
    assert kept(licensed, "licence", {2: "CC0-1.0", 1: "unknown"}) == licensed[2]
    assert kept([example("t"), example("t  "), example("T")], "length").text == "t  "
    assert kept(licensed, "metadata") == kept(licensed[::-1], "metadata-again")


def test_the_smaller_picture_goes_though_its_licence_is_known(tmp_path: Path):
    # Different decoders or frames aside, equal pixels have equal sizes; the rule shows where two lists have equal text only.
    rows = [example("t", png(1)), example("t", png(1, level=0))]
    write(tmp_path / "a", rows, licences={1: "CC0-1.0"})
    dedup(tmp_path / "c", tmp_path / "a")
    assert [e for _, _, e in Dataset.open(tmp_path / "c").examples()] == [rows[1]]


def test_what_is_left_out_is_written_down(tmp_path: Path):
    rows = [
        example("cat", png(1)),
        example("cat", png(1)),
        example("cat", png(1, level=0)),
        example("dog"),
        example("DOG"),
    ]
    write(tmp_path / "a", rows, licences={2: "MIT", 3: "MIT"})
    dedup(tmp_path / "c", tmp_path / "a")
    dataset = Dataset.open(tmp_path / "c")
    edges = [(e["level"], e["score"], e["kept_id"], e["removed_id"]) for e in dataset.table("edges").to_pylist()]
    ids = [row.example_id for row in rows]
    assert edges == [("pixel", 1.0, ids[2], ids[0]), ("pixel", 1.0, ids[2], ids[1]), ("text", 1.0, ids[3], ids[4])]
    assert dataset.table("edges")["evidence"].to_pylist()[0] == f"pixels:{rows[0].images[0].pixel_id}"
    excluded = [orjson.loads(line) for line in dataset.exclusions()]
    assert [(e["input"], e["position"], e["reason"]) for e in excluded] == [
        ("rows.jsonl", "1", "duplicate_pixel"), ("rows.jsonl", "2", "duplicate_pixel"), ("rows.jsonl", "5", "duplicate_text"),
    ]  # fmt: skip
    assert [ids[2] in e["detail"] for e in excluded] == [True, True, False]
    clusters = dataset.table("clusters").to_pylist()
    assert [(c["cluster"], c["example_id"], c["row"], c["kept"]) for c in clusters] == [
        (0, ids[2], 2, True), (0, ids[0], 0, False), (0, ids[1], 1, False), (1, ids[3], 3, True), (1, ids[4], 4, False),
    ]  # fmt: skip


def test_the_view_refers_to_shards_and_has_tables_of_its_rows(tmp_path: Path):
    a = write(tmp_path / "a", [example(f"a {k}", png(k), source="a") for k in range(8)], unit_rows=3)
    b = write(tmp_path / "b", [example(f"a {k}", png(k), source="b") for k in range(4, 12)], unit_rows=5, shards="tar")
    dedup(tmp_path / "c", tmp_path / "a", tmp_path / "b", priority=("b",))
    dataset = Dataset.open(tmp_path / "c")
    assert not (tmp_path / "c" / "shards").exists()
    assert len(dataset.shards) == len(a.shards) + len(b.shards) == 5
    assert texts(dataset) == sorted(f"a {k}" for k in range(12))
    assert dataset.manifest.totals["by_source"]["a"]["examples"] == 4
    assert dataset.manifest.totals["by_source"]["b"]["examples"] == 8
    assert dataset.manifest.totals["by_split"]["all"]["images"] == 12
    assert set(dataset.table("assets")["asset_id"].to_pylist()) == {
        e.images[0].asset_id for _, _, e in dataset.examples()
    }
    origins = dataset.table("provenance").to_pylist()
    assert len(origins) == 16, "an asset that came from two places keeps both"
    assert {row["source"] for row in origins if row["asset_id"] == example("a 5", png(5)).images[0].asset_id} == {
        "a",
        "b",
    }


def test_provenance_of_a_picture_that_is_gone_goes_with_it(tmp_path: Path):
    rows = [example("t", png(1)), example("t", png(1, level=0)), example("bye"), example("Bye")]
    write(tmp_path / "a", rows, licences={0: "MIT", 2: "MIT"})
    dedup(tmp_path / "c", tmp_path / "a")
    dataset = Dataset.open(tmp_path / "c")
    assert dataset.table("assets")["asset_id"].to_pylist() == [rows[0].images[0].asset_id]
    assert dataset.table("provenance")["example_id"].to_pylist() == [rows[0].example_id, rows[2].example_id]


ROWS = [
    example("hello", png(1), source="one", group="g1"),
    example("hello", png(1), source="two"),
    example("Hello", png(1, level=0), source="one"),
    example("other", png(1), source="two"),
    example("hello", source="one"),
    example("hello", source="two", note=1),
    example(None, png(2), source="one"),
    example(None, png(2), source="one"),
    example("hello", png(3), source="two", group="g2"),
    example("hello", png(3), source="two", group="g1"),
    example("", source="one"),
    example(None, source="two"),
]


@pytest.mark.parametrize("seed", range(4))
def test_neither_order_nor_grouping_into_datasets_changes_what_stays(tmp_path: Path, seed: int):
    path = tmp_path
    write(path / "a", ROWS)
    dedup(path / "ac", path / "a")
    shuffled = ROWS[:]
    random.Random(seed).shuffle(shuffled)
    cut = (0, 3, 7, 12)[seed]
    write(path / "b1", shuffled[:cut], recipe={"part": 1}, unit_rows=4)
    write(path / "b2", shuffled[cut:], recipe={"part": 2}, unit_rows=2)
    dedup(path / "bc", path / "b2", path / "b1")
    expected = content(Dataset.open(path / "ac"))
    assert content(Dataset.open(path / "bc")) == expected
    assert 0 < len(expected) < len(ROWS)


def test_workers_and_input_order_change_no_byte(tmp_path: Path):
    write(tmp_path / "a", ROWS, unit_rows=4)
    write(tmp_path / "b", [dataclasses.replace(row, group="other") for row in ROWS], unit_rows=3)
    dedup(tmp_path / "one", tmp_path / "a", tmp_path / "b")
    dedup(tmp_path / "two", tmp_path / "b", tmp_path / "a", workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    again = dedup(tmp_path / "one", tmp_path / "b", tmp_path / "a")
    assert again.unchanged
    assert again.report == dedup(None, tmp_path / "a", tmp_path / "b").report


def test_dedup_of_its_own_output_removes_nothing(tmp_path: Path):
    write(tmp_path / "a", ROWS)
    first = dedup(tmp_path / "c", tmp_path / "a")
    again = dedup(tmp_path / "d", tmp_path / "c")
    assert again.counts["read"] == again.counts["kept"] == first.counts["kept"]
    assert content(Dataset.open(tmp_path / "d")) == content(Dataset.open(tmp_path / "c"))


@pytest.mark.parametrize(
    ("levels", "kept"),
    [
        (("exact",), 9),
        (("pixel",), 8),
        (("text",), 10),
        (("exact", "pixel", "text"), 6),
        (("text", "pixel"), 6),
    ],
)
def test_a_level_removes_only_what_is_its_own(tmp_path: Path, levels: tuple[str, ...], kept: int):
    write(tmp_path / "a", ROWS)
    result = dedup(None, tmp_path / "a", levels=levels)
    assert result.counts["kept"] == kept
    assert set(result.counts["excluded_by_reason"]) <= {f"duplicate_{level}" for level in levels}


def wiped_out(path: Path, size: int) -> None:
    write(path, [example("the same", n=n, source="copies") for n in range(size)] + [example("else", source="fine")])


def test_a_source_that_would_vanish_stops_the_run_and_is_named(tmp_path: Path):
    wiped_out(tmp_path / "a", 1000)
    with pytest.raises(SourceError) as caught:
        dedup(tmp_path / "c", tmp_path / "a")
    assert caught.value.what == (
        "999 of 1000 examples of the source 'copies' would be removed (99.9%, the limit is 50.0%); nothing was written"
    )
    assert not (tmp_path / "c" / "manifest.json").exists()
    assert dedup(None, tmp_path / "a").refused == caught.value.what
    assert dedup(tmp_path / "c2", tmp_path / "a", max_removed_per_source=1.0).counts["kept"] == 2


def test_a_small_source_is_not_judged(tmp_path: Path):
    wiped_out(tmp_path / "a", 999)
    assert dedup(tmp_path / "c", tmp_path / "a").counts["kept"] == 2


def test_a_dry_run_writes_nothing(tmp_path: Path):
    write(tmp_path / "a", ROWS)
    before = files(tmp_path / "a")
    result = dedup(None, tmp_path / "a")
    assert result.to_json()["dataset"] is None
    assert result.counts["excluded"] == 6
    assert files(tmp_path / "a") == before
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_empty_dataset_passes_through(tmp_path: Path):
    write(tmp_path / "a", [])
    assert dedup(tmp_path / "c", tmp_path / "a").counts["read"] == 0
    assert list(Dataset.open(tmp_path / "c").examples()) == []


def test_settings_that_cannot_be(tmp_path: Path):
    write(tmp_path / "a", ROWS[:2])
    with pytest.raises(ConfigError) as caught:
        dedup(None, tmp_path / "a", levels=("exact", "fuzzy"))
    assert caught.value.what == "there is no level 'fuzzy'; there are exact, pixel, perceptual, text, semantic"
    assert "--level" in caught.value.hint
    with pytest.raises(ConfigError, match="named twice"):
        dedup(None, tmp_path / "a", tmp_path / "a")
    with pytest.raises(ConfigError, match="which no input has"):
        dedup(None, tmp_path / "a", priority=("nobody",))
    with pytest.raises(ConfigError, match="there is no output"):
        run(DedupConfig(inputs=(tmp_path / "a",), output=None))
    with pytest.raises(SourceError, match="no dataset is here"):
        dedup(None, tmp_path / "nothing")
