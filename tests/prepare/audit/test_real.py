"""Real dumps, split by chance and by us: what the one leaks is found, and that the other leaks nothing is proved."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.prepare.audit.config import AuditConfig, AuditResult
from shardkit.prepare.audit.run import run
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.ingest import IngestConfig
from shardkit.prepare.ingest import run as ingest
from shardkit.records import Example
from shardkit.text.normalize import normalize
from tests.prepare.audit.careless import RECORD, careless
from tests.prepare.split.builders import split

PAGE_FIELD = "general_metadata.page"
NUM_PAGES = 80
"""Of 230: every audit decodes all of their pictures."""
BOOK = "@path:([^/]+)_[0-9]+_[0-9]+"
PAGE = "@path:([^/]+_[0-9]+)_[0-9]+"


def audit(path: Path, **options) -> AuditResult:
    return run(AuditConfig(dataset=path, **options))


def pages(shared: Path, tmp_path: Path) -> dict:
    """The last pages, as documents that say of which one they are a version or translation, as the truth beside them does."""
    folder = shared / "data" / "obelics_pages"
    table = pq.read_table(folder / "obelics.parquet")
    truth = [json.loads(line)["group"] for line in (folder / "groups.jsonl").read_text(encoding="utf-8").splitlines()]
    chosen = set(list(dict.fromkeys(truth))[-NUM_PAGES:])
    rows = [row for row, page in enumerate(truth) if page in chosen]
    table = table.take(rows)
    said = [
        json.dumps({**json.loads(known), "page": truth[row]})
        for known, row in zip(table["general_metadata"].to_pylist(), rows, strict=True)
    ]
    place = table.schema.get_field_index("general_metadata")
    pq.write_table(table.set_column(place, "general_metadata", pa.array(said)), tmp_path / "pages.parquet")
    return {
        "format": "obelics", "paths": (tmp_path / "pages.parquet",), "url_maps": (folder / "url_map.jsonl",),
        "images": (folder,), "group_by": PAGE_FIELD, "max_bad": 1.0,
    }  # fmt: skip


def captions(shared: Path, tmp_path: Path) -> dict:
    return {"format": "caption", "paths": (shared / "data" / "captions_alttext",)}


def lines(shared: Path, tmp_path: Path) -> dict:
    return {"format": "ocr", "paths": (shared / "data" / "ocr_lines_dta",), "group_by": BOOK}


@dataclass(frozen=True, kw_only=True)
class Dump:
    settings: Callable[[Path, Path], dict]
    num_rows: int
    group_by: str | None
    least: dict[str, int]
    """Kind -> near pairs that a split by chance leaks, at least."""


DUMPS = {
    "obelics_pages": Dump(settings=pages, num_rows=228, group_by=PAGE_FIELD, least={"near_text": 1}),
    "captions_alttext": Dump(settings=captions, num_rows=130, group_by=None, least={"near_picture": 1}),
    "ocr_lines_dta": Dump(settings=lines, num_rows=178, group_by=BOOK, least={}),
}


def shared_by(one: Iterable[Hashable], two: Iterable[Hashable]) -> int:
    return len((set(one) & set(two)) - {None, ""})


def leaked(train: list[Example], test: list[Example]) -> dict[str, int]:
    """What two lists of examples share, counted in another way than by audit."""
    both = (train, test)
    return {
        "asset": shared_by(*({image.asset_id for e in side for image in e.images} for side in both)),
        "pixel": shared_by(*({image.pixel_id for e in side for image in e.images} for side in both)),
        "text": shared_by(*({normalize(e.text) for e in side} for side in both)),
        "group": shared_by(
            *({e.group for e in side if e.group not in {i.asset_id for i in e.images}} for side in both)
        ),
        "parent": 0,
    }


@pytest.fixture(scope="module", params=DUMPS)
def dump(
    request: pytest.FixtureRequest, shared: Path, once: Callable[[str, Callable[[Path], object]], Path]
) -> tuple[Dump, Path]:
    """A dump, and the dataset that ingest makes of it."""
    chosen = DUMPS[request.param]

    def make(folder: Path) -> None:
        result = ingest(IngestConfig(output=folder / "raw", **chosen.settings(shared, folder)))
        assert result.tally.kept == chosen.num_rows

    return chosen, once(f"real-{request.param}", make) / "raw"


def test_what_a_split_by_chance_leaks_is_found(dump: tuple[Dump, Path], tmp_path: Path):
    chosen, raw = dump
    parts = careless(raw, tmp_path / "careless", recipe={**RECORD, "group_by": chosen.group_by})
    result = audit(tmp_path / "careless")
    assert result.error is not None
    assert result.error.exit_code == 6
    assert result.faults == ()
    expected = leaked(parts["train"], parts["test"])
    assert sum(expected.values()) > 0
    assert {kind: result.leaks[kind] for kind in expected} == expected
    for kind, count in chosen.least.items():
        assert result.leaks[kind] >= count, kind


def test_what_split_makes_leaks_nothing(dump: tuple[Dump, Path], tmp_path: Path):
    chosen, raw = dump
    dedup(DedupConfig(inputs=(raw,), output=tmp_path / "clean"))
    for source in (raw, tmp_path / "clean"):
        split(source, tmp_path / f"{source.name}-split", "train=0.6,val=0.2,test=0.2", group_by=chosen.group_by)
        result = audit(tmp_path / f"{source.name}-split")
        assert result.error is None, result.evidence[:3]
        assert not any(result.leaks.values())
        assert result.left_out == {}
        assert result.examples > 0.6 * chosen.num_rows


def test_lines_of_a_page_and_pages_of_a_book(shared: Path, tmp_path: Path):
    """Without a declared key each line is of its own file: the key can be named to the audit."""
    ingest(IngestConfig(output=tmp_path / "raw", format="ocr", paths=(shared / "data" / "ocr_lines_dta",)))
    parts = careless(tmp_path / "raw", tmp_path / "careless")
    alone = audit(tmp_path / "careless")
    assert alone.error is None
    assert "every declared group has one example" in alone.notes[0]
    names = defaultdict(set)
    for split_name, rows in parts.items():
        for row in rows:
            names[row.group].add(split_name)
    assert all(len(sides) == 1 for sides in names.values())
    books = audit(tmp_path / "careless", group_by=BOOK)
    assert books.leaks["group"] > 10
    assert "heine_reisebilder02_1827" in {item["value"] for item in books.evidence}
    assert audit(tmp_path / "careless", group_by=PAGE).leaks["group"] > 0
