"""split as a whole: nothing shared, nothing lost, nothing moved, the same bytes every time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest

from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.prepare.audit.run import AuditConfig
from shardkit.prepare.audit.run import run as audit
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.split.plan import Plan
from shardkit.prepare.split.write import write_unit
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write
from tests.prepare.split.builders import assert_whole, books, files, listed, places, split


@pytest.mark.parametrize("count", [40, 300])
def test_books_stay_whole_and_the_shares_are_near(tmp_path: Path, count: int):
    write(tmp_path / "a", books(count))
    result = split(tmp_path / "a", tmp_path / "s")
    rows = assert_whole(tmp_path / "s", lambda e: e.group)
    assert texts(Dataset.open(tmp_path / "s")) == sorted(e.text for e in books(count))
    assert result.report["method"] == ("greedy" if count < 200 else "hash")
    assert {name: s["examples"] for name, s in result.report["splits"].items()} == rows
    for name, asked in (("train", 0.8), ("val", 0.1), ("test", 0.1)):
        assert abs(rows[name] / (3 * count) - asked) < 0.06
    assert result.counts == {"read": 3 * count, "kept": 3 * count, "excluded": 0, "excluded_by_reason": {}}


@pytest.mark.parametrize(
    ("group_by", "key"),
    [
        ("book", lambda e: orjson.loads(e.metadata)["book"]),
        ("@source", lambda e: e.source),
        ("@path:book ([0-9])", lambda e: e.text.split()[1][0]),
        ("@path", lambda e: e.text.split()[1]),
        ("@domain", lambda e: orjson.loads(e.metadata)["url"].split("/")[2].split(".", 1)[1]),
    ],
)
def test_the_key_that_is_named_holds_rows_together(tmp_path: Path, group_by: str, key):
    rows = [
        example(f"book {b} page {p}", source=f"s{b % 15}", book=f"b{b % 11}", url=f"https://w{p}.site{b % 9}.example.com/{p}".replace("example.com", "co.uk"))
        for b in range(30)
        for p in range(3)
    ]  # fmt: skip
    write(tmp_path / "a", rows, inputs=[f"in/book {b}.png" for b in range(30) for _ in range(3)])
    result = split(tmp_path / "a", tmp_path / "s", group_by=group_by, allow_empty=True)
    counts = assert_whole(tmp_path / "s", key)
    assert len(counts) >= 2
    assert result.report["groups"]["declared"] == len({key(row) for row in rows})


def test_the_declared_key_stands_in_the_group_column_and_nothing_that_was_not_held(tmp_path: Path):
    rows = [example(f"t {k}", png(k), group="old", book=f"b{k % 5}" if k < 15 else None) for k in range(20)]
    write(tmp_path / "a", rows)
    split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5", group_by="book")
    dataset = Dataset.open(tmp_path / "s")
    for _, _, made in dataset.examples():
        book = orjson.loads(made.metadata)["book"]
        assert made.group == book
    assert audit(AuditConfig(dataset=tmp_path / "s")).error is None
    split(tmp_path / "a", tmp_path / "t", "train=0.5,test=0.5", allow_empty=True)
    assert {made.group for _, _, made in Dataset.open(tmp_path / "t").examples()} == {"old"}
    facts = dataset.table("groups").to_pylist()
    assert Counter(f["declared"] for f in facts) == {None: 5, **{f"b{k}": 3 for k in range(5)}}
    assert dataset.table("groups")["example_id"].to_pylist() == dataset.table("examples")["example_id"].to_pylist()


def test_rows_without_a_key_stand_alone_or_stop_the_run(tmp_path: Path):
    values = [None, "", "  "] * 8
    rows = [example(f"alone {k}", site=v) for k, v in enumerate(values)] + [
        example(f"t {k}", site=f"s{k % 9}") for k in range(36)
    ]
    write(tmp_path / "a", rows)
    result = split(tmp_path / "a", tmp_path / "s", group_by="site")
    assert_whole(tmp_path / "s", lambda e: (orjson.loads(e.metadata)["site"] or "").strip() or None)
    alone = Counter(where for text, where in places(tmp_path / "s").items() if text.startswith("alone"))
    assert len(alone) > 1
    assert result.report["groups"]["without_key"] == 24
    with pytest.raises(SourceError, match="24 of 60 examples have no group"):
        split(tmp_path / "a", tmp_path / "f", group_by="site", on_missing_group="fail")
    with pytest.raises(ConfigError, match="no example has a metadata field 'nothing'"):
        split(tmp_path / "a", tmp_path / "f", group_by="nothing")
    assert not (tmp_path / "f" / "manifest.json").exists()


@pytest.mark.parametrize(
    "pair",
    [
        (example("left", png(900)), example("right", png(900))),
        (example("left", png(900)), example("right", png(900, level=0))),
        (example("left", png(900, note="here")), example("right", png(900, note="there"))),
        (example("one text"), example("One  TEXT")),
        (example("one text", png(900)), example("one text", png(901))),
        (example("left", png(900), png(901)), example("right", png(902), png(900))),
    ],
    ids=["asset", "pixel", "stored", "text", "caption", "one of several images"],
)
def test_what_two_groups_share_joins_them(tmp_path: Path, pair: tuple[Example, Example]):
    rows = books(150)
    for row, name in zip(pair, ("book 3", "book 77"), strict=True):
        object.__setattr__(row, "group", name)
    write(tmp_path / "a", [*rows, *pair])
    apart = {}
    for salt in range(6):
        result = split(tmp_path / "a", None, salt=str(salt))
        assert result.report["groups"]["joined"] == 1
        assert result.report["groups"]["components"] == 149
    write(tmp_path / "b", rows)
    for salt in range(6):
        split(tmp_path / "b", tmp_path / f"b{salt}", salt=str(salt))
        where = places(tmp_path / f"b{salt}")
        apart[salt] = where["book 3 page 0"] != where["book 77 page 0"]
    assert any(apart.values()), "without the shared value no salt would have parted them"


def test_a_removed_duplicate_still_ties_its_group(tmp_path: Path):
    rows = books(30)
    copy = example("book 20 page 0", group="book 5", source="odd", n=1)
    write(tmp_path / "a", [*rows, copy])
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    assert Dataset.open(tmp_path / "c").manifest.counts["excluded"] == 1
    result = split(tmp_path / "c", tmp_path / "s")
    assert result.report["groups"]["joined"] == 1
    where = places(tmp_path / "s")
    assert where["book 5 page 1"] == where["book 20 page 1"]
    by_path = split(tmp_path / "c", None, group_by="@path:rows(.*)", allow_empty=True)
    assert by_path.report["groups"]["declared"] == 1, "a removed row finds its path in the dataset that holds its shard"


def test_a_parent_ties_what_was_made_from_it(tmp_path: Path):
    from shardkit.records import Tally
    from shardkit.store import Output, Sealed

    parent = example("parent")
    children = [example(f"child {k}", group=f"c{k}") for k in range(2)]
    orphans = [example(f"orphan {k}", group=f"o{k}") for k in range(2)]
    with (
        Output(tmp_path / "a", stage="ingest", recipe={}) as output,
        output.unit(0, "u", shards="arrow", shard_size=10**6) as unit,
    ):
        for k, row in enumerate([parent, *children, *orphans]):
            of = None if row is parent else parent.example_id if row in children else "ab" * 16
            unit.add(row, input="x", position=str(k), parent_id=of)
        unit.finish()
        output.commit(Sealed(tally=Tally(read=5, kept=5)))
    result = split(tmp_path / "a", tmp_path / "s", "train=0.5,test=0.5", allow_empty=True)
    assert result.report["groups"]["components"] == 2
    assert sorted(filter(None, Dataset.open(tmp_path / "s").table("examples")["parent_id"].to_pylist())) == sorted(
        [parent.example_id] * 2 + ["ab" * 16] * 2
    )


def test_boilerplate_ties_nothing_and_is_listed(tmp_path: Path):
    logo = png(999)
    rows = [
        example(f"site {s} page {p}", *([logo] if p == 0 else []), group=f"site {s}")
        for s in range(25)
        for p in range(2)
    ]
    rows += [example("imprint", group=f"site {s}") for s in range(22)]
    write(tmp_path / "a", rows)
    result = split(tmp_path / "a", tmp_path / "s")
    assert listed(result) == {"asset": 1, "pixel": 1, "text": 1}
    assert result.report["groups"]["joined"] == 0
    table = Dataset.open(tmp_path / "s").table("boilerplate").to_pylist()
    image = rows[0].images[0]
    assert [(r["kind"], r["value"], r["groups"], r["examples"]) for r in table] == [
        ("asset", image.asset_id, 25, 25), ("pixel", image.pixel_id, 25, 25), ("text", "imprint", 22, 22),
    ]  # fmt: skip
    tied = split(tmp_path / "a", None, frequent_asset_limit=25, allow_empty=True)
    assert tied.report["groups"]["components"] == 1
    assert listed(tied) == {}


def test_groups_that_no_source_declared_do_not_make_boilerplate(tmp_path: Path):
    write(tmp_path / "a", [example("image.jpg", png(k)) for k in range(30)] + [example(f"t {k}") for k in range(30)])
    result = split(tmp_path / "a", None)
    assert result.report["boilerplate"]["text"] == 0
    assert result.report["groups"]["largest"] == 30


def test_boilerplate_that_dedup_removed_ties_nothing_either(tmp_path: Path):
    rows = [*books(40, 2), *(example("imprint", group=f"book {b}", n=b) for b in range(25))]
    write(tmp_path / "a", rows)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    result = split(tmp_path / "c", None)
    assert result.counts["read"] == 81
    assert result.report["groups"]["joined"] == 0
    assert result.report["boilerplate"]["text"] == 1


def test_a_giant_of_joined_groups_stops_the_run_with_what_ties_it(tmp_path: Path):
    rows = [example(f"row {k}", group=f"g{k % 2}") for k in range(1001)] + [
        example("bridge", group=f"g{k}") for k in range(2)
    ]
    write(tmp_path / "a", rows)
    with pytest.raises(SourceError) as caught:
        split(tmp_path / "a", tmp_path / "s")
    assert caught.value.what == (
        "1003 of 1003 examples (100.0%, the limit is 5.0%) and 2 declared groups hang together; "
        "they are tied by text bridge in 2 groups"
    )
    assert split(tmp_path / "a", None, max_group_share=1.0, allow_empty=True).report["groups"]["largest"] == 1003


def many(count: int = 60) -> list[Example]:
    return [example(f"t {k} " + "x" * (k % 40), png(k), group=f"g{k // 3}", source="ab"[k % 2]) for k in range(count)]


def test_workers_and_a_second_run_change_no_byte(tmp_path: Path):
    write(tmp_path / "a", many(), unit_rows=20)
    split(tmp_path / "a", tmp_path / "one", unit_size=700)
    split(tmp_path / "a", tmp_path / "two", unit_size=700, workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    before = files(tmp_path / "one")
    assert split(tmp_path / "a", tmp_path / "one", unit_size=700).unchanged
    assert files(tmp_path / "one") == before
    assert len(Dataset.open(tmp_path / "one").shards) > 8


def test_a_run_that_was_stopped_goes_on_after_its_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "a", many())
    split(tmp_path / "a", tmp_path / "whole", unit_size=700)
    num_units = len(Dataset.open(tmp_path / "whole").shards)
    calls: list[str] = []

    def some(job):
        if len(calls) % 4 == 3:
            calls.append("stop")
            raise KeyboardInterrupt
        receipt = write_unit(job)
        calls.append(receipt.unit)
        return receipt

    monkeypatch.setattr(Plan, "work", staticmethod(some))
    while not (tmp_path / "s" / "manifest.json").exists():
        try:
            split(tmp_path / "a", tmp_path / "s", unit_size=700)
        except KeyboardInterrupt:
            assert not (tmp_path / "s" / "manifest.json").exists()
    written = [name for name in calls if name != "stop"]
    assert calls.count("stop") > 1
    assert len(written) == len(set(written)) == num_units, "no unit was written twice"
    assert files(tmp_path / "s") == files(tmp_path / "whole")


def test_arrow_to_tar_to_arrow_is_byte_identical(tmp_path: Path):
    rows = [*many(), example("bridge", group="g1"), example("Bridge", group="g9", n=1)]
    write(tmp_path / "a", rows)
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    split(tmp_path / "c", tmp_path / "arrow", shard_size=900, unit_size=2000)
    split(tmp_path / "arrow", tmp_path / "tar", shard_size=900, unit_size=2000, shards="tar")
    split(tmp_path / "tar", tmp_path / "back", shard_size=900, unit_size=2000)

    def shards(name: str) -> dict[str, bytes]:
        root = tmp_path / name / "shards"
        return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}

    assert len(shards("arrow")) > 5
    assert shards("back") == shards("arrow")
    assert all(name.endswith((".tar", ".tar.index.arrow")) for name in shards("tar"))
    assert places(tmp_path / "tar") == places(tmp_path / "arrow")


def test_tables_go_along(tmp_path: Path):
    write(tmp_path / "a", many(), licences={3: "MIT"})
    split(tmp_path / "a", tmp_path / "s")
    source, dataset = Dataset.open(tmp_path / "a"), Dataset.open(tmp_path / "s")
    at = {row["example_id"]: (row["input"], row["position"]) for row in source.table("examples").to_pylist()}
    assert {r["example_id"]: (r["input"], r["position"]) for r in dataset.table("examples").to_pylist()} == at
    assert dataset.table("assets").sort_by("asset_id") == source.table("assets").sort_by("asset_id")
    component = {row["example_id"]: row["component"] for row in dataset.table("groups").to_pylist()}
    origins = dataset.table("provenance").to_pylist()
    assert len(origins) == 60
    assert {row["example_id"]: row["group"] for row in origins} == component
    assert [row["licence"] for row in origins].count("MIT") == 1
    totals = dataset.manifest.totals
    assert sum(split_["examples"] for split_ in totals["by_split"].values()) == 60
    assert {name: source_["examples"] for name, source_ in totals["by_source"].items()} == {"a": 30, "b": 30}


def test_provenance_of_a_removed_duplicate_has_the_group_of_what_stayed(tmp_path: Path):
    copy = example("t 4 xxxx", png(4), source="copy")
    write(tmp_path / "a", [*many(), copy])
    dedup(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c", priority=("a", "b")))
    split(tmp_path / "c", tmp_path / "s")
    rows = [
        r
        for r in Dataset.open(tmp_path / "s").table("provenance").to_pylist()
        if r["asset_id"] == copy.images[0].asset_id
    ]
    assert {row["source"] for row in rows} == {"a", "copy"}
    assert {row["group"] for row in rows} == {"g1"}


def test_files_that_are_their_own_group_are_warned_about(tmp_path: Path):
    rows = [example(f"line {k}", group=f"page_{k}.png") for k in range(30)]
    write(tmp_path / "a", rows, inputs=[f"page_{k}.png" for k in range(30)])
    (note,) = split(tmp_path / "a", None).report["notes"]
    assert note.startswith("examples whose only group is their own file: 30;")
    assert "--group-by '@path:REGEX'" in note
    assert split(tmp_path / "a", None, group_by="@path").report["notes"] == []


@pytest.mark.parametrize(("groups", "says"), [(1, "the smallest has 20"), (2, "the smallest has 10")])
def test_fewer_groups_than_splits(tmp_path: Path, groups: int, says: str):
    write(tmp_path / "a", [example(f"t {k}", group=f"g{k % groups}") for k in range(20)])
    with pytest.raises(ConfigError, match="val, test would be empty") as caught:
        split(tmp_path / "a", tmp_path / "s")
    assert says in caught.value.what
    result = split(tmp_path / "a", tmp_path / "s", allow_empty=True)
    assert {name: row["examples"] for name, row in result.report["splits"].items()} == {
        "train": 20,
        "val": 0,
        "test": 0,
    }
    assert Dataset.open(tmp_path / "s").splits == ("train", "val", "test")


def test_an_empty_dataset_passes_through(tmp_path: Path):
    write(tmp_path / "a", [])
    result = split(tmp_path / "a", tmp_path / "s", group_by="site", on_missing_group="fail")
    assert result.counts["read"] == 0
    assert result.report["notes"] == ["the input is empty"]
    assert list(Dataset.open(tmp_path / "s").examples()) == []
    assert Dataset.open(tmp_path / "s").table("ledger").num_rows == 0


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path):
    write(tmp_path / "a", many())
    dry = split(tmp_path / "a", None).to_json()
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    wet = split(tmp_path / "a", tmp_path / "s").to_json()
    assert {k: v for k, v in dry.items() if k not in ("dataset", "id")} == {
        k: v for k, v in wet.items() if k not in ("dataset", "id")
    }


def test_a_damaged_input_is_named_and_nothing_is_committed(tmp_path: Path):
    dataset = write(tmp_path / "a", many())
    shard = dataset.shards[0].path
    data = bytearray(shard.read_bytes())
    image = many()[30].images[0].data
    data[data.index(image) + 30] ^= 0xFF
    shard.write_bytes(data)
    with pytest.raises(IntegrityError) as caught:
        split(tmp_path / "a", tmp_path / "s")
    assert caught.value.where == str(shard)
    assert not (tmp_path / "s" / "manifest.json").exists()


def test_a_view_that_is_split_already_is_not_split_again(tmp_path: Path):
    write(tmp_path / "a", many())
    split(tmp_path / "a", tmp_path / "s")
    dedup(DedupConfig(inputs=(tmp_path / "s",), output=tmp_path / "c"))
    assert Dataset.open(tmp_path / "c").splits == ("train", "val", "test")
    with pytest.raises(ConfigError, match="split already"):
        split(tmp_path / "c", tmp_path / "t")
