"""Exports: bytes that do not depend on workers or place, what stands in the way, kills, and rows that come back as they were."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from shardkit.digest import sha256
from shardkit.errors import ConfigError, IntegrityError, OutputError
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.export import EXPORTS, ExportConfig, run
from shardkit.prepare.export.config import About
from shardkit.prepare.export.run import NOTE
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.records import LayoutItem, Relation, Segment, example_id
from shardkit.store import Dataset
from tests.prepare.builders import example, image, png, write

LAYOUT = (
    LayoutItem(level="line", text="a b", polygon=(0.0, 0.0, 6.0, 3.5), order=0),
    LayoutItem(level="word", text="a", polygon=(0.0, 0.0, 2.0, 3.5), parent=0, confidence=0.25),
)


def named(made):
    return replace(made, example_id=example_id(made))


def rich():
    """Examples with everything that a row schema has no field for."""
    one, two = png(1), png(2, side=8)
    both = (replace(image(one), ocr_labels=(3, 1), reading_order=(1, 0), layout=LAYOUT), image(two))
    interleaved = named(
        replace(
            example("x", one, source="books", group="b1"),
            images=both,
            segments=(
                Segment(kind="text", text="first "),
                Segment(kind="image", image=1),
                Segment(kind="text", text=" then <b>\u4e2d\u6587</b>\n"),
                Segment(kind="image", image=0, name="figure"),
                Segment(kind="image", image=1),
            ),
            relations=(
                Relation(kind="interleaved", images=(1, 0), annotator="tool@1"),
                Relation(kind="ocr", images=(0,), scope="image", confidence=0.5),
            ),
        )
    )
    unshown = named(
        replace(
            example("a text", one, source="books"),
            images=(replace(image(one), ocr_labels=(7,)),),
            segments=(Segment(kind="text", text="a text"),),
        )
    )
    turns = example(
        turns=[("user", "why?"), ("assistant", "so.")], source="talks", k=1.5, nested={"a": [None, "\u00e9"]}
    )
    marks = example("a literal <image> mark", two, source="books", url="https://example.org/1")
    videos = example("v", source="talks", videos=["a.mp4"], video_sizes=[[4, 5]])
    strange = example("w", source="talks", videos="not a list")
    stripped = example("with a comment", png(3, note="taken by nobody"), source="books")
    return [interleaved, unshown, turns, marks, videos, strange, stripped]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rich"
    write(path, rich(), licences={0: "CC-BY-4.0", 3: "MIT"}, unit_rows=3)
    return path


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A split of a view, with a removed duplicate."""
    root = tmp_path_factory.mktemp("view")
    rows = [example(f"text {k}", png(k), source="ab"[k % 2], group=f"g{k // 2}") for k in range(40)]
    write(root / "raw", [*rows, rows[3]], unit_rows=9, licences={3: "MIT", 40: "CC0-1.0"})
    dedup(DedupConfig(inputs=(root / "raw",), output=root / "clean"))
    split(SplitConfig(input=root / "clean", output=root / "split", ratios=parse_ratios("train=0.7,test=0.3")))
    return root


def export(dataset: Path, output: Path, name: str = "jsonl", **options):
    return run(ExportConfig(dataset=dataset, output=output, format=name, **options))


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", EXPORTS)
def test_bytes_do_not_depend_on_workers_or_place(view: Path, tmp_path: Path, name: str):
    export(view / "split", tmp_path / "one", name, shard_size=600)
    export(view / "split", tmp_path / "elsewhere", name, shard_size=600, workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "elsewhere")
    note = json.loads((tmp_path / "one" / NOTE).read_bytes())
    assert len(note["files"]) > 4
    for file in note["files"]:
        data = (tmp_path / "one" / file["path"]).read_bytes()
        assert (len(data), sha256(data)) == (file["size"], file["sha256"])


