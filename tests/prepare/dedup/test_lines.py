"""Lines taken out of texts: what is left of a text, a document, a dataset, and that every reader sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.dedup.config import DedupConfig, DedupResult
from shardkit.prepare.dedup.lines import is_empty, trimmed, without
from shardkit.prepare.dedup.run import run
from shardkit.prepare.report.explain import explain
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.records import Example, Relation, Segment, example_id
from shardkit.store import Dataset, Output
from tests.prepare.builders import example, png, write
from tests.prepare.dedup.test_boilerplate import NAVIGATION, document, site, words

IMPRINT = "Imprint and notices"


def taken(text: str, *lines: str) -> str:
    return without(text, lambda form: form in lines)[0]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("menu\nA day.\nmore", "A day.\nmore"),
        ("A day.\nMENU", "A day."),
        ("A day.\nmenu\n", "A day.\n"),
        ("A\n\nmenu\n\nB", "A\n\nB"),
        ("menu\n\nA\n\nmenu", "A"),
        ("A\nmenu\n\nB", "A\n\nB"),
        ("A\r\nmenu\r\nB\r\n", "A\r\nB\r\n"),
        ("menu", ""),
        ("\nmenu\n\n", ""),
        ("a menu\nB\n\n\nC", "a menu\nB\n\n\nC"),
        ("\u83dc\u5355\u83dc\u5355\n\u6b63\u6587", "\u6b63\u6587"),
    ],
)
def test_a_line_goes_with_the_gap_that_it_leaves(text: str, rest: str):
    assert taken(text, "menu", "\u83dc\u5355\u83dc\u5355") == rest


def test_lines_that_go_are_named_as_they_stood():
    assert without("x\n  Menu \ny\nMENU", lambda form: form == "menu")[1] == [
        (1, "  Menu ", "menu"),
        (3, "MENU", "menu"),
    ]
    assert without("ab\nx", lambda _form: True)[1] == []


def interleaved(number: int, *texts: str) -> Example:
    made = example(None, png(number), url=f"http://harbour.example/{number}")
    segments = (Segment(kind="text", text=texts[0]), *made.segments, *(Segment(kind="text", text=t) for t in texts[1:]))
    relations = (Relation(kind="interleaved", images=(0,), segments=tuple(range(len(segments)))),)
    made = replace(made, segments=segments, relations=relations)
    return replace(made, example_id=example_id(made))


def test_a_segment_without_another_line_goes_and_relations_follow():
    made = interleaved(1, NAVIGATION, f"{NAVIGATION}\nA day at sea.")
    changed, lines = trimmed(made, lambda form: "gallery" in form)
    assert [(segment.kind, segment.text) for segment in changed.segments] == [
        ("image", None),
        ("text", "A day at sea."),
    ]
    assert changed.relations == (Relation(kind="interleaved", images=(0,), segments=(0, 1)),)
    assert changed.example_id == example_id(changed) != made.example_id
    assert [(line.segment, line.number, line.text) for line in lines] == [(0, 0, NAVIGATION), (2, 0, NAVIGATION)]
    assert trimmed(made, lambda _form: False) == (made, [])


def test_a_relation_of_segments_that_are_gone_goes_too():
    made = interleaved(1, NAVIGATION, "A day at sea.")
    made = replace(made, relations=(Relation(kind="interleaved", images=(0,), segments=(0,)), *made.relations))
    changed, _ = trimmed(made, lambda form: "gallery" in form)
    assert changed.relations == (Relation(kind="interleaved", images=(0,), segments=(0, 1)),)
    assert not is_empty(changed)


# ---------------------------------------------------------------------- a dataset
def dedup(folder: Path, rows: list[Example], **options) -> tuple[DedupResult, Dataset]:
    write(folder / "a", rows, unit_rows=7)
    result = run(
        DedupConfig(inputs=(folder / "a",), output=folder / "c", boilerplate="remove", boilerplate_min=3, **options)
    )
    return result, Dataset.open(folder / "c")


def rows_of(dataset: Dataset, table: str) -> list[dict]:
    return dataset.table(table).to_pylist()


def test_repeated_lines_leave_all_documents_and_nothing_else_changes(tmp_path: Path):
    rows = [*site(9, NAVIGATION), *site(3, NAVIGATION, start=50, name="quay.example"), example("alone", png(1))]
    result, dataset = dedup(tmp_path, rows)
    kept = {one.text for _, _, one in dataset.examples()}
    assert kept == {
        *(words(number) for number in range(9)),
        *(f"{NAVIGATION}\n{words(number)}" for number in range(50, 53)),
        "alone",
    }
    assert result.counts == {"read": 13, "kept": 13, "excluded": 0, "excluded_by_reason": {}}
    assert dataset.manifest.counts["changes"] == {"lines_removed": 9}
    report = result.report["boilerplate"]
    assert (report["removed"], report["emptied"]) == (9, 0)
    # What is changed lies in a shard of the output, under a new id; what is not is where it was.
    own = [shard for shard in dataset.shards if shard.holder is dataset]
    assert [shard.num_rows for shard in own] == [9]
    before = {row.example_id for row in rows}
    examples = rows_of(dataset, "examples")
    assert {row["parent_id"] for row in examples if row["shard"] == own[0].name} == {row.example_id for row in rows[:9]}
    assert all((row["example_id"] in before) == (row["parent_id"] is None) for row in examples)
    assert {row["position"] for row in examples} == {str(number) for number in range(1, 14)}
    totals = dataset.manifest.totals["by_split"]["all"]
    assert totals["examples"] == 13
    size = Dataset.open(tmp_path / "a").manifest.totals["by_split"]["all"]["bytes"]
    assert totals["bytes"] == size - 9 * (len(NAVIGATION) + 1)


def test_which_lines_went_is_in_a_table_and_explained(tmp_path: Path):
    rows = site(4, NAVIGATION.upper())
    _, dataset = dedup(tmp_path, rows)
    lines = rows_of(dataset, "lines")
    (paragraph,) = rows_of(dataset, "paragraphs")
    assert {row["parent_id"] for row in lines} == {row.example_id for row in rows}
    assert {(row["site"], row["paragraph"], row["segment"], row["line"], row["text"]) for row in lines} == {
        ("harbour.example", paragraph["paragraph"], 0, 0, NAVIGATION.upper())
    }
    changed = next(row["example_id"] for row in lines if row["parent_id"] == rows[0].example_id)
    old, new = explain(tmp_path / "c", rows[0].example_id), explain(tmp_path / "c", changed)
    assert (old["outcome"], new["outcome"]) == ("changed", "kept")
    assert changed in old["detail"]
    assert [link["table"] for link in new["links"]] == ["lines"] == [link["table"] for link in old["links"]]


def test_a_document_of_repeated_lines_alone_is_left_out_with_its_reason(tmp_path: Path):
    rows = [*site(5, NAVIGATION, IMPRINT), example(f"{NAVIGATION}\n{IMPRINT}", url="http://harbour.example/x")]
    result, dataset = dedup(tmp_path, rows)
    assert result.counts["excluded_by_reason"] == {"only_boilerplate": 1}
    assert result.report["by_source"] == {"test": {"read": 6, "kept": 5, "exact": 0, "pixel": 0, "perceptual": 0, "text": 0, "only_boilerplate": 1}}  # fmt: skip
    assert explain(tmp_path / "c", rows[-1].example_id)["outcome"] == "only_boilerplate"
    assert sum(row["example_id"] is None for row in rows_of(dataset, "lines")) == 2
    assert verify(VerifyConfig(dataset=tmp_path / "c", deep=True)).problems == ()


def test_a_document_keeps_its_picture_where_its_text_goes(tmp_path: Path):
    rows = [*site(5, NAVIGATION, IMPRINT), interleaved(9, NAVIGATION, IMPRINT)]
    result, dataset = dedup(tmp_path, rows)
    (one,) = (row for _, _, row in dataset.examples() if row.images)
    assert (one.text, len(one.images), one.relations[0].segments) == ("", 1, (0,))
    assert result.counts["excluded"] == 0


def test_layouts_and_labels_stay_with_their_pictures(tmp_path: Path):
    made = interleaved(9, NAVIGATION, words(9))
    made = replace(made, images=(replace(made.images[0], ocr_labels=(1, 2), reading_order=(1, 0)),))
    made = replace(made, example_id=example_id(made))
    _, dataset = dedup(tmp_path, [*site(5, NAVIGATION), made])
    (one,) = (row for _, _, row in dataset.examples() if row.images)
    assert one.text == words(9)
    assert one.images == made.images


def test_the_keeper_of_a_copy_is_known_by_its_new_id(tmp_path: Path):
    rows = site(5, NAVIGATION)
    _, dataset = dedup(tmp_path, [*rows, document(0, NAVIGATION, kind="copy")])
    (edge,) = rows_of(dataset, "edges")
    kept = {row["parent_id"]: row["example_id"] for row in rows_of(dataset, "examples")}
    assert edge["kept_id"] in kept.values()
    (cluster,) = ([row for row in rows_of(dataset, "clusters") if row["kept"]],)
    assert [row["example_id"] for row in cluster] == [edge["kept_id"]]
    assert dataset.shards[cluster[0]["shard_index"]].holder is dataset
    assert (
        dataset.reader(dataset.shards[cluster[0]["shard_index"]]).example(cluster[0]["row"]).example_id
        == edge["kept_id"]
    )


def test_provenance_follows_the_new_id(tmp_path: Path):
    _, dataset = dedup(tmp_path, [*site(4, NAVIGATION), example("alone")])
    ids = {row["example_id"]: row["parent_id"] for row in rows_of(dataset, "examples")}
    provenance = rows_of(dataset, "provenance")
    assert {row["example_id"] for row in provenance} == set(ids)
    recipes = {row["derived_recipe"].split(":")[0] for row in provenance if ids[row["example_id"]]}
    assert recipes == {"dedup"}
    assert verify(VerifyConfig(dataset=tmp_path / "c", deep=True)).problems == ()


def test_neither_workers_nor_order_of_rows_decide(tmp_path: Path):
    rows = [*site(9, NAVIGATION), *site(9, NAVIGATION, "Imprint", start=50, name="quay.example"), example("x", png(1))]

    def kept(name: str, rows: list[Example], workers: int) -> tuple[set[str], str]:
        _, dataset = dedup(tmp_path / name, rows, workers=workers)
        return {one.example_id for _, _, one in dataset.examples()}, dataset.id

    one, two = kept("one", rows, 1), kept("two", rows, 3)
    assert one == two
    assert kept("other", Random(1).sample(rows, len(rows)), 2)[0] == one[0]


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path):
    write(tmp_path / "a", site(5, NAVIGATION))
    config = DedupConfig(inputs=(tmp_path / "a",), output=None, dry_run=True, boilerplate="remove", boilerplate_min=3)
    assert run(config).report["boilerplate"]["removed"] == 5
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_killed_run_goes_on_with_the_units_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = site(9, NAVIGATION)
    _, whole = dedup(tmp_path, rows)
    config = DedupConfig(
        inputs=(tmp_path / "a",), output=tmp_path / "killed", boilerplate="remove", boilerplate_min=3, workers=2
    )

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Output, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    (shard,) = (tmp_path / "killed" / "shards").rglob("*.arrow")
    before = shard.stat()
    assert run(config).dataset_id == whole.id
    assert (shard.stat().st_ino, shard.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_split_ties_what_was_equal_before_lines_went(tmp_path: Path):
    rows = [
        *(document(number, NAVIGATION, group=f"http://harbour.example/{number}") for number in range(9)),
        document(0, NAVIGATION, kind="copy", group="http://harbour.example/other"),
        example("of the other", group="http://harbour.example/other"),
    ]
    _, dataset = dedup(tmp_path, rows)
    assert dataset.manifest.counts["excluded"] == 1
    split(SplitConfig(input=tmp_path / "c", output=tmp_path / "s", ratios=parse_ratios("a=0.5,b=0.5")))
    table = Dataset.open(tmp_path / "s").table("groups").to_pylist()
    component = {row["example_id"]: row["component"] for row in table}
    texts = {one.text: one.example_id for _, _, one in dataset.examples()}
    assert component[texts[words(0)]] == component[texts["of the other"]] != component[texts[words(1)]]


def test_a_dataset_whose_rows_do_not_lie_in_their_order_is_deduplicated_like_any(tmp_path: Path):
    rows = [*site(9, NAVIGATION), *(example(f"{words(number)} more", source="other") for number in range(9))]
    write(tmp_path / "a", rows, unit_rows=7)
    config = DedupConfig(
        inputs=(tmp_path / "a",), output=tmp_path / "c", levels=("exact",), boilerplate="remove", boilerplate_min=3
    )
    assert run(config).counts["kept"] == 18
    order = Dataset.open(tmp_path / "c").table("examples")["shard_index"].to_pylist()
    assert order != sorted(order)
    result = run(DedupConfig(inputs=(tmp_path / "c",), output=tmp_path / "d", priority=("test",), workers=2))
    assert result.counts["excluded_by_reason"] == {"duplicate_near_text": 9}
    left = {one.text.removesuffix(" more") for _, _, one in Dataset.open(tmp_path / "d").examples()}
    assert left == {words(number) for number in range(9)}
