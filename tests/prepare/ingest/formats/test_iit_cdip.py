"""IIT-CDIP documents: every page of a TIFF with its part of the text."""

from __future__ import annotations

from collections import Counter

import pytest

from shardkit.prepare.ingest.formats import iit_cdip
from shardkit.prepare.ingest.reasons import Bad
from tests.prepare.ingest import generate_iit_cdip
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