@pytest.mark.parametrize("name", ["jsonl", "parquet", "hf", "croissant"])
def test_rows_come_back_as_they_were(dataset: Path, tmp_path: Path, name: str):
    result = export(dataset, tmp_path / "out", name)
    ingest(IngestConfig(format="rows", paths=(tmp_path / "out",), output=tmp_path / "back"))
    before = [e for _, _, e in Dataset.open(dataset).examples()]
    after = [e for _, _, e in Dataset.open(tmp_path / "back").examples()]
    assert after[:-1] == before[:-1], "ids, groups, names, layouts and all"
    assert after[-1].example_id != before[-1].example_id, "its picture had a comment, which is not stored"
    assert replace(after[-1], example_id="", images=()) == replace(before[-1], example_id="", images=())
    assert result.counts["other_ids"] == 1


def test_examples_whose_pictures_lost_bytes_are_counted(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.png").write_bytes(png(1, note="a comment"))
    (tmp_path / "in" / "2.png").write_bytes(png(2))
    rows = [{"text": f"<image> {k}", "images": [f"{k}.png"]} for k in (1, 2)]
    (tmp_path / "in" / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    ingest(IngestConfig(format="rows", paths=(tmp_path / "in",), output=tmp_path / "d"))
    result = export(tmp_path / "d", tmp_path / "out")
    assert result.counts["other_ids"] == 1
    ingest(IngestConfig(format="rows", paths=(tmp_path / "out",), output=tmp_path / "back"))
    ids = [Dataset.open(tmp_path / n).table("examples")["example_id"].to_pylist() for n in ("d", "back")]
    assert [a == b for a, b in zip(*ids, strict=True)] == [False, True]


def test_origins_and_licences_travel(view: Path, tmp_path: Path):
    export(view / "split", tmp_path / "out")
    ingest(IngestConfig(format="rows", paths=(tmp_path / "out",), output=tmp_path / "back"))
    table = Dataset.open(tmp_path / "back").table("provenance").to_pylist()
    licences = sorted(row["licence"] for row in table if row["licence"])
    assert licences == ["CC0-1.0", "MIT"], "the picture of the removed duplicate came from two places"
    assert {row["source"] for row in table} == {"a", "b"}


def test_splits_and_sizes(view: Path, tmp_path: Path):
    result = export(view / "split", tmp_path / "out", "parquet", shard_size=700)
    there = Dataset.open(view / "split")
    for name in ("train", "test"):
        files = sorted((tmp_path / "out").glob(f"{name}-*.parquet"))
        assert len(files) > 1
        assert sum(pq.read_metadata(file).num_rows for file in files) == result.counts["by_split"][name]
        assert result.counts["by_split"][name] == sum(1 for _ in there.examples(name))
    only = export(view / "split", tmp_path / "test", "parquet", splits=("test",))
    assert set(only.counts["by_split"]) == {"test"}
    with pytest.raises(ConfigError, match="no split 'dev'; it has train, test"):
        export(view / "split", tmp_path / "no", splits=("dev",))


def test_pictures_are_the_stored_bytes(dataset: Path, tmp_path: Path):
    stored = {one.data for _, _, e in Dataset.open(dataset).examples() for one in e.images}
    export(dataset, tmp_path / "jsonl")
    files = [p for p in (tmp_path / "jsonl" / "images").rglob("*") if p.is_file()]
    assert {p.read_bytes() for p in files} == stored
    assert all(p.stem == sha256(p.read_bytes()) for p in files)
    export(dataset, tmp_path / "tar", "webdataset")
    with tarfile.open(tmp_path / "tar" / "all-00000.tar") as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    assert {data for name, data in members.items() if name.endswith(".png")} == stored
    first = json.loads(members[next(name for name in members if name.endswith(".json"))])
    assert [members[name] for name in first["images"]] == [e.data for e in (rich()[0].images[k] for k in (1, 0, 1))]


def test_a_dry_run_writes_nothing(view: Path, tmp_path: Path):
    told = run(ExportConfig(dataset=view / "split", output=None, format="hf", dry_run=True))
    assert list(tmp_path.iterdir()) == []
    made = export(view / "split", tmp_path / "out", "hf")
    assert (told.counts["examples"], told.counts["by_split"], told.num_files) == (
        made.counts["examples"], made.counts["by_split"], made.num_files,
    )  # fmt: skip


def test_what_stands_in_the_way(view: Path, tmp_path: Path):
    out = tmp_path / "out"
    assert not export(view / "split", out).unchanged
    assert export(view / "split", out).unchanged
    with pytest.raises(OutputError, match="made with another format"):
        export(view / "split", out, "parquet")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"notes\.txt"):
        export(view / "split", out, "parquet", overwrite=True)
    assert (out / "notes.txt").exists()
    (out / "notes.txt").unlink()
    export(view / "split", out, "parquet", overwrite=True)
    assert not (out / "images").exists()
    next(out.glob("train-*")).unlink()
    with pytest.raises(OutputError, match="missing or changed"):
        export(view / "split", out, "parquet")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "a").write_text("a")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="nothing that this command wrote"):
            export(view / "split", tmp_path / "foreign", overwrite=overwrite)
    with pytest.raises(OutputError, match="lie in each other"):
        export(view / "split", view / "split" / "out")
    with pytest.raises(ConfigError, match="no export format 'xls'"):
        export(view / "split", tmp_path / "x", "xls")


