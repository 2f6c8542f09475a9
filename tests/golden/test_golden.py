"""What must never change without a new format version: bytes of shards, ids of a whole road, old datasets readable.

Where one of these fails and the change is meant, raise the version in store/schema.py (or the one of the decoder, recipe
or packer that changed) and run `python -m tools.make_golden`; datasets of older versions stay.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.cli import run
from shardkit.store.dataset import Dataset
from shardkit.store.schema import FORMAT_VERSIONS
from tests.journey.road import Road, content, dataset_id
from tools.make_golden import book, ingest

GOLDEN = Path(__file__).resolve().parent
TEXTS = [
    "Am Ma\u017ftbaum gelehnt, auf dem hohen Verdeck,",
    "Muthe, wenn ich allein in der Da\u0364mmerung",
    "nicht, da\u00df jemals ein Schulknabe im alten Rom",
]
STORED = sorted(path.parent for path in GOLDEN.glob("*/manifest.json"))


def identity(dataset: Path) -> dict[str, bytes]:
    """Shards and manifest. Tables enter by their rows, which the manifest digests: another Parquet writer may differ."""
    return {
        name: data for name, data in content(dataset).items() if name.startswith("shards/") or name == "manifest.json"
    }


@pytest.mark.parametrize("shards", ["arrow", "tar"])
def test_the_same_lines_give_the_stored_bytes(sample, tmp_path, shards):
    out = tmp_path / "out"
    ingest(book(sample, tmp_path / "lines"), out, shards)
    name = f"{shards}-{FORMAT_VERSIONS['dataset']}.{FORMAT_VERSIONS[shards]}"
    assert identity(out) == identity(GOLDEN / name)


@pytest.mark.parametrize("dataset", STORED, ids=lambda path: path.name)
def test_stored_datasets_of_every_version_are_read(dataset, capsys):
    assert run(["verify", str(dataset), "--deep", "--quiet"]) == 0
    examples = [example for _, _, example in Dataset.open(dataset).examples()]
    assert [example.text for example in examples] == TEXTS
    assert [len(example.images) for example in examples] == [1] * len(TEXTS)


def test_both_formats_are_stored():
    assert {path.name.split("-")[0] for path in STORED} == {"arrow", "tar"}


def test_ids_of_the_whole_road(road: Road):
    ids = {name: dataset_id(path) for name, path in road.stages.items()}
    assert ids == json.loads((GOLDEN / "ids.json").read_bytes())
