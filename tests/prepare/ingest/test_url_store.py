"""Local stores of fetched pictures: files named by digests of addresses, tars and tables of img2dataset."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.prepare.ingest.url_map import load_maps, map_files
from tests.prepare.ingest.builders import examples, jsonl, packed, picture, tar

URLS = [f"https://host/{number}.png?size=2" for number in range(4)]
DOCUMENTS = [{"images": [None, url], "texts": [f"text {number}", None]} for number, url in enumerate(URLS)]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    load_maps.cache_clear()
    path = tmp_path / "in" / "documents.jsonl"
    path.parent.mkdir()
    path.write_bytes(jsonl(DOCUMENTS))
    return path


def pictures_of(documents: Path, out: Path, **settings: object) -> list[int]:
    """How many pictures each document has."""
    run(IngestConfig(format="obelics", paths=(documents,), output=out, **settings))
    return [len(example.images) for _, example in sorted(examples(out).items())]


def table(path: Path, rows: list[dict[str, object]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def img2dataset(folder: Path, *, as_tar: bool, with_table: bool) -> None:
    """A shard of three rows: two pictures, one that could not be fetched."""
    folder.mkdir(exist_ok=True)
    keys = ["000000000", "000000001"]
    files = [(f"{key}.png", picture(number)) for number, key in enumerate(keys)]
    facts = [(f"{key}.json", json.dumps({"url": URLS[n], "key": key}).encode()) for n, key in enumerate(keys)]
    if as_tar:
        (folder / "00000.tar").write_bytes(tar(sorted(files + facts)))
    else:
        (folder / "00000").mkdir()
        for name, data in files + facts:
            (folder / "00000" / name).write_bytes(data)
    if with_table:
        rows = [{"url": URLS[n], "key": key, "status": "success"} for n, key in enumerate(keys)]
        rows.append({"url": URLS[2], "key": "000000002", "status": "failed_to_download"})
        table(folder / "00000.parquet", rows)


@pytest.mark.parametrize("name", ["sha256", "sha1", "md5"])
@pytest.mark.parametrize("form", ["{}.png", "{}.jpg", "{}", "{0:.2}/{0}.webp"])
def test_a_file_is_found_by_the_digest_of_its_address(documents, tmp_path, name, form):
    path = tmp_path / "store" / form.format(hashlib.new(name, URLS[1].encode()).hexdigest())
    path.parent.mkdir(parents=True)
    path.write_bytes(picture())
    assert pictures_of(documents, tmp_path / "out", images=(tmp_path / "store",)) == [0, 1, 0, 0]


@pytest.mark.parametrize(("as_tar", "with_table"), [(True, True), (True, False), (False, True)])
def test_pictures_of_img2dataset_are_found_by_their_keys(documents, tmp_path, as_tar, with_table):
    store = tmp_path / "store"
    img2dataset(store, as_tar=as_tar, with_table=with_table)
    assert pictures_of(documents, tmp_path / "out", url_maps=(store,)) == [1, 1, 0, 0]
    first = examples(tmp_path / "out")["1"].images[0]
    assert bytes(first.data) == picture(0)


def test_a_table_may_be_named_alone(documents, tmp_path):
    img2dataset(tmp_path / "store", as_tar=True, with_table=True)
    assert pictures_of(documents, tmp_path / "out", url_maps=(tmp_path / "store" / "00000.parquet",)) == [1, 1, 0, 0]


def test_a_table_lies_in_a_folder_of_any_name(documents, tmp_path):
    img2dataset(tmp_path / "store", as_tar=True, with_table=True)
    store = (tmp_path / "store").rename(tmp_path / os.fsdecode(b"caf\xe9"))
    assert pictures_of(documents, tmp_path / "out", url_maps=(store,)) == [1, 1, 0, 0]


def test_a_picture_that_comes_later_is_noticed(documents, tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    config = IngestConfig(format="obelics", paths=(documents,), output=tmp_path / "out", images=(store,))
    run(config)
    assert run(config).unchanged
    (store / hashlib.sha256(URLS[0].encode()).hexdigest()).write_bytes(picture())
    with pytest.raises(Exception, match="other bytes"):
        run(config)


def test_what_is_no_store_is_refused_by_name(tmp_path):
    load_maps.cache_clear()
    with pytest.raises(SourceError, match="no tables or tars"):
        map_files((tmp_path,))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "link.tar").symlink_to("/etc/hostname")
    with pytest.raises(SourceError, match="leads out"):
        map_files((tmp_path / "store",))
    table(tmp_path / "other.parquet", [{"address": "x"}])
    with pytest.raises(SourceError, match="url and key"):
        load_maps((str(tmp_path / "other.parquet"),))
    (tmp_path / "cut.tar").write_bytes(tar([("a.png", picture())])[:600])
    with pytest.raises(SourceError, match="damaged"):
        load_maps((str(tmp_path / "cut.tar"),))
    (tmp_path / "packed.tar").write_bytes(packed(tar([("a.png", picture())])))
    with pytest.raises(SourceError, match="packed"):
        load_maps((str(tmp_path / "packed.tar"),))
