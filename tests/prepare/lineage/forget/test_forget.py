"""forget: what goes, what stays, what the tables say afterwards, and that the proof finds what was left."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from shardkit.digest import sha256
from shardkit.errors import ConfigError, IntegrityError, OutputError, SourceError
from shardkit.prepare.audit.verify import VerifyConfig
from shardkit.prepare.audit.verify import run as verify
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.lineage.forget import proof, tables
from shardkit.prepare.lineage.forget.config import ForgetConfig, ForgetResult
from shardkit.prepare.lineage.forget.run import run
from shardkit.prepare.shrink.config import ShrinkConfig
from shardkit.prepare.shrink.run import run as shrink
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.records import Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.schema import TABLES
from tests.prepare.builders import example, png, write
from tests.prepare.lineage.conftest import TABLE, WEB, Road


def forget(source: Path, out: Path | None, **given: Any) -> ForgetResult:
    return run(ForgetConfig(input=source, output=out, **given))


def left(path: Path) -> set[str]:
    return {made.example_id for _, _, made in Dataset.open(path).examples()}


def gone(source: Path, out: Path) -> list[str]:
    """Texts of the examples that went, as they stand in the input."""
    kept = left(out)
    return sorted(made.text for _, _, made in Dataset.open(source).examples() if made.example_id not in kept)


# ---------------------------------------------------------------------- by asset
def test_a_picture_goes_with_every_example_that_shows_it(lineage: Road, tmp_path: Path) -> None:
    picture = sha256(png(2))
    result = forget(lineage.split, tmp_path / "out", assets=(picture[:10],))
    assert gone(lineage.split, tmp_path / "out") == ["the same picture elsewhere", "the second page"]
    assert result.counts["excluded_by_reason"] == {"forgotten_asset": 2}
    assert result.report == {"assets": 1, "origins": 2, "elsewhere": 0}
    made = Dataset.open(tmp_path / "out")
    assert made.recipe["assets"] == [picture]
    for shard in made.shards:
        assert shard.holder is made
        assert png(2) not in shard.path.read_bytes()
    assert picture not in made.table("provenance")["asset_id"].to_pylist()
    assert picture not in made.table("assets")["asset_id"].to_pylist()
    assert verify(VerifyConfig(dataset=tmp_path / "out", deep=True)).problems == ()


def test_equal_pixels_of_other_files_go_too(lineage: Road, tmp_path: Path) -> None:
    assert png(4) != png(4, level=1)
    result = forget(lineage.table, tmp_path / "out", assets=(sha256(png(4)),))
    assert gone(lineage.table, tmp_path / "out") == ["a picture of its own", "the picture saved again"]
    assert result.report["assets"] == 2


def test_blank_pictures_are_equal_to_nothing_but_their_own_bytes(tmp_path: Path) -> None:
    blank = [png(0, side=1), png(0, side=1, level=1)]
    assert blank[0] != blank[1]
    rows = [example("one", blank[0]), example("other", blank[1])]
    write(tmp_path / "set", rows, looks=True)
    assert set(Dataset.open(tmp_path / "set").table("assets")["class"].to_pylist()) == {"blank"}
    forget(tmp_path / "set", tmp_path / "out", assets=(sha256(blank[0]),))
    assert gone(tmp_path / "set", tmp_path / "out") == ["one"]


# ---------------------------------------------------------------------- by source
def test_an_origin_goes_and_the_picture_stays_where_it_came_from_elsewhere(lineage: Road, tmp_path: Path) -> None:
    result = forget(lineage.split, tmp_path / "out", sources=("table",))
    assert gone(lineage.split, tmp_path / "out") == sorted(made.text for made in TABLE)
    assert result.report == {"assets": 2, "origins": 3, "elsewhere": 1}
    provenance = Dataset.open(tmp_path / "out").table("provenance").to_pylist()
    assert [row["source"] for row in provenance if row["asset_id"] == sha256(png(2))] == ["web"]


@pytest.mark.parametrize(
    ("uri", "texts"),
    [
        ("table.csv", [made.text for made in TABLE]),
        ("rows.jsonl:2", ["the second page"]),
        ("https://b.example/3", ["page 3"]),
        ("https://a.example/words", ["words alone"]),
    ],
)
def test_a_source_is_a_file_a_row_a_document_or_an_address_in_the_metadata(
    lineage: Road, tmp_path: Path, uri: str, texts: list[str]
) -> None:
    forget(lineage.split, tmp_path / "out", sources=(uri,))
    assert gone(lineage.split, tmp_path / "out") == sorted(texts)


def test_the_origin_of_a_removed_duplicate_goes_alone(lineage: Road, tmp_path: Path) -> None:
    # Row 3 equals row 1 in content: its id is that of row 1, so both go by the row, and only the origin by its place.
    result = forget(lineage.clean, None, sources=("rows.jsonl:3",), dry_run=True)
    assert (result.path, result.proof) == (None, None)
    assert result.counts["excluded_by_reason"] == {"forgotten_source": 1}


# ---------------------------------------------------------------------- by licence
def test_a_licence_of_pictures_of_texts_and_of_nobody(lineage: Road, tmp_path: Path) -> None:
    forget(lineage.split, tmp_path / "cc0", licences=("CC0",))
    assert gone(lineage.split, tmp_path / "cc0") == ["another tonguewho?", "the first page"]
    # The text has no picture: its licence was stated for the whole source when it was taken in.
    forget(lineage.split, tmp_path / "mit", licences=("MIT",))
    assert gone(lineage.split, tmp_path / "mit") == ["words alone"]
    forget(lineage.split, tmp_path / "unknown", licences=("unknown",))
    assert left(tmp_path / "unknown") == {
        WEB[0].example_id, WEB[1].example_id, WEB[3].example_id, WEB[4].example_id, TABLE[0].example_id,
    }  # fmt: skip


def test_a_licence_that_stands_in_a_dataset_which_is_not_at_hand(lineage: Road, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(lineage.split, tmp_path / "alone"))
    with pytest.raises(ConfigError, match="was stated when it was taken in") as error:
        forget(alone, None, licences=("MIT",), dry_run=True)
    assert "--base DIR" in error.value.hint
    found = forget(alone, None, licences=("MIT",), dry_run=True, bases=(lineage.root,))
    assert found.counts["excluded"] == 1


def test_the_licence_of_a_row_is_its_own(tmp_path: Path) -> None:
    rows = [example("a", licence="L1"), example("b", license="L2"), example("c", note="L1")]
    write(tmp_path / "set", rows)
    forget(tmp_path / "set", tmp_path / "out", licences=("L1", "L2"))
    assert left(tmp_path / "out") == {rows[2].example_id}


# ---------------------------------------------------------------------- what derives
def test_what_was_made_from_it_goes_too_in_any_depth(tmp_path: Path) -> None:
    rows = [example("page", png(1)), example("crop", png(2)), example("question"), example("other"), example("orphan")]
    parents = [None, rows[0].example_id, rows[1].example_id, None, "f" * 32]
    write(tmp_path / "plain", rows)
    with_parents(tmp_path / "plain", tmp_path / "set", parents)
    result = forget(tmp_path / "set", tmp_path / "out", assets=(sha256(png(1)),))
    assert left(tmp_path / "out") == {rows[3].example_id, rows[4].example_id}
    assert result.counts["excluded_by_reason"] == {"forgotten_asset": 1, "forgotten_derived": 2}
    assert result.report["assets"] == 2


def with_parents(source: Path, out: Path, parents: Sequence[str | None], **more: pa.Table) -> None:
    """The same rows, made from others, and with further tables."""
    dataset = Dataset.open(source)
    with Output(out, stage="ingest", recipe={"made": "by hand"}, inputs=["rows.jsonl"]) as output:
        with output.unit(0, "unit-0", shards="arrow", shard_size=1 << 20) as unit:
            for (_, _, made), parent in zip(dataset.examples(), parents, strict=True):
                unit.add(made, input="rows.jsonl", position=made.text, parent_id=parent)
            unit.finish()
        extra = {"assets": [dataset.table("assets")], **{name: [table] for name, table in more.items()}}
        tally = Tally(read=len(parents), kept=len(parents))
        output.commit(Sealed(tally=tally, tables=extra, provenance=[dataset.table("provenance")]))


def test_a_caption_that_moved_goes_with_the_example_that_it_came_from(tmp_path: Path) -> None:
    rows = [example("taken from", png(1)), example("keeper with its caption", png(2)), example("other", png(3))]
    moved = {name: [None] for name in TABLES["moved"].names}
    moved |= {"example_id": [rows[1].example_id], "from_id": [rows[0].example_id]}
    write(tmp_path / "plain", rows)
    with_parents(tmp_path / "plain", tmp_path / "set", [None] * 3, moved=pa.table(moved, schema=TABLES["moved"]))
    result = forget(tmp_path / "set", tmp_path / "out", assets=(sha256(png(1)),))
    assert result.counts["excluded_by_reason"] == {"forgotten_asset": 1, "forgotten_derived": 1}
    assert left(tmp_path / "out") == {rows[2].example_id}
    assert Dataset.open(tmp_path / "out").table("moved").num_rows == 0


# ---------------------------------------------------------------------- tables
def test_tables_of_a_split_say_nothing_of_it(lineage: Road, tmp_path: Path) -> None:
    forget(lineage.split, tmp_path / "out", sources=("https://b.example/3", "https://a.example/2"))
    before, after = Dataset.open(lineage.split), Dataset.open(tmp_path / "out")
    assert after.splits == before.splits
    ids = after.table("examples")["example_id"].to_pylist()
    assert after.table("groups")["example_id"].to_pylist() == ids
    keys = after.table("ledger")["key"].to_pylist()
    assert "https://b.example/3" not in keys
    assert set(before.table("ledger")["key"].to_pylist()) - set(keys) == {"https://b.example/3", "https://a.example/2"}
    assert after.table("ledger")["order"].to_pylist() == list(range(len(keys)))
    # The same rows stay together, whatever their component is called now.
    old = dict(zip(*(before.table("groups")[c].to_pylist() for c in ("example_id", "component")), strict=True))
    new = dict(zip(*(after.table("groups")[c].to_pylist() for c in ("example_id", "component")), strict=True))
    assert {(new[a] == new[b]) == (old[a] == old[b]) for a in ids for b in ids} == {True}
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*.arrow"))
    assert b"page 3" not in everything
    names = {name for t in after.manifest.tables if t.path.endswith(".parquet") for name in strings(after, t.path)}
    assert not {name for name in names if "https://b.example/3" in name}


def strings(dataset: Dataset, path: str) -> set[str]:
    table = dataset.table(Path(path).stem)
    return {str(value) for column in table.columns for value in column.to_pylist()}


def test_what_removed_duplicates_tied_stays_tied(tmp_path: Path) -> None:
    # a and b are near a removed c; a split of what forget wrote must still hold them together.
    rows = [example(f"row {k}", png(k)) for k in range(6)]
    twin = example("row 0", png(0))
    write(tmp_path / "one", rows[:3])
    write(tmp_path / "two", [twin, *rows[3:]])
    dedup(DedupConfig(inputs=(tmp_path / "one", tmp_path / "two"), output=tmp_path / "clean", levels=("exact",)))
    forget(tmp_path / "clean", tmp_path / "out", assets=(sha256(png(5)),))
    made = Dataset.open(tmp_path / "out")
    assert not made.has_table("clusters")
    assert made.table("groups").num_rows == 5
    assert (
        split(
            SplitConfig(input=tmp_path / "out", output=tmp_path / "split", ratios=parse_ratios("a=0.5,b=0.5"))
        ).counts["kept"]
        == 5
    )


def test_the_group_of_a_removed_duplicate_stays_that_of_its_keeper(tmp_path: Path) -> None:
    """Of two books one page is the same: what is left of either stays together, though the copy lies nowhere any more."""
    page, copy = (example("page", png(0), group=group) for group in ("first", "second"))
    rest = [example(f"rest {k}", png(k + 1), group=group) for k, group in enumerate(("first", "second", "third"))]
    write(tmp_path / "one", [page, copy, *rest, example("alone", png(9))])
    dedup(DedupConfig(inputs=(tmp_path / "one",), output=tmp_path / "clean", levels=("exact",)))
    forget(tmp_path / "clean", tmp_path / "out", assets=(sha256(png(9)),))
    made = Dataset.open(tmp_path / "out")
    texts = {row.example_id: row.text for _, _, row in made.examples()}
    together: dict[str, set[str]] = {}
    for row in made.table("groups").to_pylist():
        together.setdefault(row["component"], set()).add(texts[row["example_id"]])
    assert sorted(map(sorted, together.values())) == [["page", "rest 0", "rest 1"], ["rest 2"]]


def test_components_follow_clusters_and_edges() -> None:
    kept = pa.table({"example_id": ["a", "b", "c"], "group": ["g", None, None]}, schema=_KEPT)
    table = tables._components(kept, np.array([4, 2, 4]))
    assert table["component"].to_pylist() == ["a", "b", "a"]
    assert table["declared"].to_pylist() == ["g", None, None]


_KEPT = pa.schema([("example_id", pa.string()), ("group", pa.string())])


def test_it_can_be_split_and_forgotten_from_again(lineage: Road, tmp_path: Path) -> None:
    forget(lineage.clean, tmp_path / "one", assets=(sha256(png(2)),))
    split(SplitConfig(input=tmp_path / "one", output=tmp_path / "split", ratios=parse_ratios("train=0.8,test=0.2")))
    forget(tmp_path / "split", tmp_path / "two", sources=("table",))
    assert left(tmp_path / "two") == {made.example_id for made in WEB if made is not WEB[1]}


def test_the_rows_are_accounted_for(lineage: Road, tmp_path: Path) -> None:
    forget(lineage.split, tmp_path / "out", assets=(sha256(png(2)),), sources=("https://b.example/3",))
    rows = [orjson.loads(line) for line in Dataset.open(tmp_path / "out").exclusions()]
    assert {(row["input"], row["position"], row["reason"]) for row in rows} == {
        ("rows.jsonl", "2", "forgotten_asset"),
        ("table.csv", "1", "forgotten_asset"),
        ("rows.jsonl", "9", "forgotten_source"),
    }
    assert not [row for row in rows if "example" in row["detail"].replace("the example", "")]


# ---------------------------------------------------------------------- the run
def test_equal_runs_give_equal_bytes_and_a_second_one_nothing_new(lineage: Road, tmp_path: Path) -> None:
    given = {"assets": (sha256(png(2)),), "shard_size": 300}
    one = forget(lineage.split, tmp_path / "one", **given)
    two = forget(lineage.split, tmp_path / "two", workers=2, **given)
    assert one.dataset_id == two.dataset_id
    again = forget(lineage.split, tmp_path / "one", **given)
    assert again.unchanged
    assert again.proof == one.proof
    with pytest.raises(OutputError, match="another dataset is here"):
        forget(lineage.split, tmp_path / "one", sources=("table",))
    other = forget(lineage.split, tmp_path / "one", sources=("table",), overwrite=True)
    assert other.dataset_id != one.dataset_id
    tar = forget(lineage.split, tmp_path / "tar", shards="tar", **given)
    assert left(tmp_path / "tar") == left(tmp_path / "two")
    assert tar.proof is not None


def test_settings_that_forget_nothing(lineage: Road, tmp_path: Path) -> None:
    for given, says in (
        ({}, "nothing is named"),
        ({"sources": ("",)}, "an empty name"),
        ({"assets": ("0" * 64,)}, "no asset has the id"),
        ({"assets": ("short",)}, "no asset has the id"),
        ({"sources": ("https://nowhere.example",)}, "nothing in the dataset comes from https://nowhere"),
        ({"licences": ("GPL",)}, "nothing in the dataset comes from GPL"),
    ):
        with pytest.raises(ConfigError, match=says):
            forget(lineage.split, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="there is no output"):
        forget(lineage.split, None, sources=("table",))
    with pytest.raises(SourceError, match="no such folder"):
        forget(lineage.split, None, sources=("table",), also=(tmp_path / "nowhere",), dry_run=True)


def test_everything_may_be_forgotten(lineage: Road, tmp_path: Path) -> None:
    result = forget(lineage.table, tmp_path / "out", sources=("table",))
    assert result.counts["kept"] == 0
    assert left(tmp_path / "out") == set()


# ---------------------------------------------------------------------- the proof, and who else holds it
def test_the_proof_finds_bytes_that_a_wrong_table_hid(lineage: Road, tmp_path: Path) -> None:
    # Provenance that knows nothing of a picture in a row: the decision misses the row, the digest of its bytes does not.
    rows = [example("shown", png(1)), example("hidden", png(1))]
    write(tmp_path / "plain", rows)
    dataset = Dataset.open(tmp_path / "plain")
    partial = dataset.table("provenance").slice(0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dataset, "table", lying(Dataset.table, partial))
        with pytest.raises(IntegrityError, match=r"the proof failed: .* holds a forgotten picture in its rows 0 to 0"):
            forget(tmp_path / "plain", tmp_path / "out", assets=(sha256(png(1)),))


def lying(real: Any, provenance: pa.Table) -> Any:
    def table(self: Dataset, name: str, columns: Any = None, **given: Any) -> pa.Table:
        if name != "provenance" or self.stage != "ingest":
            return real(self, name, columns, **given)
        return provenance if columns is None else provenance.select(list(columns))

    return table


def test_the_proof_reads_every_table(lineage: Road, tmp_path: Path) -> None:
    dataset = Dataset.open(lineage.split)
    none = np.empty(0, np.uint64)
    nothing = {"examples": none, "assets": none, "stored": frozenset[str](), "sequences": none}
    for name, number in (("examples", WEB[1].example_id), ("assets", sha256(png(2)))):
        wanted = np.array([int(number[:16], 16)], np.uint64)
        forgotten = proof.Forgotten(**{**nothing, name: wanted})
        with pytest.raises(IntegrityError, match="holds a forgotten"):
            proof.prove(dataset, forgotten, _Nothing(), workers=1, on_progress=lambda *_: None)


class _Nothing:
    num_found = 0


def test_other_datasets_that_still_hold_it(lineage: Road, tmp_path: Path) -> None:
    shutil.copytree(lineage.root, tmp_path / "work")
    work = tmp_path / "work"
    (work / "unfinished" / ".work").mkdir(parents=True)
    (work / "broken").mkdir()
    (work / "broken" / "manifest.json").write_text("{")
    result = forget(work / "split", work / "deep" / "out", assets=(sha256(png(2)),), also=(work, work))
    held = {Path(one["path"]).name: one for one in result.also}
    assert {name: (one.get("assets"), one.get("examples")) for name, one in held.items()} == {
        "web": (1, 1), "table": (1, 1), "clean": (1, 2), "split": (1, 2), "tokens": (1, 2), "unfinished": (None, None),
        "broken": (None, None),
    }  # fmt: skip
    assert held["clean"]["bytes_in"] == [str(work / "table"), str(work / "web")]
    assert "no JSON" in held["broken"]["problem"]
    assert "not finished" in held["unfinished"]["problem"]


def test_a_picture_that_was_made_smaller_goes_by_the_id_of_the_original(tmp_path: Path) -> None:
    rows = [example("large", png(1, side=40)), example("small", png(2))]
    write(tmp_path / "set", rows)
    shrink(ShrinkConfig(input=tmp_path / "set", output=tmp_path / "shrunk", max_side=20))
    given = {"assets": (sha256(png(1, side=40))[:12],), "also": (tmp_path,)}
    result = forget(tmp_path / "shrunk", tmp_path / "out", **given)
    assert [made.text for _, _, made in Dataset.open(tmp_path / "out").examples()] == ["small"]
    assert result.report["assets"] == 1
    assert [Path(one["path"]).name for one in result.also] == ["set", "shrunk"]


def test_a_run_that_was_cut_off_goes_on_and_gives_the_same(
    lineage: Road, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"assets": (sha256(png(2)),)}
    whole = forget(lineage.clean, tmp_path / "whole", **given)
    with monkeypatch.context() as patch:
        patch.setattr(Output, "commit", cut_off)
        with pytest.raises(KeyboardInterrupt):
            forget(lineage.clean, tmp_path / "cut", **given)
    assert not (tmp_path / "cut" / "manifest.json").exists()
    with monkeypatch.context() as patch:
        patch.setattr("shardkit.prepare.lineage.forget.write.write_unit", cut_off)  # every unit has its receipt
        assert forget(lineage.clean, tmp_path / "cut", **given).dataset_id == whole.dataset_id


def cut_off(*_: object) -> None:
    raise KeyboardInterrupt
