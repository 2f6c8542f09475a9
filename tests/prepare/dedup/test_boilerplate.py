"""Lines that a site repeats: which are found, which are left alone, and that only content decides."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.boilerplate import paragraphs, site_of
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.run import run as ingest
from shardkit.records import Example, Relation, Segment, example_id
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write

NAVIGATION = "Home | News | Gallery | Contact"
WORDS = Path(__file__).read_text(encoding="utf-8").split()


def words(number: int) -> str:
    """A paragraph of its own."""
    return " ".join(Random(number).choices(WORDS, k=30))


def document(number: int, *lines: str, site: str = "harbour.example", **given) -> Example:
    return example("\n".join([*lines, words(number)]), url=f"http://www.{site}/{number}.html", **given)


def site(count: int, *lines: str, start: int = 0, name: str = "harbour.example", **given) -> list[Example]:
    return [document(number, *lines, site=name, **given) for number in range(start, start + count)]


def found(folder: Path, rows: list[Example], **options) -> list[dict]:
    """Rows of tables/paragraphs after a dedup of the rows."""
    write(folder / "a", rows, unit_rows=7)
    run(DedupConfig(inputs=(folder / "a",), output=folder / "c", **options))
    return Dataset.open(folder / "c").table("paragraphs").to_pylist()


def test_a_line_on_more_documents_of_a_site_than_the_limit_is_reported(tmp_path: Path):
    rows = [*site(21, NAVIGATION, words(-1)), *site(20, "Archive", words(-2), start=100, name="quay.example")]
    write(tmp_path / "a", rows)
    result = run(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c"))
    table = Dataset.open(tmp_path / "c").table("paragraphs").to_pylist()
    assert [(row["site"], row["documents"], row["site_documents"]) for row in table] == [
        ("harbour.example", 21, 21)
    ] * 2
    assert "home | news | gallery | contact" in {row["excerpt"] for row in table}
    assert all(len(row["paragraph"]) == 32 for row in table)
    report = result.report["boilerplate"]
    assert (report["paragraphs"], report["sites"], report["documents"]) == (2, 1, 21)
    assert report["top"][0]["site"] == "harbour.example"
    assert result.counts["kept"] == 41


def test_a_share_of_the_site_is_asked_too(tmp_path: Path):
    rows = [*site(4, NAVIGATION, words(-1)), *site(36, "Notes", start=50)]
    assert {row["excerpt"] for row in found(tmp_path, rows, boilerplate_min=3)} == {"notes"}
    assert len(found(tmp_path / "less", rows, boilerplate_min=3, boilerplate_share=0.09)) == 3


def test_sites_are_told_apart(tmp_path: Path):
    rows = [row for number in range(10) for row in site(2, NAVIGATION, start=10 * number, name=f"site{number}.example")]
    assert found(tmp_path, rows, boilerplate_min=2) == []


def test_hosts_of_one_domain_are_one_site(tmp_path: Path):
    rows = [*site(2, NAVIGATION, name="a.harbour.example"), *site(2, NAVIGATION, start=9, name="b.harbour.example")]
    assert [row["documents"] for row in found(tmp_path, rows, boilerplate_min=3)] == [4]


def test_the_compared_form_is_counted_and_once_a_document(tmp_path: Path):
    rows = [*site(2, NAVIGATION.upper(), NAVIGATION), *site(2, f"  {NAVIGATION} ", start=9)]
    assert [row["documents"] for row in found(tmp_path, rows, boilerplate_min=3)] == [4]
    assert found(tmp_path / "four", rows, boilerplate_min=4) == []


def test_copies_that_dedup_leaves_out_do_not_count(tmp_path: Path):
    text = f"{NAVIGATION}\n{words(1)}"
    rows = [example(text, url=f"http://harbour.example/{number}") for number in range(6)]
    assert found(tmp_path, rows, boilerplate_min=1) == []


def test_captions_dialogues_and_single_lines_are_left_alone(tmp_path: Path):
    url = "http://harbour.example/1"
    captions = [example(f"{NAVIGATION}\n{words(n)}", png(n), url=url) for n in range(4)]
    dialogues = [example(turns=[("user", NAVIGATION), ("assistant", words(n))], url=url) for n in range(10, 14)]
    single = [example(words(n), png(n), source="s", url=url) for n in range(20, 24)]
    assert found(tmp_path, [*captions, *dialogues, *single], boilerplate_min=1) == []


def test_segments_of_a_document_with_pictures_are_paragraphs(tmp_path: Path):
    def interleaved(number: int) -> Example:
        made = example(None, png(number), url=f"http://harbour.example/{number}")
        segments = (
            Segment(kind="text", text=NAVIGATION),
            *made.segments,
            Segment(kind="text", text=words(number)),
        )
        made = replace(made, segments=segments, relations=(Relation(kind="interleaved", images=(0,)),))
        return replace(made, example_id=example_id(made))

    rows = [interleaved(number) for number in range(4)]
    assert [row["documents"] for row in found(tmp_path, rows, boilerplate_min=3)] == [4]


def test_neither_workers_nor_order_decide(tmp_path: Path):
    rows = [*site(9, NAVIGATION, "Archive"), *site(9, NAVIGATION, "Imprint", start=50, name="quay.example")]
    one = found(tmp_path / "one", rows, boilerplate_min=3)
    other = found(tmp_path / "other", Random(1).sample(rows, len(rows)), boilerplate_min=3, workers=2)
    assert len(one) == 4
    assert one == other


def test_references_do_not_count(tmp_path: Path):
    write(tmp_path / "old", site(9, NAVIGATION))
    rows = site(3, NAVIGATION, start=50)
    assert found(tmp_path, rows, boilerplate_min=3, references=(tmp_path / "old",)) == []


def test_paragraphs_are_lines_and_segments_of_some_length():
    assert paragraphs(["One  line\nand\u2028another", "1.\n\n---\nONE line", "last"]) == ("one line", "another", "last")


@pytest.mark.parametrize(
    ("group", "metadata", "site"),
    [
        ("https://www.quay.example/x", {"url": "http://harbour.example"}, "quay.example"),
        ("book 7", {"url": "http://news.harbour.co.uk/1"}, "harbour.co.uk"),
        (None, {"url": "http://192.0.2.7/a"}, "192.0.2.7"),
        (None, {"title": "no address"}, "web"),
    ],
)
def test_a_site_is_a_domain_or_the_source(group: str | None, metadata: dict, site: str):
    assert site_of("web", group, json.dumps(metadata)) == site


@pytest.mark.parametrize("options", [{"boilerplate_min": 0}, {"boilerplate_share": 1.5}])
def test_impossible_limits_are_refused(tmp_path: Path, options: dict):
    with pytest.raises(ConfigError):
        DedupConfig(inputs=(tmp_path,), output=None, **options)


def test_the_navigation_line_of_a_made_corpus_is_found_and_nothing_else(tmp_path: Path, shared: Path):
    corpus = tmp_path / "corpus"
    made = [sys.executable, str(shared / "make_corpus.py"), "--out", str(corpus), "--procs", "1"]
    subprocess.run([*made, "--images", "4", "--pages", "4", "--docs", "400"], check=True, capture_output=True)
    addresses = tuple((corpus / "obelics").glob("url_map-*.jsonl"))
    ingest(IngestConfig(format="obelics", paths=(corpus / "obelics",), output=tmp_path / "a", url_maps=addresses))
    run(DedupConfig(inputs=(tmp_path / "a",), output=tmp_path / "c", boilerplate_min=3))
    dataset = Dataset.open(tmp_path / "c")
    truth = (corpus / "truth" / "boilerplate.jsonl").read_text(encoding="utf-8")
    planted = [json.loads(row) for row in truth.splitlines()]
    (line,) = (row["text"] for row in planted if "text" in row)
    # The line stands on every document of the sites with an even number.
    hosts = Counter(urlsplit(one.group).hostname for _, _, one in dataset.examples())
    expected = {
        host.removeprefix("www."): count
        for host, count in hosts.items()
        if count > 3 and int(host.removeprefix("www.pages").removesuffix(".example")) % 2 == 0
    }
    table = dataset.table("paragraphs").to_pylist()
    assert {row["excerpt"] for row in table} == {line.lower()}
    assert {row["site"]: row["documents"] for row in table} == expected
