"""Every source format has a rule of `auto` that finds its fixture, is read from it, has a page and a line of help."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardkit.cli.ingest import EPILOG
from shardkit.prepare.ingest import SOURCES, IngestConfig, resolved, run
from shardkit.prepare.ingest.formats.detect import FAMILIES, RULES
from tests.prepare.ingest import (
    generate_funsd,
    generate_iit_cdip,
    generate_mmc4,
    generate_paddleocr,
    generate_synthtext,
    generate_web,
)
from tests.prepare.ingest.builders import jsonl, picture, tar

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
TURNS = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
SAME = {"jsonl": "rows"}
"""Another word for a format: its rule, fixture and page are those of the format."""
NEEDS = {"synthtext": "scipy", "markdown": "markdown_it", "html": "lxml"}
"""Format -> the library of an extra that it needs."""

ALTO = """<alto><Layout><Page WIDTH="12" HEIGHT="8"><PrintSpace><TextBlock><TextLine>
<String CONTENT="word" HPOS="1" VPOS="1" WIDTH="4" HEIGHT="4"/></TextLine></TextBlock></PrintSpace></Page></Layout></alto>"""
PAGE = """<PcGts><Page imageFilename="1.png" imageWidth="12" imageHeight="8"><TextRegion id="r"><Coords points="1,1 5,1 5,5"/>
<TextLine id="l"><Coords points="1,1 5,1 5,5"/><TextEquiv><Unicode>word</Unicode></TextEquiv></TextLine></TextRegion></Page></PcGts>"""
HOCR = """<html><body><div class="ocr_page" title="image 1.png; bbox 0 0 12 8"><span class="ocr_line" title="bbox 1 1 5 5">
<span class="ocrx_word" title="bbox 1 1 5 5">word</span></span></div></body></html>"""
DOCBANK = "word\t10\t10\t500\t500\t0\t0\t0\tFont\tparagraph\n"
QUADS = "1,1,5,1,5,5,1,5,word\n"
MMOCR = '{"data_list": [{"img_path": "1.png", "instances": [{"text": "word"}]}]}'


def files(folder: Path, **contents: str | bytes) -> None:
    """Files by name, whose dots are written `__`; a picture 1.png beside them."""
    folder.mkdir(parents=True)
    (folder / "1.png").write_bytes(picture())
    for name, content in contents.items():
        path = folder / name.replace("___", "/").replace("__", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


FIXTURES: dict[str, Callable[[Path], object]] = {
    "rows": partial(files, rows__jsonl=jsonl([{"text": "<image> a", "images": ["1.png"]}])),
    "caption": partial(files, table__csv="image,caption\n1.png,a cat\n"),
    "webdataset": partial(files, shard__tar=tar([("1.png", picture()), ("1.txt", b"a cat")])),
    "ocr": partial(files, **{"1__gt__txt": "a line"}),
    "alto": partial(files, **{"1__xml": ALTO}),
    "page": partial(files, **{"1__xml": PAGE}),
    "hocr": partial(files, **{"1__hocr": HOCR}),
    "docbank": partial(files, **{"1__txt": DOCBANK}),
    "icdar": partial(files, gt_1__txt=QUADS),
    "sroie": partial(
        files, **{"1__txt": QUADS, "1__json": '{"company": "c", "date": "d", "address": "a", "total": "1"}'}
    ),
    "mmocr": partial(files, labels__json=MMOCR),
    "funsd": generate_funsd.write,
    "iit-cdip": generate_iit_cdip.write,
    "paddleocr": generate_paddleocr.write,
    "synthtext": generate_synthtext.write,
    "obelics": partial(files, documents__jsonl=jsonl([{"images": ["1.png", None], "texts": [None, "a"]}])),
    "mmc4": generate_mmc4.write,
    "chat": partial(files, talks__jsonl=jsonl([{"conversations": TURNS}])),
    "markdown": partial(generate_web.write, kind="markdown"),
    "html": partial(generate_web.write, kind="html"),
    "text": partial(files, texts__jsonl=jsonl([{"text": "a"}])),
}
"""Format -> what writes a small input of it."""


def fixture(name: str, folder: Path) -> Path:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"unavailable: {name} needs {NEEDS[name]}")
    FIXTURES[SAME.get(name, name)](folder)
    return folder


@pytest.mark.parametrize("name", SOURCES)
def test_auto_finds_it(name, tmp_path):
    path = fixture(name, tmp_path / "in")
    assert resolved(IngestConfig(format="auto", paths=(path,), output=None)).format == SAME.get(name, name)


@pytest.mark.parametrize("name", SOURCES)
def test_it_reads_its_fixture(name, tmp_path):
    path = fixture(name, tmp_path / "in")
    result = run(IngestConfig(format=name, paths=(path,), output=tmp_path / "out"))
    assert result.tally.kept > 0
    assert result.tally.read == result.tally.kept + sum(result.tally.excluded.values())


@pytest.mark.parametrize("name", SOURCES)
def test_it_is_documented(name):
    pages = [DOCS / "ingest.md", *sorted((DOCS / "ingest").glob("*.md"))]
    named = re.compile(rf"`{name}`|shardkit ingest {name}\b|\({name}\)")
    assert any(named.search(page.read_text(encoding="utf-8")) for page in pages)
    assert re.search(rf"(?:^|[\s(,]){name}\b", EPILOG), "`shardkit ingest --help` does not name it"


def test_the_tables_agree():
    assert set(RULES) == set(FIXTURES) == set(SOURCES) - set(SAME)
    assert set(FAMILIES) <= set(SOURCES)
    for name, format_name in SAME.items():
        assert SOURCES[name] is SOURCES[format_name]
