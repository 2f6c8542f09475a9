"""The shared real dumps, with the counts that their SOURCE.md states."""

from __future__ import annotations

import json

import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig, IngestResult, run
from shardkit.store.dataset import Dataset
from tests.prepare.ingest.builders import examples


def ingest(out, kind: str, *paths, **settings) -> IngestResult:
    return run(IngestConfig(format=kind, paths=paths, output=out, **settings))


def counts(result: IngestResult) -> tuple[int, int, int]:
    return result.tally.read, result.tally.kept, sum(result.tally.excluded.values())


def test_a_shard_of_cc12m_whose_members_are_unsorted(shared, tmp_path):
    result = ingest(tmp_path / "out", "caption", shared / "data" / "captions_cc12m" / "cc12m-train-0000.tar")
    assert counts(result) == (32, 32, 0)
    example = examples(tmp_path / "out")["000000003"]
    assert example.text == "Red Square is a city square in Moscow, Russia."
    assert json.loads(example.metadata)["original_width"] == 1024
    assert "exif" not in json.loads(example.metadata)


def test_alt_texts_of_one_picture_are_one_example(shared, tmp_path):
    result = ingest(tmp_path / "out", "caption", shared / "data" / "captions_alttext")
    assert counts(result) == (130, 130, 0)
    relations = [relation for e in examples(tmp_path / "out").values() for relation in e.relations]
    assert len(relations) == result.tally.changes["num_captions"] == 222
    assert result.tally.changes["side_table_row"] == 130
    assert json.loads(examples(tmp_path / "out")["000000000"].metadata)["sha256"].startswith("0656f11b")
    assert {relation.kind for relation in relations} == {"caption"}


LAION, CC12M = "laion_urltext.parquet", "laion_cc12m_style.tsv"


@pytest.mark.parametrize(("names", "read"), [((LAION,), 974), ((CC12M,), 300), ((LAION, CC12M), 1274), ((".",), 1274)])
def test_addresses_without_files_are_all_excluded_as_missing(shared, tmp_path, names, read):
    paths = [shared / "data" / "captions_urltext" / name for name in names]
    missing = tmp_path / "missing.tsv"
    result = ingest(tmp_path / "out", "caption", *paths, max_bad=1.0, missing_urls=missing)
    assert counts(result) == (read, 0, read)
    assert dict(result.tally.excluded) == {"asset_missing": read}
    lines = missing.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "url\tcaption"
    assert all("\t" in line and line.startswith("http") for line in lines[1:])
    # The 300 rows of the TSV stand in the table as well.
    assert len(lines) - 1 == min(read, 974)


def test_both_lists_of_addresses_are_too_bad_to_commit(shared, tmp_path):
    paths = [shared / "data" / "captions_urltext" / name for name in (LAION, CC12M)]
    with pytest.raises(SourceError, match="1274 of 1274 records are bad"):
        ingest(tmp_path / "out", "caption", *paths, missing_urls=tmp_path / "missing.txt")
    assert not (tmp_path / "missing.txt").exists()


def test_a_folder_of_which_some_files_are_of_another_kind_is_refused_and_they_are_named(shared, tmp_path):
    with pytest.raises(SourceError, match="538 of 1856 records are bad") as error:
        ingest(tmp_path / "out", "auto", shared / "data" / "neardup_text")
    assert error.value.hint is not None
    assert error.value.hint.startswith(
        "not one record of articles_pairs.jsonl, pages_pairs.jsonl, planted_truth.jsonl is kept: give the files"
    )


def test_a_folder_of_a_list_and_a_table_of_the_same_rows_is_ambiguous(shared, tmp_path):
    with pytest.raises(SourceError, match=r"formats paddleocr \(test.txt\) and caption \(lines.jsonl\)"):
        ingest(tmp_path / "out", "auto", shared / "data" / "ocr_lines_zh")


def test_lines_of_nineteen_books(shared, tmp_path):
    book = "@path:([^/]+)_[0-9]+_[0-9]+"
    result = ingest(tmp_path / "out", "ocr", shared / "data" / "ocr_lines_dta", group_by=book, unit_size=200_000)
    assert counts(result) == (178, 178, 0)
    groups = Dataset.open(tmp_path / "out").table("examples")["group"].to_pylist()
    assert len(set(groups)) == 19
    assert "heine_reisebilder02_1827" in groups


@pytest.mark.parametrize(("policy", "kept"), [(None, 525), ("drop-document", 454)])
def test_interleaved_pages_with_pictures_that_are_not_there(shared, tmp_path, policy, kept):
    pages = shared / "data" / "obelics_pages"
    result = ingest(
        tmp_path / "out", "obelics", pages / "obelics.parquet", url_maps=(pages / "url_map.jsonl",), images=(pages,),
        on_missing_image=policy, max_bad=1.0,
    )  # fmt: skip
    assert counts(result) == (525, kept, 525 - kept)
    # 62 documents name a picture that is not there, 9 others a drawing (SVG); one has both, the drawing first.
    reasons = {} if policy is None else {"asset_missing": 61, "unsupported_format": 10}
    assert dict(result.tally.excluded) == reasons
    if policy is None:
        assert result.tally.changes["image_slots"] == 962
        assert result.tally.changes["image_dropped"] == 160
        groups = Dataset.open(tmp_path / "out").table("examples")["group"].to_pylist()
        assert all(group.startswith("https://") for group in groups)


def test_interleaved_pages_with_the_bytes_in_the_row(shared, tmp_path):
    result = ingest(tmp_path / "out", "obelics", shared / "data" / "obelics_pages" / "obelics_bytes.parquet")
    assert counts(result) == (10, 10, 0)
    assert result.tally.changes["image_slots"] == 20


def test_texts(shared, tmp_path):
    result = ingest(tmp_path / "out", "text", shared / "data" / "chat" / "pretrain.jsonl")
    assert counts(result) == (270, 270, 0)
