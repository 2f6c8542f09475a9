"""IIT-CDIP documents: every page of a TIFF with its part of the text."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import iit_cdip
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest import generate_iit_cdip
from tests.prepare.ingest.builders import tiff
from tests.prepare.ingest.runs import Ingested


@pytest.mark.parametrize("kind", ["iit-cdip", "ocr"])
def test_twenty_documents_of_which_one_is_broken(tmp_path, kind):
    num_pages = generate_iit_cdip.write(tmp_path / "in", 20)
    got = Ingested(tmp_path / "out", kind, tmp_path / "in")
    assert (got.counts, num_pages) == ((num_pages + 1, num_pages, 1), 37)
    broken = generate_iit_cdip.BROKEN
    assert got.exclusions == {f"imagesa/a/a/a/{broken}/{broken}": "label_pages"}
    stem = "imagesa/a/a/a/aaa05a00/aaa05a00"
    assert [got.rows[f"{stem}#{page}"].text for page in (1, 2, 3)] == generate_iit_cdip.pages(5)
    assert {got.rows[f"{stem}#{page}"].group for page in (1, 2, 3)} == {"aaa05a00"}
    assert got.metadata(f"{stem}#2") == {
        "dd": "19830102", "document_id": "aaa05a00", "dt": "LETTER", "page": 2, "pages": 3, "tid": "aaa05a00",
        "ti": "Smith & Sons",
    }  # fmt: skip
    texts = [got.rows[f"imagesa/a/a/a/aaa11a00/aaa11a00#{page}"].text for page in (1, 2, 3)]
    assert texts == generate_iit_cdip.pages(11)


def test_text_behind_the_last_page_mark_has_no_page():
    with pytest.raises(Bad, match="last page mark"):
        iit_cdip.read_text(b"one\npgNbr=1\ntwo", Counter())


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        (b"<root><record><tid>a</tid></record></root>", "bad_label"),
        (b"<root><ot>cut", "invalid_xml"),
        (b'<!DOCTYPE r [<!ENTITY a "b">]><root><ot>&a;</ot></root>', "document_type"),
    ],
)
def test_a_record_that_is_none_is_excluded(xml, reason):
    with pytest.raises(Bad) as bad:
        iit_cdip.read_record(xml, Counter())
    assert bad.value.reason == reason


def test_a_picture_named_by_its_number_belongs_to_the_record_of_its_folder(tmp_path):
    place = tmp_path / "in" / "imagesa" / "a" / "a" / "a" / "aaa00a00"
    place.mkdir(parents=True)
    (place / "60008366_8367.tif").write_bytes(tiff(2))
    (place / "aaa00a00.xml").write_bytes(generate_iit_cdip.record("aaa00a00", ["one", "two"]))
    for kind in ("iit-cdip", "ocr", "auto"):
        got = Ingested(tmp_path / kind, kind, tmp_path / "in")
        assert [row.text for _, row in sorted(got.rows.items())] == ["one", "two"]
        assert {row.group for row in got.rows.values()} == {"aaa00a00"}


def test_a_record_names_its_document_and_says_things_once():
    xml = (
        b"<record><docid>abc00d00</docid><A><dt>LETTER</dt><au>Smith</au></A>"
        b"<LTDLWOCR><tid>x</tid><dt>LETTER</dt><au>Jones</au><ot>text\npgNbr=1\n</ot></LTDLWOCR></record>"
    )
    label = iit_cdip.read_record(xml, Counter())
    assert label.document("folder/60008366") == {"document_id": "abc00d00"}
    assert (label.fields["dt"], label.fields["au"]) == ("LETTER", "Smith; Jones")


def test_the_records_of_many_documents_in_one_file_are_no_label():
    with pytest.raises(Bad, match="2 records"):
        iit_cdip.read_record(b"<root><record><ot>a</ot></record><record><ot>b</ot></record></root>", Counter())
