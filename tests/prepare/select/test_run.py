"""select as a whole: which examples stay, what is said of the others, and that the view is as good as its input."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError, OutputError
from shardkit.prepare.audit import run as audit
from shardkit.prepare.audit import verify
from shardkit.prepare.result import StageResult
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write
from tests.prepare.split.builders import books, split

WIDE, SMALL = png(1, side=40), png(2, side=6)


def select(source: Path, where: str, out: Path | None = None, **options) -> StageResult:
    return run(SelectConfig(input=source, output=out, where=where, dry_run=out is None, **options))


def kept(tmp_path: Path, rows: list[Example], where: str, **options) -> list[str]:
    """Texts of the examples that stay."""
    if not (tmp_path / "a").exists():
        write(tmp_path / "a", rows, **options)
    out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
    select(tmp_path / "a", where, out)
    assert not verify.run(verify.VerifyConfig(dataset=out)).problems
    return texts(Dataset.open(out))


def test_the_condition_of_the_issue(tmp_path: Path):
    english = "The cat sat on the mat and looked at the dog for a long time."
    rows = [
        example(english, WIDE, n=0),
        example(english, SMALL, n=1),
        example("Die Katze lag auf der Matte und schaute den Hund lange an.", WIDE, n=2),
        example("nothing that a model could tell", WIDE, lang="en-GB", n=3),
        example(english, WIDE, n=4),
    ]
    write(tmp_path / "a", rows, licences={0: "CC0", 1: "CC0", 2: "CC0", 3: "CC0", 4: "unknown"})
    result = select(tmp_path / "a", "width >= 32 and lang == 'en' and licence != 'unknown'", tmp_path / "b")
    assert result.counts == {
        "read": 5, "kept": 2, "excluded": 3, "excluded_by_reason": {"not_selected": 3},
    }  # fmt: skip
    assert [orjson.loads(row.metadata)["n"] for _, _, row in Dataset.open(tmp_path / "b").examples()] == [0, 3]
    assert [orjson.loads(line) for line in Dataset.open(tmp_path / "b").exclusions()] == [
        {"input": "rows.jsonl", "position": "2", "reason": "not_selected", "detail": "width >= 32 does not hold"},
        {"input": "rows.jsonl", "position": "3", "reason": "not_selected", "detail": "lang == 'en' does not hold"},
        {
            "input": "rows.jsonl",
            "position": "5",
            "reason": "not_selected",
            "detail": "licence != 'unknown' does not hold",
        },
    ]
    assert result.report == {
        "where": "width >= 32 and lang == 'en' and licence != 'unknown'",
        "conditions": [
            {"condition": "width >= 32", "false": 1, "unknown": 0},
            {"condition": "lang == 'en'", "false": 1, "unknown": 0},
            {"condition": "licence != 'unknown'", "false": 1, "unknown": 0},
        ],
        "by_source": {"test": {"read": 5, "kept": 2}},
    }
    problems = verify.run(verify.VerifyConfig(dataset=tmp_path / "b", deep=True)).problems
    assert problems == ()


def test_what_is_not_known_makes_no_condition_hold(tmp_path: Path):
    rows = [example("none"), example("low", score=0.1), example("high", score=0.9), example("text", score="0.8")]
    assert kept(tmp_path, rows, "metadata.score > 0.5") == ["high", "text"]
    assert kept(tmp_path, rows, "not score > 0.5") == ["low"]
    assert kept(tmp_path, rows, "score is null or score > 0.5") == ["high", "none", "text"]
    assert kept(tmp_path, rows, "score is null or false") == ["none"]
    assert kept(tmp_path, rows, "score == '0.8' or score == '0.1'") == ["low", "text"]
    assert kept(tmp_path, rows, "score in (0.9, 0.1)") == ["high", "low"]
    assert kept(tmp_path, rows, "score not in (0.9)") == ["low", "text"]
    assert kept(tmp_path, rows, "1 / (score - 0.1) > 1 or text == 'none'") == ["high", "none", "text"]
    result = select(tmp_path / "a", "score > 0.5 and text != 'none'")
    assert result.counts["excluded_by_reason"] == {"not_selected": 2}, "what surely does not hold comes first"
    assert select(tmp_path / "a", "score > 0.5").counts["excluded_by_reason"] == {
        "not_selected": 1, "not_selected_unknown": 1,
    }  # fmt: skip


def test_a_condition_holds_of_every_image(tmp_path: Path):
    rows = [example("wide", WIDE), example("both", WIDE, SMALL), example("small", SMALL), example("none")]
    assert kept(tmp_path, rows, "width >= 32") == ["wide"]
    assert kept(tmp_path, rows, "not width >= 32") == ["small"]
    assert kept(tmp_path, rows, "any(width >= 32)") == ["both", "wide"]
    assert kept(tmp_path, rows, "not any(width >= 32)") == ["none", "small"]
    assert kept(tmp_path, rows, "all(width >= 32)") == ["none", "wide"]
    assert kept(tmp_path, rows, "images == 0 or width >= 32") == ["none", "wide"]
    assert kept(tmp_path, rows, "any(width >= 32) and any(height < 32)") == ["both"]
    assert kept(tmp_path, rows, "any(width >= 32 and height < 32) or images == 0") == ["none"]
    assert kept(tmp_path, rows, "width == height and pixels == 1600 and aspect == 1 and size > 10") == ["wide"]
    assert kept(tmp_path, rows, "width * height in (36, 1600)") == ["both", "small", "wide"]


def test_every_column_can_be_asked_for(tmp_path: Path):
    rows = [example("a text of mine", WIDE, group="g", source="s", tags={"deep": {"er": True}})]
    write(tmp_path / "a", rows, licences={0: "CC0"}, looks=True)
    for condition in (
        "class in ('picture', 'page', 'blank')", "has_gps is null", "media_type == 'image/png'", "licence like 'CC%'",
        "word_confidence is null", "confidence is null", "text matches '^a t.xt'", "text_length == 14", "images = 1",
        "language is not null", "has_email is null and has_phone is null", "source == 's'", "group == 'g'",
        "split == 'all'", "example_id matches '^[0-9a-f]{32}$'", "input == 'rows.jsonl' and position == '1'",
        "metadata.tags.deep.er", "tags.deep.er == true", "metadata.tags is not null", "tags.'deep'.er == 'true'",
        "size > 0 and pixels > 0 and aspect > 0 and width > 0 and height > 0", "text not like '%yours%'",
    ):  # fmt: skip
        assert select(tmp_path / "a", condition).counts["kept"] == 1, condition


def test_licences_of_an_image_are_those_of_its_example(tmp_path: Path):
    rows = [example("one", WIDE), example("two", WIDE), example("three", licence="CC0"), example("four")]
    write(tmp_path / "a", rows, licences={0: "CC0", 1: "unknown"}, recipe={"licence": "MIT"})
    for condition, numbers in (
        ("licence == 'CC0'", ["one", "three"]),
        ("licence != 'unknown'", ["four", "one", "three"]),
        ("licence == 'MIT'", ["four"]),
    ):
        assert kept(tmp_path, rows, condition) == numbers, condition


def test_a_view_of_a_split_keeps_its_splits_and_passes_audit(tmp_path: Path):
    write(tmp_path / "a", books(60))
    split(tmp_path / "a", tmp_path / "s")
    select(tmp_path / "s", "source == 'even' and split != 'val'", tmp_path / "b")
    chosen = Dataset.open(tmp_path / "b")
    assert chosen.splits == ("train", "val", "test")
    assert {shard.split for shard in chosen.shards} == {"train", "val", "test"}
    assert chosen.manifest.totals["by_split"]["val"]["examples"] == 0
    assert chosen.table("ledger").num_rows == Dataset.open(tmp_path / "s").table("ledger").num_rows
    assert chosen.table("groups").num_rows == chosen.manifest.counts["kept"]
    assert audit.run(audit.AuditConfig(dataset=tmp_path / "b")).error is None


def test_selections_can_be_selected_from(tmp_path: Path):
    write(tmp_path / "a", [example(f"row {k}", n=k) for k in range(20)])
    select(tmp_path / "a", "n >= 5", tmp_path / "b")
    select(tmp_path / "b", "n < 8", tmp_path / "c")
    assert texts(Dataset.open(tmp_path / "c")) == ["row 5", "row 6", "row 7"]
    split(tmp_path / "c", tmp_path / "s", "train=0.5,test=0.5", allow_empty=True)
    assert len(texts(Dataset.open(tmp_path / "s"))) == 3


def test_the_same_condition_is_unchanged_and_another_is_refused(tmp_path: Path):
    write(tmp_path / "a", [example(f"row {k}", n=k) for k in range(4)])
    first = select(tmp_path / "a", "n>=2", tmp_path / "b")
    again = select(tmp_path / "a", "n >= 2.0", tmp_path / "b")
    assert (again.unchanged, again.dataset_id, again.counts) == (True, first.dataset_id, first.counts)
    with pytest.raises(OutputError, match="where was 'n >= 2', now 'n >= 3'"):
        select(tmp_path / "a", "n >= 3", tmp_path / "b")
    assert select(tmp_path / "a", "n >= 3", tmp_path / "b", overwrite=True).counts["kept"] == 1


def test_shards_and_workers_change_nothing(tmp_path: Path):
    rows = [example(f"row {k}", png(k, side=8 + k % 3), n=k) for k in range(12)]
    write(tmp_path / "a", rows)
    write(tmp_path / "t", rows, shards="tar", shard_size=600)
    one = select(tmp_path / "a", "width > 8 and n != 5", tmp_path / "b", workers=1)
    select(tmp_path / "t", "width > 8 and n != 5", tmp_path / "c", workers=2)
    assert one.counts["kept"] == 7
    assert texts(Dataset.open(tmp_path / "c")) == texts(Dataset.open(tmp_path / "b"))


def test_a_field_that_no_row_has_is_refused(tmp_path: Path):
    write(tmp_path / "a", [example("a", score=1), example("b", score=2)])
    with pytest.raises(ConfigError, match=r"no example has a metadata field 'scroe'; did you mean score\?"):
        select(tmp_path / "a", "metadata.scroe > 1", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_an_empty_dataset_has_nothing_to_select(tmp_path: Path):
    write(tmp_path / "a", [])
    assert select(tmp_path / "a", "width > 3", tmp_path / "b").counts["read"] == 0


def test_the_licence_that_was_stated_at_ingest_is_known_in_shards_of_later_stages(tmp_path: Path):
    """Texts without a picture have it from the recipe of their ingest, wherever their rows lie now."""
    rows = [example(f"text {k}", source="web") for k in range(20)]
    write(tmp_path / "web", rows, recipe={"source": "web", "licence": "MIT"})
    split(tmp_path / "web", tmp_path / "split", "a=0.5,b=0.5")
    for name in ("web", "split"):
        assert select(tmp_path / name, "licence == 'MIT'", tmp_path / f"{name}-mit").counts["kept"] == 20
    (tmp_path / "web").rename(tmp_path / "gone")
    assert select(tmp_path / "split", "licence is null", tmp_path / "unknown").counts["kept"] == 20
