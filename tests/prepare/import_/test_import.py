"""Prepared sets of others: every row accounted for, splits recorded, what belongs to a set and what does not, damage refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.media.load import load
from shardkit.prepare.export import ExportConfig
from shardkit.prepare.export import run as export
from shardkit.prepare.import_ import IMPORTS
from shardkit.prepare.import_.found import split_of
from shardkit.prepare.import_.run import ImportConfig, run
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import mds
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.units import InputFile
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write
from tests.prepare.ingest.builders import tar

PREPARED = Path(__file__).resolve().parents[2] / "data" / "prepared"

SAVE = """
import os, sys
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=sys.argv[2])
sys.path.insert(0, sys.argv[3])
import datasets
from tests.prepare.builders import png
datasets.disable_progress_bars()
pairs = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string"), "label": datasets.ClassLabel(names=["cat", "dog"])})
sets = {name: datasets.Dataset.from_list(
    [{"image": {"bytes": png(first + k), "path": f"/home/somebody/{k}.png"}, "caption": f"{name} {k}", "label": k % 2} for k in range(count)],
    features=pairs) for name, first, count in (("train", 0, 7), ("test", 50, 3))}
out = sys.argv[1]
datasets.DatasetDict(sets).save_to_disk(out + "/dict")
sets["train"].shuffle(seed=1).select(range(4)).save_to_disk(out + "/selected")
for name, one in sets.items():
    os.makedirs(out + "/hub/data", exist_ok=True)
    one.to_parquet(f"{out}/hub/data/{name}-00000-of-00001.parquet")
documents = datasets.Features({"images": datasets.Sequence(datasets.Image()), "texts": datasets.Sequence(datasets.Value("string"))})
datasets.Dataset.from_list([{"images": [{"bytes": png(k), "path": None}, None], "texts": [None, f"text {k}"]} for k in range(4)],
    features=documents).save_to_disk(out + "/documents")
