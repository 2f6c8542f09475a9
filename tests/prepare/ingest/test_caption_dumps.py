"""Whole caption dumps: what becomes a record, what a table beside an archive says, and what is missing."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.store.dataset import Dataset
from tests.prepare.ingest import generate_captions as dumps
from tests.prepare.ingest.builders import tar
from tests.prepare.ingest.runs import Ingested

KEPT = dumps.COUNT - 1


def confidences(example) -> list[float | None]:
    return [relation.confidence for relation in example.relations]


def texts(example) -> list[str]:
    return [segment.text for segment in example.segments if segment.kind == "text"]


def test_an_image_entry_of_coco_is_a_record_with_all_its_captions(tmp_path):
    got = Ingested(tmp_path / "out", "caption", dumps.coco(tmp_path / "coco"))
    assert got.counts == (dumps.COUNT, KEPT, 1)
    assert got.exclusions == {"000000000007.jpg": "truncated"}
    assert got.changes["num_captions"] == 5 * KEPT
    example = got.rows["000000000003.jpg"]
    assert texts(example) == [f"Caption {k} of picture 3." for k in (4, 3, 2, 1, 0)]
    assert [relation.segments for relation in example.relations] == [(k,) for k in range(1, 6)]
    facts = got.metadata("000000000003.jpg")
    assert (facts["image_id"], facts["licence"]) == (103, "Attribution License")
    assert facts["annotation_ids"] == [1019, 1018, 1017, 1016, 1015]
    assert Dataset.open(tmp_path / "out").table("provenance")["licence"].to_pylist() == ["Attribution License"] * KEPT


def test_coco_annotations_alone_find_their_pictures_in_images(tmp_path):
    folder = dumps.coco(tmp_path / "coco")
    document = folder / "annotations" / "captions_val2017.json"
    assert Ingested(tmp_path / "out", "caption", document, images=(folder / "val2017",)).counts == (20, 19, 1)
    got = Ingested(tmp_path / "out2", "caption", document, missing_urls=tmp_path / "missing.txt")
    assert set(got.exclusions.values()) == {"asset_missing"}
    assert (tmp_path / "missing.txt").read_text().splitlines() == [dumps.address(n) for n in range(20)]


def test_orphans_and_repeats_of_coco_are_counted(tmp_path):
    folder = dumps.coco(tmp_path / "coco")
    path = folder / "annotations" / "captions_val2017.json"
    document = json.loads(path.read_text())
    document["annotations"] = [
        {"image_id": 100, "id": 1, "caption": "same"},
        {"image_id": 100, "id": 2, "caption": "same"},
        {"image_id": 999, "id": 3, "caption": "of no image"},
        {"image_id": 101, "id": 4, "caption": " "},
    ]
    path.write_text(json.dumps(document))
    got = Ingested(tmp_path / "out", "caption", folder)
    assert got.counts == (20, 1, 19)
    assert texts(got.rows["000000000000.jpg"]) == ["same"]
    assert (got.changes["num_captions"], got.changes["caption_repeated"]) == (2, 1)
    assert got.changes["annotation_without_image"] == 1
    assert got.exclusions["000000000001.jpg"] == "empty_text"
    assert got.exclusions["000000000002.jpg"] == "missing_label"


def test_karpathys_splits(tmp_path):
    folder = dumps.coco(tmp_path / "coco")
    image = {
        "filepath": "val2017",
        "filename": "000000000001.jpg",
        "sentences": [{"raw": "one"}, {"raw": "two"}],
        "split": "val",
    }
    (folder / "dataset_coco.json").write_text(json.dumps({"images": [image], "dataset": "coco"}))
    got = Ingested(tmp_path / "out", "caption", folder / "dataset_coco.json")
    assert texts(got.rows["000000000001.jpg"]) == ["one", "two"]
    assert got.metadata("000000000001.jpg") == {"split": "val"}


def test_a_document_of_another_layout_is_refused(tmp_path):
    (tmp_path / "x.json").write_text('{"image_urls": ["a"], "captions": []}')
    with pytest.raises(SourceError, match="neither a list of rows nor a map of pictures nor COCO nor columns"):
        Ingested(tmp_path / "out", "caption", tmp_path / "x.json")


@pytest.mark.parametrize("name", sorted(dumps.BY_ADDRESS))
def test_dumps_of_addresses_with_a_store_of_pictures(tmp_path, name):
    dump = dumps.BY_ADDRESS[name](tmp_path / "dump")
    got = Ingested(tmp_path / "out", "caption", dump, url_maps=(dumps.store(tmp_path),))
    assert got.counts == (dumps.COUNT, KEPT, 1)
    assert got.exclusions == {"8": "truncated"}
    assert got.metadata("1")["url"] == dumps.address(0)


def test_every_generated_caption_has_its_own_similarity(tmp_path):
    fields = {"caption": "all_captions", "confidence": "all_similarities"}
    dump = dumps.laion_coco(tmp_path / "dump")
    got = Ingested(tmp_path / "out", "caption", dump, url_maps=(dumps.store(tmp_path),), fields=fields)
    assert texts(got.rows["1"]) == ["best 0", "other 0"]
    assert confidences(got.rows["1"]) == [0.5, 0.25]
    assert got.metadata("1")["punsafe"] == 0.01
    default = Ingested(tmp_path / "out2", "caption", dump, url_maps=(tmp_path / "url_map.jsonl",))
    assert texts(default.rows["1"]) == ["best 0"]
    assert confidences(default.rows["1"]) == [0.3]


def test_a_first_line_with_an_address_is_data_in_every_slice(tmp_path):
    dump = dumps.cc3m(tmp_path / "dump")
    got = Ingested(tmp_path / "out", "caption", dump, url_maps=(dumps.store(tmp_path),), unit_size=100)
    assert got.counts == (dumps.COUNT, KEPT, 1)
    assert texts(got.rows["1"]) == ['a "nice" caption 0']
    assert texts(got.rows["20"]) == ['a "nice" caption 19']


# ------------------------------------------------------------------ tables beside archives
def test_rows_of_a_table_beside_a_tar_go_with_its_samples(tmp_path):
    got = Ingested(tmp_path / "out", "caption", dumps.img2dataset(tmp_path / "dump"))
    assert got.counts == (dumps.COUNT, KEPT, 1)
    assert got.exclusions == {"000000007": "truncated"}
    assert got.changes["side_table_row"] == 20
    assert got.changes["side_table_failed"] == 3
    assert confidences(got.rows["000000002"]) == [0.32]
    facts = got.metadata("000000002")
    assert {key: facts[key] for key in ("status", "sha256", "punsafe", "NSFW", "width")} == {
        "status": "success", "sha256": "0" * 64, "punsafe": 0.01, "NSFW": "UNLIKELY", "width": 12,
    }  # fmt: skip
    inputs = {row["input"]: row["read"] for row in Dataset.open(tmp_path / "out").table("inputs").to_pylist()}
    assert inputs == {"00000.tar": 20, "00000.parquet": None}


def test_another_table_beside_the_tar_is_another_input(tmp_path):
    folder = dumps.img2dataset(tmp_path / "dump")
    first = Ingested(tmp_path / "out", "webdataset", folder / "00000.tar")
    assert Ingested(tmp_path / "out", "webdataset", folder / "00000.tar").result.unchanged
    table = pq.read_table(folder / "00000.parquet")
    at = table.schema.get_field_index("punsafe")
    pq.write_table(table.set_column(at, "punsafe", pa.array([0.9] * table.num_rows)), folder / "00000.parquet")
    again = Ingested(tmp_path / "out", "webdataset", folder / "00000.tar", overwrite=True)
    assert not again.result.unchanged
    assert again.result.dataset != first.result.dataset
    assert again.metadata("000000002")["punsafe"] == 0.9


def test_a_broken_table_beside_a_tar_is_named(tmp_path):
    folder = dumps.img2dataset(tmp_path / "dump")
    data = (folder / "00000.parquet").read_bytes()
    (folder / "00000.parquet").write_bytes(data[:-5])
    with pytest.raises(SourceError, match=r"00000\.parquet: the table beside 00000\.tar cannot be read"):
        Ingested(tmp_path / "out", "caption", folder)
    got = Ingested(tmp_path / "out", "caption", folder, salvage=True)
    assert got.counts == (20, 19, 1)
    assert got.changes["side_table_unreadable"] == 1


def test_a_table_without_keys_says_nothing(tmp_path):
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "a.tar").write_bytes(tar([("1.jpg", dumps.photo(1)), ("1.txt", b"one")]))
    pq.write_table(pa.table({"url": ["x"], "caption": ["other"]}), tmp_path / "dump" / "other.parquet")
    got = Ingested(tmp_path / "out", "caption", tmp_path / "dump")
    assert got.metadata("1") == {}


# ------------------------------------------------------------------ addresses without files
FORMS = {
    "m.txt": "https://pictures.example/7.jpg\n",
    "m.csv": 'url,caption\nhttps://pictures.example/7.jpg,"a ""nice"" caption 7"\n',
    "m.tsv": 'url\tcaption\nhttps://pictures.example/7.jpg\t"a ""nice"" caption 7"\n',
    "m.jsonl": '{"url":"https://pictures.example/7.jpg","caption":"a \\"nice\\" caption 7"}\n',
}


@pytest.fixture
def lacking(tmp_path):
    """A dump of which one picture was not fetched."""
    dump, urls = dumps.cc3m(tmp_path / "dump"), dumps.store(tmp_path)
    (tmp_path / "store" / "7.jpg").unlink()
    return {"paths": dump, "url_maps": (urls,)}


@pytest.mark.parametrize("name", sorted(FORMS))
def test_missing_addresses_are_written_after_the_commit(tmp_path, lacking, name):
    dump, settings = lacking.pop("paths"), lacking
    for unchanged in (False, True):
        got = Ingested(tmp_path / "out", "caption", dump, missing_urls=tmp_path / name, **settings)
        assert got.result.unchanged is unchanged
        assert (tmp_path / name).read_text() == FORMS[name]
        (tmp_path / name).unlink()
    (row,) = Dataset.open(tmp_path / "out").table("missing").to_pylist()
    caption = 'a "nice" caption 7'
    assert row == {"input": "train.tsv", "position": "8", "url": dumps.address(7), "caption": caption}


def test_missing_addresses_as_parquet(tmp_path, lacking):
    dump = lacking.pop("paths")
    Ingested(tmp_path / "out", "caption", dump, missing_urls=tmp_path / "m.parquet", **lacking)
    assert pq.read_table(tmp_path / "m.parquet").to_pylist() == [
        {"url": dumps.address(7), "caption": 'a "nice" caption 7'}
    ]


def test_another_file_in_its_place_is_kept(tmp_path, lacking):
    dump = lacking.pop("paths")
    (tmp_path / "m.txt").write_text("mine")
    with pytest.raises(OutputError, match="is committed"):
        Ingested(tmp_path / "out", "caption", dump, missing_urls=tmp_path / "m.txt", **lacking)
    assert (tmp_path / "m.txt").read_text() == "mine"
    Ingested(tmp_path / "out", "caption", dump, missing_urls=tmp_path / "m.txt", overwrite=True, **lacking)
    assert (tmp_path / "m.txt").read_text() == FORMS["m.txt"]


def test_nothing_is_written_where_nothing_is_committed(tmp_path, lacking):
    dump = lacking.pop("paths")
    with pytest.raises(ConfigError, match="--dry-run"):
        Ingested(tmp_path / "out", "caption", dump, missing_urls=tmp_path / "m.txt", dry_run=True, **lacking)
    for place in (dump, tmp_path / "out" / "m.txt"):
        with pytest.raises(ConfigError, match="--missing-urls"):
            Ingested(tmp_path / "out", "caption", dump, missing_urls=place, **lacking)
    with pytest.raises(OutputError, match="no folder"):
        Ingested(tmp_path / "out", "caption", dump, missing_urls=tmp_path / "no" / "m.txt", **lacking)
    assert not (tmp_path / "out").exists()


def test_no_missing_address_is_an_empty_list(tmp_path):
    got = Ingested(
        tmp_path / "out", "caption", dumps.cc3m(tmp_path / "dump"), url_maps=(dumps.store(tmp_path),),
        missing_urls=tmp_path / "m.csv",
    )  # fmt: skip
    assert got.counts == (20, 19, 1)
    assert (tmp_path / "m.csv").read_text() == "url,caption\n"


# ------------------------------------------------------------------ privacy marks
def test_marks_are_columns_to_filter_by(tmp_path):
    rows = "image,caption\na.png,write to me@example.org\nb.png,call +49 30 1234567\na.png,neither\n"
    (tmp_path / "t.csv").write_text(rows)
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(dumps.photo(1))
    Ingested(tmp_path / "out", "caption", tmp_path / "t.csv")
    dataset = Dataset.open(tmp_path / "out")
    marks = dataset.table("examples", ["has_email", "has_phone"])
    assert marks["has_email"].to_pylist() == [True, False, False]
    assert marks["has_phone"].to_pylist() == [False, True, False]
    assert dataset.table("assets")["has_gps"].to_pylist() == [False]
