"""Every export format is read by the library that it is for, with the rows and pictures that went in; has help and a page."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from shardkit.cli.export import EPILOG
from shardkit.digest import sha256
from shardkit.prepare.export import EXPORTS, ExportConfig, run
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"

HUGGING_FACE = """
import io, json, os, sys
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=sys.argv[2])
import datasets
sets = datasets.load_dataset(sys.argv[1])
assert all(isinstance(s.features["images"].feature, datasets.Image) for s in sets.values())
plain = {name: s.cast_column("images", datasets.List(datasets.Image(decode=False))) for name, s in sets.items()}
print(json.dumps({name: [[row["text"], [image.size for image in row["images"]], [i["bytes"].hex() for i in p["images"]]]
                         for row, p in zip(s, plain[name])] for name, s in sets.items()}))
"""
WEBDATASET = """
import glob, json, sys
import webdataset
found = {}
for name in ("train", "test"):
    rows = webdataset.WebDataset(sorted(glob.glob(f"{sys.argv[1]}/{name}-*.tar")), shardshuffle=False)
    found[name] = []
    for row in rows:
        told = json.loads(row["json"])
        pictures = [row[image.partition(".")[2]] for image in told["images"]]
        found[name].append([told["text"], [size[::-1] for size in told["image_sizes"]], [p.hex() for p in pictures]])
print(json.dumps(found))
"""
ROWS = """
import json, sys
from pathlib import Path
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.store import Dataset
found = {}
for name in ("train", "test"):
    paths = tuple(sorted(p for p in Path(sys.argv[1]).glob(f"{name}-*") if p.is_file()))
    run(IngestConfig(format="rows", paths=paths, output=Path(sys.argv[2]) / name))
    examples = [e for _, _, e in Dataset.open(Path(sys.argv[2]) / name).examples()]
    found[name] = [["<image>" * len(e.images) + e.text, [[i.width, i.height] for i in e.images], [i.data.hex() for i in e.images]]
                   for e in examples]
print(json.dumps(found))
"""
CROISSANT = """
import io, json, sys
import mlcroissant
described = mlcroissant.Dataset(sys.argv[1] + "/croissant.json")
assert not described.metadata.ctx.issues.errors and not described.metadata.ctx.issues.warnings
found = {}
for name in ("train", "test"):
    found[name] = [[row[f"{name}/text"].decode(), [image.size for image in row[f"{name}/images"]],
                    [image.fp.getvalue().hex() for image in row[f"{name}/images"]]] for row in described.records(name)]
print(json.dumps(found))
"""
READERS = {
    "hf": ("datasets", HUGGING_FACE),
    "webdataset": ("webdataset", WEBDATASET),
    "jsonl": ("shardkit", ROWS),
    "parquet": ("shardkit", ROWS),
    "croissant": ("mlcroissant", CROISSANT),
}
"""Format -> the library that reads it, and a script that prints {split: [[text, [[width, height]], [bytes in hex]]]}."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("exports")
    rows = [
        example(f"text {k} \u4e2d", *(png(3 * k + n, side=5 + n) for n in range(1 + k % 2)), source="ab"[k % 2])
        for k in range(30)
    ]
    write(root / "raw", rows, licences=dict.fromkeys(range(30), "MIT"))
    split(SplitConfig(input=root / "raw", output=root / "split", ratios=parse_ratios("train=0.7,test=0.3")))
    return root / "split"


def test_the_tables_agree():
    assert set(READERS) == set(EXPORTS)


@pytest.mark.parametrize("name", EXPORTS)
def test_its_library_reads_it(dataset: Path, tmp_path: Path, name: str):
    library, script = READERS[name]
    if find_spec(library) is None:
        pytest.skip(f"unavailable: {library} is not installed")
    about = {"url": "https://example.org/set", "creators": ("An Owner",), "published": "2026-01-02", "citation": "none"}
    config = ExportConfig(dataset=dataset, output=tmp_path / "out", format=name, shard_size=2500)
    run(ExportConfig(**{f: getattr(config, f) for f in config.__slots__} | {"about": type(config.about)(**about)}))
    # In a process of its own: another library's warnings and caches stay out of this one.
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "out"), str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    there = Dataset.open(dataset)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        split_name: [
            [
                "<image>" * len(e.images) + e.text,
                [[one.width, one.height] for one in e.images],
                [one.data.hex() for one in e.images],
            ]
            for _, _, e in there.examples(split_name)
        ]
        for split_name in there.splits
    }


def test_a_split_without_rows_does_not_keep_the_others_from_being_read(tmp_path: Path):
    if find_spec("datasets") is None:
        pytest.skip("unavailable: datasets is not installed")
    write(tmp_path / "raw", [example(f"text {k}", png(k), group="one") for k in range(5)])
    ratios = parse_ratios("train=0.9,test=0.1")
    split(SplitConfig(input=tmp_path / "raw", output=tmp_path / "split", ratios=ratios, allow_empty=True))
    run(ExportConfig(dataset=tmp_path / "split", output=tmp_path / "out", format="hf"))
    command = [sys.executable, "-W", "ignore", "-c", HUGGING_FACE, str(tmp_path / "out"), str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [len(rows) for rows in json.loads(done.stdout.splitlines()[-1]).values()] == [5]


@pytest.mark.parametrize("name", EXPORTS)
def test_it_has_help_and_a_page(name: str):
    assert f"\n  {name} " in EPILOG
    assert f"`{name}`" in (DOCS / "export.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPORTS)
def test_the_note_lists_every_file(dataset: Path, tmp_path: Path, name: str):
    run(ExportConfig(dataset=dataset, output=tmp_path / "out", format=name))
    note = json.loads((tmp_path / "out" / "shardkit-export.json").read_bytes())
    listed = {file["path"]: file["sha256"] for file in note["files"]}
    for file in (p for p in (tmp_path / "out").rglob("*") if p.is_file()):
        relative = file.relative_to(tmp_path / "out").as_posix()
        if relative != "shardkit-export.json":
            assert sha256(file.read_bytes()) == (listed.get(relative) or file.stem)
