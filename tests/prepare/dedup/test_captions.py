"""Captions of examples that go: to whom they move, and what stays where it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from pathlib import Path

from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.dedup.captions import captions_of, missing, takes, with_captions
from shardkit.prepare.dedup.config import DedupConfig, DedupResult
from shardkit.prepare.dedup.run import run
from shardkit.prepare.report.explain import explain
from shardkit.records import Example, Relation, Segment, example_id
from shardkit.sequence.recipes.captions import alternatives
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write
from tests.prepare.dedup.test_boilerplate import words


def captioned(*texts: str, number: int = 1, annotator: str | None = None, kind: str = "caption") -> Example:
    made = example(None, png(number))
    segments = (*made.segments, *(Segment(kind="text", text=text) for text in texts))
    relations = tuple(
        Relation(kind=kind, images=(0,), segments=(place,), annotator=annotator) for place in range(1, len(segments))
    )
    made = replace(made, segments=segments, relations=relations)
    return replace(made, example_id=example_id(made))


def test_a_caption_is_added_where_its_text_is_new():
    keeper, removed = captioned("A boat."), captioned("a  BOAT.", "A red boat.", annotator="tool")
    (caption,) = missing(keeper, [removed])
    changed = with_captions(keeper, [caption])
    assert [segment.text for segment in changed.segments] == [None, "A boat.", "A red boat."]
    assert changed.relations == (
        Relation(kind="caption", images=(0,), segments=(1,)),
        Relation(kind="caption", images=(0,), segments=(2,), annotator="tool"),
    )
    assert changed.example_id == example_id(changed)


def test_the_order_of_what_goes_does_not_decide():
    keeper = captioned("A boat.")
    removed = [captioned("A red boat."), captioned("a red BOAT.", annotator="tool"), captioned("Blue boat.", "A boat.")]
    found = {tuple(caption.text for caption in missing(keeper, order)) for order in permutations(removed)}
    assert found == {("A red boat.", "Blue boat.")}


def test_a_relation_of_everything_is_named_before_another_comes():
    made = example("A boat.", png(1))
    changed = with_captions(made, missing(made, [captioned("A red boat.")]))
    assert changed.relations[0] == Relation(kind="caption", images=(0,), segments=(1,))
    assert alternatives(changed, "all") == [[[0, 1], [0, 2]]]


def test_only_captions_move_and_only_to_captions():
    page, photo = captioned("A page.", kind="ocr"), captioned("A photo.")
    assert captions_of(page) == []
    assert not takes(page, photo)
    assert takes(photo, page)
    assert not takes(photo, example("two", png(1), png(2)))
    assert captions_of(replace(photo, segments=(photo.segments[0], Segment(kind="text", text="x", role="user")))) == []


# ---------------------------------------------------------------------- a dataset
TEXT = words(1)
NEAR = TEXT.rsplit(maxsplit=1)[0] + " otherwise"


def dedup(folder: Path, rows: list[Example], **options) -> tuple[DedupResult, Dataset]:
    write(folder / "a", rows)
    result = run(DedupConfig(inputs=(folder / "a",), output=folder / "c", **options))
    return result, Dataset.open(folder / "c")


def test_captions_are_dropped_or_moved(tmp_path: Path):
    rows = [captioned(TEXT), captioned(NEAR), captioned("Something else.", number=2)]
    result, dataset = dedup(tmp_path / "drop", rows)
    assert result.counts["excluded_by_reason"] == {"duplicate_near_text": 1}
    assert result.report["relations"] == {"moved": 0, "examples": 0, "left_out": 0}
    assert not any(shard.holder is dataset for shard in dataset.shards)

    result, dataset = dedup(tmp_path / "move", rows, relations="move")
    assert result.counts == {
        "read": 3, "kept": 2, "excluded": 1, "excluded_by_reason": {"duplicate_near_text": 1},
    }  # fmt: skip
    assert result.report["relations"] == {"moved": 1, "examples": 1, "left_out": 0}
    assert dataset.manifest.counts["changes"] == {"captions_moved": 1}
    (changed,) = (one for _, _, one in dataset.examples() if len(one.relations) == 2)
    assert {segment.text for segment in changed.segments if segment.text} == {TEXT, NEAR}
    (moved,) = dataset.table("moved").to_pylist()
    assert (moved["example_id"], moved["text"]) == (changed.example_id, changed.segments[2].text)
    assert {moved["parent_id"], moved["from_id"]} == {rows[0].example_id, rows[1].example_id}
    assert moved["source"] == "test"
    (edge,) = dataset.table("edges").to_pylist()
    assert (edge["kept_id"], edge["removed_id"]) == (moved["example_id"], moved["from_id"])
    assert verify(VerifyConfig(dataset=tmp_path / "move" / "c", deep=True)).problems == ()
    gone = explain(tmp_path / "move" / "c", moved["from_id"])
    assert gone["outcome"] == "duplicate_near_text"
    assert changed.example_id in gone["detail"]
    assert {link["table"] for link in gone["links"]} == {"edges", "moved"}


def test_the_result_is_that_of_any_order_and_of_any_workers(tmp_path: Path):
    rows = [captioned(TEXT), captioned(NEAR), captioned(NEAR.upper()), captioned(TEXT + " again")]
    ids = set()
    for number, order in enumerate(permutations(rows)):
        if number % 6 == 0:
            _, dataset = dedup(tmp_path / str(number), list(order), relations="move", workers=1 + number % 4)
            ids.add(tuple(sorted(one.example_id for _, _, one in dataset.examples())))
    assert len(ids) == 1


def test_a_reference_is_not_changed(tmp_path: Path):
    write(tmp_path / "old", [captioned(TEXT)])
    result, dataset = dedup(
        tmp_path, [captioned(NEAR), captioned("x", number=3)], relations="move", references=(tmp_path / "old",)
    )
    assert result.counts["kept"] == 1
    assert result.report["relations"]["moved"] == 0
    assert dataset.table("moved").num_rows == 0
