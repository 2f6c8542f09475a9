"""Near duplicates through the whole of dedup: what goes, what stays, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.config import DedupConfig, DedupResult
from shardkit.prepare.dedup.near import agrees
from shardkit.prepare.dedup.run import run
from shardkit.prepare.dedup.signatures import SHORT
from shardkit.prepare.report.explain import explain
from shardkit.store import Dataset
from tests.prepare.builders import example, texts, write
from tests.prepare.dedup.pictures import WORDS, page, photo


def dedup(out: Path | None, *inputs: Path, **options) -> DedupResult:
    return run(DedupConfig(inputs=inputs, output=out, dry_run=out is None, **options))


def edges(path: Path) -> list[dict]:
    return Dataset.open(path).table("edges").to_pylist()


def test_a_text_with_one_word_changed_goes_and_short_ones_stay(tmp_path: Path):
    other = WORDS.replace("noon", "dusk")
    write(tmp_path / "a", [example(WORDS), example(other), example("a cat sat"), example("a cat sits")], looks=True)
    result = dedup(tmp_path / "c", tmp_path / "a")
    assert result.counts["excluded_by_reason"] == {"duplicate_near_text": 1}
    (edge,) = edges(tmp_path / "c")
    # 36 of 32 + 5 + 5 shingles of five words are shared: one word stands in five of them.
    assert edge["level"] == "text"
    assert 0.75 <= edge["score"] < 0.8
    assert edge["evidence"].startswith("Jaccard 0.7")


def test_many_copies_of_one_text_leave_one(tmp_path: Path):
    write(tmp_path / "a", [example(f"{WORDS} by {name}") for name in "abcdefghijklmnopqrstuvwxyz"], looks=True)
    assert dedup(tmp_path / "c", tmp_path / "a").counts["kept"] == 1


def test_a_text_goes_where_a_scan_says_nearly_the_same(tmp_path: Path):
    scan = example(WORDS.replace("casks", "cosks"), page("1"))
    write(tmp_path / "a", [example(WORDS), scan], looks=True)
    dedup(tmp_path / "c", tmp_path / "a")
    assert texts(Dataset.open(tmp_path / "c")) == [scan.text]


def test_a_picture_saved_again_goes_with_the_same_text_and_is_tied_with_another(tmp_path: Path):
    rows = [
        example("a dog", photo(1)),
        example("a dog", photo(1, quality=60)),
        example("a hound", photo(1, quality=80)),
    ]
    write(tmp_path / "a", [*rows, example("a dog", photo(2))], looks=True)
    result = dedup(tmp_path / "c", tmp_path / "a")
    assert result.counts["excluded_by_reason"] == {"duplicate_perceptual": 1}
    # The larger picture stays.
    found = {edge["level"]: edge for edge in edges(tmp_path / "c")}
    assert found["perceptual"]["kept_id"] == rows[0].example_id
    assert found["perceptual"]["removed_id"] == rows[1].example_id
    assert {found["image"]["kept_id"], found["image"]["removed_id"]} == {rows[0].example_id, rows[2].example_id}


def test_pages_of_one_template_go_only_where_the_numbers_are_the_same(tmp_path: Path):
    rows = [
        example(f"{WORDS} total 1200", page("1200")),
        example(f"{WORDS} total 1300", page("1300")),
        example(f"{WORDS.replace('casks', 'cosks')} total 1200", page("1200", noise=7)),
    ]
    write(tmp_path / "a", rows, looks=True)
    result = dedup(tmp_path / "c", tmp_path / "a")
    assert result.counts["excluded_by_reason"] == {"duplicate_perceptual": 1}
    kept = {row.text for _, _, row in Dataset.open(tmp_path / "c").examples()}
    assert rows[1].text in kept


def test_a_short_text_agrees_with_its_equal_only():
    for size in range(1, SHORT + 1):
        text = "w" * size
        assert not any(agrees(text, other) for other in (text[:-1] + "v", text[:-1], text + "v", text + "vv"))
    assert agrees("w" * (SHORT + 1), "w" * (SHORT + 2)), "a longer one may differ"


def test_pages_without_text_stay_for_review(tmp_path: Path):
    write(tmp_path / "a", [example(None, page("1")), example(None, page("1", noise=7))], looks=True)
    assert dedup(tmp_path / "c", tmp_path / "a").counts["kept"] == 2
    (pair,) = Dataset.open(tmp_path / "c").table("near").to_pylist()
    assert pair["outcome"] == "review"


def test_a_reference_loses_nothing_and_is_no_part_of_the_output(tmp_path: Path):
    old = write(tmp_path / "old", [example(WORDS), example("kept in old"), example("kept in old")], looks=True)
    write(
        tmp_path / "new",
        [example(WORDS.replace("noon", "dusk")), example("only in new"), example("kept in old")],
        looks=True,
    )
    del old
    result = dedup(tmp_path / "c", tmp_path / "new", references=(tmp_path / "old",))
    assert result.counts["read"] == 3
    assert texts(Dataset.open(tmp_path / "c")) == ["only in new"]
    assert result.counts["excluded_by_reason"] == {"duplicate_text": 1, "duplicate_near_text": 1}


def test_what_references_have_in_common_is_not_reported(tmp_path: Path):
    write(
        tmp_path / "old",
        [*(example(f"{text} text", photo(1)) for text in ("one", "other")), example(None, page("1")),
         example(None, page("1", noise=7))],
        looks=True,
    )  # fmt: skip
    write(tmp_path / "new", [example("new", photo(3))], looks=True)
    result = dedup(tmp_path / "c", tmp_path / "new", references=(tmp_path / "old",))
    assert result.report["same_images_other_text"] == {"images": 0, "examples": 0}
    dataset = Dataset.open(tmp_path / "c")
    assert dataset.table("edges").num_rows == dataset.table("near").num_rows == 0
    write(tmp_path / "third", [example("third text", photo(1))], looks=True)
    result = dedup(tmp_path / "d", tmp_path / "third", references=(tmp_path / "old",))
    assert result.report["same_images_other_text"] == {"images": 1, "examples": 1}


def test_another_threshold_is_read_off_the_stored_scores(tmp_path: Path):
    write(tmp_path / "a", [example(WORDS), example(WORDS.replace("noon", "dusk"))], looks=True)
    assert dedup(tmp_path / "c", tmp_path / "a").counts["kept"] == 1
    assert dedup(None, tmp_path / "a", thresholds={"text": 0.9}).counts["kept"] == 2
    table = Dataset.open(tmp_path / "c").table("retention").to_pylist()
    kept = {r["threshold"]: r["kept"] for r in table if (r["level"], r["dimension"]) == ("text", "all")}
    assert len(kept) == 7
    assert (kept[0.75], kept[0.9]) == (1, 2)
    assert {row["value"] for row in table if row["dimension"] == "language"} == {"en"}
    with pytest.raises(ConfigError) as caught:
        dedup(None, tmp_path / "a", thresholds={"text": 0.2})
    assert caught.value.what == "the threshold 0.2 of level text is not between 0.5 and 1"


def test_explain_says_why_an_example_went_and_for_which(tmp_path: Path):
    rows = [example(WORDS), example(WORDS.replace("noon", "dusk"))]
    write(tmp_path / "a", rows, looks=True)
    dedup(tmp_path / "c", tmp_path / "a")
    gone = edges(tmp_path / "c")[0]["removed_id"]
    answer = explain(tmp_path / "c", gone[:12])
    assert (answer["example_id"], answer["outcome"]) == (gone, "duplicate_near_text")
    assert [link["kept_id"] for link in answer["links"]] == [row.example_id for row in rows if row.example_id != gone]
    assert explain(tmp_path / "a", gone)["outcome"] == "kept"
    with pytest.raises(ConfigError):
        explain(tmp_path / "c", "0123456789")


def test_workers_decide_nothing(tmp_path: Path):
    rows = [example(f"{WORDS} {k // 3}", photo(k // 2, quality=60 + k)) for k in range(12)]
    write(tmp_path / "a", [*rows, *(example(f"{WORDS} {k}") for k in range(12))], looks=True)
    ids = {dedup(tmp_path / f"c{n}", tmp_path / "a", workers=n).dataset_id for n in (1, 2)}
    assert len(ids) == 1


def test_near_texts_with_pictures_that_only_nearly_look_alike_stay(tmp_path: Path):
    """A pair of lists under the threshold is stored for reports; it removes nothing, whatever the text."""
    rows = [example(WORDS, photo(1)), example(WORDS.replace("noon", "dusk"), photo(1, quality=60))]
    write(tmp_path / "a", rows, looks=True)
    assert dedup(None, tmp_path / "a").counts["excluded_by_reason"] == {"duplicate_near_text": 1}
    assert dedup(None, tmp_path / "a", thresholds={"perceptual": 1.0}).counts["kept"] == 2


def test_equality_levels_read_no_table_of_images(tmp_path: Path):
    write(tmp_path / "a", [example("a", photo(1)), example("a", photo(1))])
    result = dedup(tmp_path / "c", tmp_path / "a", levels=("exact", "pixel"))
    assert result.counts["excluded_by_reason"] == {"duplicate_exact": 1}
    assert Dataset.open(tmp_path / "c").table("retention").num_rows == 0