talk = [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so."}]
datasets.Dataset.from_list([{"messages": talk, "id": k} for k in range(5)]).save_to_disk(out + "/talks")
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sets that the library itself wrote, in a process of its own: its warnings and caches stay out of this one."""
    if find_spec("datasets") is None:
        pytest.skip("unavailable: datasets is not installed")
    out = tmp_path_factory.mktemp("saved")
    command = [sys.executable, "-W", "ignore", "-c", SAVE, str(out), str(out / "home"), str(Path(__file__).parents[3])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=out)
    assert done.returncode == 0, done.stderr
    return out


def take(kind: str, path: Path, output: Path | None, *, as_: str | None = None, **ingest):
    paths = (path,) if isinstance(path, Path) else tuple(path)
    return run(ImportConfig(kind=kind, paths=paths, format=as_, ingest={"output": output, **ingest}))


def rows(path: Path) -> list[dict]:
    """What tables and examples say of each row, in order."""
    dataset = Dataset.open(path)
    table = dataset.table("examples").to_pylist()
    return [
        {"place": f"{t['input']}:{t['position']}", "text": e.text, "images": [i.data for i in e.images], **json.loads(e.metadata)}
        for t, (_, _, e) in zip(table, dataset.examples(), strict=True)
    ]  # fmt: skip


def test_a_saved_set_of_splits(saved: Path, tmp_path: Path):
    (saved / "dict" / "train" / "cache-1234.arrow").write_bytes(b"not of the set")
    read_as, result = take("hf", saved / "dict", tmp_path / "d", licence="MIT")
    assert (read_as, result.tally.read, result.tally.kept) == ("caption", 10, 10)
    found = rows(tmp_path / "d")
    assert [row["text"] for row in found] == [f"test {k}" for k in range(3)] + [f"train {k}" for k in range(7)]
    assert [row["split"] for row in found] == ["test"] * 3 + ["train"] * 7
    assert [row["label"] for row in found[:3]] == ["cat", "dog", "cat"], "classes by name"
    assert found[3]["images"] == [png(0)]
    assert found[3]["place"] == "train/data-00000-of-00001.arrow:1"
    dataset = Dataset.open(tmp_path / "d")
    assert dataset.splits == ("all",)
    assert set(dataset.table("provenance")["licence"].to_pylist()) == {"MIT"}
    assert {r["input"]: r["kept"] for r in dataset.table("inputs").to_pylist()} == {
        "test/data-00000-of-00001.arrow": 3, "train/data-00000-of-00001.arrow": 7,
    }  # fmt: skip
    assert {row["source"] for row in dataset.table("examples").to_pylist()} == {"dict"}
    assert take("hf", saved / "dict", tmp_path / "d", licence="MIT")[1].unchanged
    take("hf", saved / "dict", tmp_path / "two", licence="MIT", workers=2)
    assert Dataset.open(tmp_path / "two").id == dataset.id


def test_one_split_alone_is_named_below_the_set(saved: Path, tmp_path: Path):
    take("hf", saved / "selected", tmp_path / "d")
    found = rows(tmp_path / "d")
    assert len(found) == 4
    assert all("split" not in row for row in found)
    assert {e.source for _, _, e in Dataset.open(tmp_path / "d").examples()} == {"selected"}


@pytest.mark.parametrize(
    ("name", "read_as", "count"), [("hub", "caption", 10), ("documents", "obelics", 4), ("talks", "chat", 5)]
)
def test_what_the_rows_are_shows(saved: Path, tmp_path: Path, name: str, read_as: str, count: int):
    found, result = take("hf", saved / name, tmp_path / "d")
    assert (found, result.tally.read, result.tally.kept) == (read_as, count, count)
    if name == "hub":
        assert [row["split"] for row in rows(tmp_path / "d")] == ["test"] * 3 + ["train"] * 7


def test_columns_that_say_nothing_can_be_named(tmp_path: Path):
    table = pa.table({"picture": [png(1), b"no picture"], "said": ["a cat", "a dog"]})
    pq.write_table(table, tmp_path / "train.parquet")
    with pytest.raises(SourceError, match=r"does not show \(columns: picture, said\)"):
        take("hf", tmp_path / "train.parquet", tmp_path / "d")
    _, result = take(
        "hf", tmp_path / "train.parquet", tmp_path / "d", as_="caption", fields={"image": "picture", "caption": "said"}
    )
    assert (result.tally.read, result.tally.kept, dict(result.tally.excluded)) == (2, 1, {"not_an_image": 1})
    assert rows(tmp_path / "d")[0]["split"] == "train"


def test_mds_of_splits_and_shards(tmp_path: Path):
    read_as, result = take("mds", PREPARED / "mds", tmp_path / "d")
    assert (read_as, result.tally.read, result.tally.kept) == ("caption", 12, 12)
    found = rows(tmp_path / "d")
    assert [row["split"] for row in found] == ["test"] * 3 + ["train"] * 9
    told = json.loads((PREPARED / "captions.json").read_text())
    train = [{"caption": r["text"], "image": r["images"][0].hex(), "score": relation} for r, relation in zip(
        found[3:], [e.relations[0].confidence for _, _, e in Dataset.open(tmp_path / "d").examples()][3:], strict=True
    )]  # fmt: skip
    assert train == told
    assert [row["place"] for row in found[2:5]] == [
        "test/shard.00000.mds:3", "train/shard.00000.mds:1", "train/shard.00000.mds:2",
    ]  # fmt: skip
    assert {"train/index.json", "test/index.json"} <= set(
        Dataset.open(tmp_path / "d").table("inputs")["input"].to_pylist()
    )
    take("mds", PREPARED / "mds", tmp_path / "small", unit_size=400)
    assert rows(tmp_path / "small") == found


@pytest.mark.parametrize("kind", ["zstd", "gz", "bz2", "br", "snappy"])
def test_mds_compressed(tmp_path: Path, kind: str):
    _, result = take("mds", PREPARED / f"mds-{kind}", tmp_path / "d")
    assert (result.tally.read, result.tally.kept) == (4, 4)
    assert [row["text"] for row in rows(tmp_path / "d")] == [f"picture {k} \u4e2d" for k in range(20, 24)]


def test_mds_values(tmp_path: Path):
    _, result = take("mds", PREPARED / "mds-values", tmp_path / "d", as_="text")
    assert result.tally.kept == 3
    row = rows(tmp_path / "d")[2]
    assert {name: row[name] for name in row if name[1] == "_" and name not in ("l_jpeg", "m_pngs", "n_jpegs", "o_grey", "p_colours")} == {
        "a_bytes": "AP8C", "b_json": {"k": [2, None, "\u00e9"]}, "c_uint8": 202, "d_int16": -2, "e_float64": 2 / 3,
        "f_str_int": "1000000000000000000000000000002", "g_str_float": 2.5, "h_str_decimal": "1.10",
        "i_array": [[0, 1, 2], [3, 4, 5]], "j_array": [[2, -1]], "k_array": [[2.0, 2.0], [2.0, 2.0]],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("column", "count", "size"),
    [
        ("m_pngs", 2, (7, 7)),
        ("n_jpegs", 3, (7, 7)),
        ("p_colours", 2, (7, 7)),
        ("o_grey", 1, (7, 7)),
        ("l_jpeg", 1, (7, 7)),
    ],
)
def test_mds_pictures(tmp_path: Path, column: str, count: int, size: tuple[int, int]):
    """Raw pixels become a picture file by its header alone."""
    path = PREPARED / "mds-values" / "shard.00000.mds"
    file = InputFile(name=path.name, path=str(path), size=path.stat().st_size)
    config = IngestConfig(format="rows", paths=(), output=None)
    (piece,) = mds.plan(file, config, Opener())
    (chunk,) = mds.chunks(piece, config, Opener())
    value = list(mds.records(chunk, config))[1].value[column]
    pictures = value if isinstance(value, list) else [value]
    assert len(pictures) == count
    first = load(pictures[0])
    assert (first.width, first.height) == size


def test_pickled_columns_are_refused(tmp_path: Path):
    with pytest.raises(SourceError, match=r"column extra holds pickled objects \(pkl\)"):
        take("mds", PREPARED / "mds-pickled", tmp_path / "d", as_="caption")
    assert not (tmp_path / "d").exists()


def damaged(tmp_path: Path, name: str, change) -> Path:
    folder = tmp_path / "set"
    shutil.copytree(PREPARED / name, folder)
    shard = next(p for p in sorted(folder.rglob("*")) if p.name.startswith("shard"))
    shard.write_bytes(change(shard.read_bytes()))
    return folder


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("mds", lambda data: data[:-1], "600 bytes, index.json says 601"),
        ("mds/train", lambda data: data[:-1] + bytes([data[-1] ^ 1]), "its sha1 is"),
        ("mds-zstd", lambda data: data[:-1] + bytes([data[-1] ^ 1]), "its md5 is"),
    ],
)
def test_damaged_shards_are_refused(tmp_path: Path, name: str, change, says: str):
    with pytest.raises(SourceError, match=says):
        take("mds", damaged(tmp_path, name, change), tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_a_shard_without_its_index_is_looked_at_too(tmp_path: Path):
    folder = damaged(tmp_path, "mds/train", lambda data: data[:-1])
    (folder / "index.json").unlink()
    with pytest.raises(SourceError, match="may be cut off"):
        take("mds", folder / "shard.00000.mds", tmp_path / "d")
    assert take("mds", folder / "shard.00001.mds", tmp_path / "d")[1].tally.kept == 1


def test_sets_that_are_not_whole(saved: Path, tmp_path: Path):
    broken = tmp_path / "broken"
    shutil.copytree(saved / "dict", broken)
    (broken / "train" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(SourceError, match=r"lists data-00000-of-00001\.arrow, which is not there"):
        take("hf", broken, tmp_path / "d")
    shutil.copy(saved / "dict" / "train" / "data-00000-of-00001.arrow", broken / "train")
    file = broken / "train" / "data-00000-of-00001.arrow"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(SourceError, match="the end mark is missing"):
        take("hf", broken, tmp_path / "d")
    file.write_bytes(b"")
    with pytest.raises(SourceError, match="cannot be read"):
        take("hf", broken, tmp_path / "d")
    sharded = tmp_path / "mds"
    shutil.copytree(PREPARED / "mds", sharded)
    os.unlink(sharded / "test" / "shard.00000.mds")
    with pytest.raises(SourceError, match=r"lists shard\.00000\.mds, which is not there"):
        take("mds", sharded, tmp_path / "d")
    index = json.loads((sharded / "test" / "index.json").read_text())
    index["shards"][0]["raw_data"]["basename"] = "../train/shard.00000.mds"
    (sharded / "test" / "index.json").write_text(json.dumps(index))
    with pytest.raises(SourceError, match="leads out of the set"):
        take("mds", sharded, tmp_path / "d")


def test_tars(tmp_path: Path):
    (tmp_path / "set").mkdir()
    for name, first in (("train-0000", 0), ("train-0001", 2), ("val", 4)):
        members = [
            (f"{k}.{end}", data) for k in (first, first + 1) for end, data in (("png", png(k)), ("txt", b"c%d" % k))
        ]
        (tmp_path / "set" / f"{name}.tar").write_bytes(tar(members))
    read_as, result = take("webdataset", tmp_path / "set", tmp_path / "d")
    assert (read_as, result.tally.kept) == ("webdataset", 6)
    assert [(row["text"], row["split"]) for row in rows(tmp_path / "d")] == [
        ("c0", "train"), ("c1", "train"), ("c2", "train"), ("c3", "train"), ("c4", "val"), ("c5", "val"),
    ]  # fmt: skip
    members = [
        ("a.0.png", png(1)),
        ("a.1.png", png(2)),
        ("a.json", b'{"text": "<image>one<image>two", "k": 1}'),
        ("b.json", b"{}"),
    ]
    (tmp_path / "several.tar").write_bytes(tar(members))
    _, result = take("webdataset", tmp_path / "several.tar", tmp_path / "several")
    assert (result.tally.kept, dict(result.tally.excluded)) == (1, {"no_image": 1})
    (row,) = rows(tmp_path / "several")
    assert (row["text"], row["images"], row["k"]) == ("onetwo", [png(1), png(2)], 1)


@pytest.mark.parametrize(("kind", "name"), [("hf", "hf"), ("hf", "parquet"), ("webdataset", "webdataset")])
def test_our_own_exports_come_back_with_their_ids(tmp_path: Path, kind: str, name: str):
    made = [
        example(f"t{k}", *(png(3 * k + n) for n in range(k % 3)), source="ab"[k % 2], split="x", k=k) for k in range(20)
    ]
    write(tmp_path / "raw", made)
    split(SplitConfig(input=tmp_path / "raw", output=tmp_path / "split", ratios=parse_ratios("train=0.7,test=0.3")))
    export(ExportConfig(dataset=tmp_path / "split", output=tmp_path / "out", format=name))
    take(kind, tmp_path / "out", tmp_path / "back")
    before, after = (Dataset.open(tmp_path / n).table("examples")["example_id"].to_pylist() for n in ("split", "back"))
    assert sorted(before) == sorted(after)


def test_impossible_settings(tmp_path: Path):
    with pytest.raises(ConfigError, match="nothing is imported from 'csv'"):
        take("csv", tmp_path, tmp_path / "d")
    with pytest.raises(ConfigError, match="cannot be read as 'ocr'"):
        take("mds", PREPARED / "mds", tmp_path / "d", as_="ocr")
    with pytest.raises(ConfigError, match="cannot be read as 'caption'"):
        take("webdataset", tmp_path, tmp_path / "d", as_="caption")
    with pytest.raises(OutputError, match="lie in each other"):
        take("mds", PREPARED / "mds", PREPARED / "mds" / "out")
    for kind in IMPORTS:
        with pytest.raises(SourceError):
            take(kind, tmp_path / "nothing", tmp_path / "d")
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(SourceError):
            take(kind, tmp_path / "empty", tmp_path / "d")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("data/train-00000-of-00004.parquet", "train"), ("val/0001.tar", "val"), ("train.parquet", "train"),
        ("a/b/test_0.arrow", "test"), ("cc12m-train-0000.tar", None), ("books/0000.parquet", None),
        ("validation2.parquet", "validation"), ("trainers.parquet", None), ("all-00000-of-00001.parquet", "all"),
    ],
)  # fmt: skip
def test_splits_in_names(name: str, expected: str | None):
    assert split_of(name) == expected
