"""What was made from other examples stays with them, and says so where they are nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.audit.run import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run as concat
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run as select
from shardkit.prepare.shrink.config import ShrinkConfig
from shardkit.prepare.shrink.run import run as shrink
from shardkit.records import Example, Relation, Tally, example_id
from shardkit.store import Dataset, Output, Sealed
from tests.prepare.builders import example, png, write
from tests.prepare.split.builders import books, places, split


def derive(path: Path, rows: Sequence[Example], parents: Mapping[int, str], *, stage: str = "ingest") -> None:
    """Commit rows, some with a parent_id."""
    with (
        Output(path, stage=stage, recipe={"made": "by hand"}) as output,
        output.unit(0, "u", shards="arrow", shard_size=10**6) as unit,
    ):
        for k, row in enumerate(rows):
            assets = [{"asset_id": one.asset_id, "frame": one.frame, "pixel_id": one.pixel_id} for one in row.images]
            unit.add(row, input="rows.jsonl", position=str(k + 1), parent_id=parents.get(k), assets=assets)
        unit.finish()
        output.commit(Sealed(tally=Tally(read=len(rows), kept=len(rows))))


def crops(of: Sequence[Example]) -> tuple[list[Example], dict[int, str]]:
    rows = [example(f"a part of {k}", png(k + 500), cut=k) for k in range(len(of))]
    return rows, {k: parent.example_id for k, parent in enumerate(of)}


def test_what_was_made_follows_the_split_of_what_it_was_made_from(tmp_path: Path):
    pages = books(60)
    write(tmp_path / "pages", pages)
    split(tmp_path / "pages", tmp_path / "s")
    where = places(tmp_path / "s")
    derive(tmp_path / "crops", *crops(pages))
    result = split(tmp_path / "crops", tmp_path / "t", None, like=tmp_path / "s")
    assert places(tmp_path / "t") == {f"a part of {k}": where[page.text] for k, page in enumerate(pages)}
    assert result.report["groups"]["with_parent"] == 180
    assert audit(AuditConfig(dataset=tmp_path / "t")).error is None


def test_parents_that_are_not_split_tie_what_was_made_from_them(tmp_path: Path):
    pages = books(60)
    write(tmp_path / "pages", pages)
    derive(tmp_path / "crops", *crops(pages))
    result = split(tmp_path / "crops", tmp_path / "t", parents=(tmp_path / "pages",))
    assert result.report["groups"]["components"] == 60
    where = places(tmp_path / "t")
    assert all(len({where[f"a part of {3 * b + p}"] for p in range(3)}) == 1 for b in range(60))
    assert len(Dataset.open(tmp_path / "t").recipe["parents"]) == 1


def test_where_lineage_is_missing_the_run_stops_and_says_what_to_name(tmp_path: Path):
    pages = books(20)
    write(tmp_path / "pages", pages[3:])
    derive(tmp_path / "crops", *crops(pages))
    with pytest.raises(SourceError) as caught:
        split(tmp_path / "crops", tmp_path / "t")
    assert caught.value.what.startswith(
        "60 of 60 examples were made from others that are nowhere, so their groups are not known; the first is "
    )
    assert "(rows.jsonl:1)" in caught.value.what
    assert "--parents" in caught.value.hint
    assert "--like" in caught.value.hint
    with pytest.raises(SourceError, match="3 of 60 examples were made from others"):
        split(tmp_path / "crops", tmp_path / "t", parents=(tmp_path / "pages",))
    result = split(tmp_path / "crops", None, parents=(tmp_path / "pages",), on_missing_parent="own")
    assert result.report["groups"]["orphans"] == 3
    assert any("parent is nowhere" in note for note in result.report["notes"])


def test_a_declared_group_says_as_much_as_a_parent(tmp_path: Path):
    rows = [example(f"part {k}", group=f"g{k % 30}") for k in range(60)]
    derive(tmp_path / "a", rows, dict.fromkeys(range(60), "ab" * 16))
    assert split(tmp_path / "a", None, allow_empty=True).report["groups"]["orphans"] == 0


def test_what_dedup_changed_is_the_row_itself(tmp_path: Path):
    rows = [example(f"part {k}") for k in range(60)]
    derive(tmp_path / "a", rows, dict.fromkeys(range(30), "ab" * 16))
    with pytest.raises(SourceError, match="30 of 60 examples"):
        split(tmp_path / "a", None)
    with Output(tmp_path / "d", stage="dedup", recipe=_DEDUP) as output:
        with output.unit(0, "u", shards="arrow", shard_size=10**6) as unit:
            for k, row in enumerate(rows):
                unit.add(row, input="x", position=str(k), parent_id=f"{k:032x}" if k < 30 else None)
            unit.finish()
        output.commit(Sealed(tally=Tally(read=60, kept=60)))
    assert split(tmp_path / "d", None).report["groups"]["orphans"] == 0


_DEDUP = {"levels": {"exact": [1]}, "preset": "web", "thresholds": {}, "transforms": []}


def test_a_field_of_the_metadata_may_name_parents(tmp_path: Path):
    pages = books(60)
    write(tmp_path / "pages", pages)
    split(tmp_path / "pages", tmp_path / "s")
    where = places(tmp_path / "s")
    asked = [example(f"question {k}", of=page.example_id) for k, page in enumerate(pages)]
    asked.append(example("across", of=[pages[0].example_id, pages[1].example_id]))
    write(tmp_path / "questions", asked)
    split(tmp_path / "questions", tmp_path / "t", None, like=tmp_path / "s", parent_field="of")
    found = places(tmp_path / "t")
    assert {k: found[f"question {k}"] for k in range(180)} == {k: where[page.text] for k, page in enumerate(pages)}
    assert found["across"] == where[pages[0].text]
    write(tmp_path / "more", [*asked, example("alone"), example("wrong", of="page 7"), example("null", of=None)])
    with pytest.raises(SourceError, match="3 of 184 examples were made from others that are nowhere"):
        split(tmp_path / "more", None, None, like=tmp_path / "s", parent_field="of")


def test_parents_beside_what_was_made_from_them_need_none(tmp_path: Path):
    pages = books(60)
    asked = [example(f"question {k}", of=page.example_id) for k, page in enumerate(pages)]
    alone = [example(f"page {k}") for k in range(40)]
    about = [example(f"about {k}", of=page.example_id) for k, page in enumerate(alone)]
    write(tmp_path / "a", [*pages, *asked, *alone, *about])
    result = split(tmp_path / "a", tmp_path / "s", parent_field="of")
    assert result.report["groups"]["components"] == 100
    where = places(tmp_path / "s")
    assert all(where[f"question {k}"] == where[page.text] for k, page in enumerate(pages))


def test_a_split_is_followed_with_like(tmp_path: Path):
    write(tmp_path / "pages", books(30))
    split(tmp_path / "pages", tmp_path / "s")
    derive(tmp_path / "crops", *crops(books(30)))
    with pytest.raises(ConfigError) as caught:
        split(tmp_path / "crops", None, parents=(tmp_path / "s",))
    assert caught.value.what == "--parents names a dataset that is split"
    assert "--like" in caught.value.hint


def test_removed_duplicates_tie_what_was_made_smaller_since(tmp_path: Path) -> None:
    """a of one book is kept, its copy in another book removed, c of that book kept: a and c stay together."""
    rows = []
    for k in range(40):
        rows += [
            example(f"page {k}", png(k, side=40), group=f"a{k}"),
            example(f"page {k}", png(k, side=40), group=f"b{k}"),
            example(f"other page {k}", png(100 + k, side=40), group=f"b{k}"),
        ]
    write(tmp_path / "set", rows, looks=True)
    dedup(DedupConfig(inputs=(tmp_path / "set",), output=tmp_path / "clean", levels=("exact",)))
    shrink(ShrinkConfig(input=tmp_path / "clean", output=tmp_path / "small", max_side=20))
    select(SelectConfig(input=tmp_path / "small", output=tmp_path / "some", where="width > 1"))
    given = {"ratios": "train=0.5,test=0.5", "edges": "exact"}
    for name in ("clean", "small", "some"):
        split(tmp_path / name, tmp_path / f"{name}-split", **given)
        sides = places(tmp_path / f"{name}-split")
        assert set(sides.values()) == {"train", "test"}
        assert [k for k in range(40) if sides[f"page {k}"] != sides[f"other page {k}"]] == []
    (tmp_path / "clean").rename(tmp_path / "moved")
    with pytest.raises(SourceError, match="the input was shrunk after a dedup, whose removed duplicates tie") as error:
        split(tmp_path / "small", tmp_path / "lost", **given)
    assert "--base DIR" in error.value.hint
    split(tmp_path / "small", tmp_path / "alone", **given, on_missing_parent="own")
    sides = places(tmp_path / "alone")
    assert [k for k in range(40) if sides[f"page {k}"] != sides[f"other page {k}"]] != []
    split(tmp_path / "small", tmp_path / "found", **given, bases=(tmp_path,))
    assert places(tmp_path / "found") == places(tmp_path / "small-split")


@pytest.mark.parametrize("way", ["dedup", "concat", "concat, dedup", "shrink, concat", "shrink, dedup"])
def test_removed_duplicates_tie_what_they_resemble_through_stages_that_join(tmp_path: Path, way: str) -> None:
    """A page of one book is kept, its copy in another book removed: the rest of that book stays with it."""
    rows = []
    for k in range(10):
        rows += [
            example(f"page {k}", png(k), group=f"a{k}"),
            example(f"page {k}", png(k), group=f"b{k}"),
            example(f"rest {k}", png(k + 100), group=f"b{k}"),
        ]
    write(tmp_path / "books", rows)
    write(tmp_path / "more", [example(f"more {k}", png(k + 200)) for k in range(10)])
    exact = {"levels": ("exact",)}
    dedup(DedupConfig(inputs=(tmp_path / "books",), output=tmp_path / "clean", **exact))
    inputs = (tmp_path / "clean", tmp_path / "more")
    if way.startswith("shrink"):
        shrink(ShrinkConfig(input=tmp_path / "clean", output=tmp_path / "small", max_side=4))
        inputs = (tmp_path / "small", tmp_path / "more")
    if "concat" in way:
        concat(ConcatConfig(inputs=inputs, output=tmp_path / "joined"))
        inputs = (tmp_path / "joined",)
    if way.endswith("dedup"):
        dedup(DedupConfig(inputs=inputs, output=tmp_path / "joined2", **exact))
        inputs = (tmp_path / "joined2",)
    if not way.startswith("shrink"):
        clusters = Dataset.open(inputs[0]).table("clusters").to_pylist()
        assert sorted(row["kept"] for row in clusters) == [False] * 10 + [True] * 10
        assert len({row["cluster"] for row in clusters}) == 10
    split(inputs[0], tmp_path / "s", "train=0.5,test=0.5")
    where = places(tmp_path / "s")
    assert [k for k in range(10) if where[f"page {k}"] != where[f"rest {k}"]] == []


def test_a_second_dedup_calls_rows_by_the_ids_that_they_have_now(tmp_path: Path) -> None:
    menu = "read our news\nwrite to us here"
    rows = [
        replace(
            example(f"{menu}\n{text}", group=f"https://a.example/{k % 16}"), relations=(Relation(kind="interleaved"),)
        )
        for k, text in enumerate(["twice", "twice", *(f"page {k}" for k in range(30))])
    ]
    write(tmp_path / "a", [replace(row, example_id=example_id(row)) for row in rows])
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "b", levels=("text",)))
    dedup(DedupConfig(inputs=(tmp_path / "b",), output=tmp_path / "c", levels=("text",), boilerplate="remove"))
    after = Dataset.open(tmp_path / "c")
    kept = [row for _, _, row in after.examples() if row.text == "twice"]
    assert [edge["kept_id"] for edge in after.table("edges").to_pylist()] == [kept[0].example_id]
    assert [row["kept"] for row in after.table("clusters").to_pylist()] == [False]
    result = split(tmp_path / "c", None, "train=0.5,test=0.5")
    assert result.report["groups"]["components"] == 15, "of 16 addresses two had the text"