def test_a_damaged_shard_is_no_export(view: Path, tmp_path: Path):
    write(tmp_path / "d", [example("a", png(1)), example("b", png(2))])
    shard = next((tmp_path / "d" / "shards").rglob("*.arrow"))
    data = bytearray(shard.read_bytes())
    data[data.index(b"IDAT") + 6] ^= 1
    shard.write_bytes(data)
    with pytest.raises(IntegrityError):
        export(tmp_path / "d", tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


KILLED = """
import sys
from pathlib import Path
from shardkit.prepare.export import ExportConfig, run
run(ExportConfig(dataset=Path(sys.argv[1]), output=Path(sys.argv[2]), format=sys.argv[3], shard_size=300),
    lambda done, total, note="": print(done, flush=True))
"""


@pytest.mark.parametrize("name", ["jsonl", "hf"])
def test_a_killed_export_leaves_nothing_that_looks_whole(view: Path, tmp_path: Path, name: str):
    export(view / "split", tmp_path / "whole", name, shard_size=300)
    whole = contents(tmp_path / "whole")
    for lines in (1, 8, 20):
        arguments = [sys.executable, "-c", KILLED, str(view / "split"), str(tmp_path / "out"), name]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        if (tmp_path / "out").exists():
            assert contents(tmp_path / "out") == whole, "it was done before the kill"
        export(view / "split", tmp_path / "out", name, shard_size=300)
        assert contents(tmp_path / "out") == whole
        assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "whole"]
        for file in (tmp_path / "out").glob("*.md"):
            file.unlink()
        export(view / "split", tmp_path / "out", name, shard_size=300, overwrite=True)


def test_the_card(view: Path, tmp_path: Path):
    about = About(
        name="A | set", url="https://example.org", creators=("An Owner",), published="2026-01-02", citation="c"
    )
    export(view / "split", tmp_path / "out", "hf", about=about)
    text = (tmp_path / "out" / "README.md").read_text()
    header = dict(line.split(": ", 1) for line in text.split("---\n")[1].splitlines())
    assert json.loads(header["pretty_name"]) == "A | set"
    assert json.loads(header["license"]) == ["cc0-1.0", "mit", "unknown"]
    (config,) = json.loads(header["configs"])
    assert [entry["split"] for entry in config["data_files"]] == ["train", "test"]
    for piece in ("# A \\| set", "| dedup |", "1 duplicate_exact", "An Owner", "https://example.org"):
        assert piece in text
    with pytest.raises(ConfigError, match="no date"):
        About(published="yesterday")


def test_an_empty_dataset(tmp_path: Path):
    write(tmp_path / "d", [])
    for name in EXPORTS:
        assert export(tmp_path / "d", tmp_path / name, name).counts["examples"] == 0
