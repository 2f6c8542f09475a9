"""Metadata, groups, layouts, address maps, units: the small parts between formats and examples."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections import Counter

import pytest

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.draft import ImageRef, base_name
from shardkit.prepare.ingest.group import group_key
from shardkit.prepare.ingest.layout import clipped
from shardkit.prepare.ingest.metadata import encoded
from shardkit.prepare.ingest.reader import Reader, data_uri
from shardkit.prepare.ingest.reasons import REASONS, Bad, plain, sentence
from shardkit.prepare.ingest.roots import Roots
from shardkit.prepare.ingest.units import InputFile, Slice, gather
from shardkit.prepare.ingest.url_map import load_maps
from shardkit.records import LayoutItem
from tests.prepare.ingest.builders import jsonl, picture


# ---------------------------------------------------------------- metadata
def test_metadata_is_canonical_and_what_json_has_no_type_for_is_put_into_words():
    changes: Counter[str] = Counter()
    values = {
        "z": 1, "a": [None, True], "when": dt.datetime(2024, 5, 1, 12, tzinfo=dt.timezone.utc), "price": decimal.Decimal("1.10"), "raw": b"\0\1",
        "nan": math.nan, "inner": {"inf": [math.inf]},
    }  # fmt: skip
    assert json.loads(encoded(values, changes, keep_private=False)) == {
        "z": 1, "a": [None, True], "when": "2024-05-01T12:00:00+00:00", "price": "1.10", "raw": "AAE=", "nan": None,
        "inner": {"inf": [None]},
    }  # fmt: skip
    assert changes == {"bytes_as_base64": 1, "non_finite_as_null": 2}
    assert encoded({"b": 1, "a": 2.5}, changes, keep_private=False) == '{"a":2.5,"b":1}'


def test_the_exif_text_of_downloaders_is_removed_unless_asked_for():
    changes: Counter[str] = Counter()
    row = {"exif": '{"GPS": "here"}', "EXIF": "x", "width": 3}
    assert encoded(row, changes, keep_private=False) == '{"width":3}'
    assert changes == {"metadata_exif_removed": 2}
    assert "GPS" in encoded(row, changes, keep_private=True)


def test_a_value_that_cannot_be_kept_is_a_reason():
    with pytest.raises(Bad, match="cannot be kept"):
        encoded({"x": object()}, Counter(), keep_private=False)


# ---------------------------------------------------------------- groups
@pytest.mark.parametrize(
    ("field", "path", "metadata", "expected"),
    [
        ("@source", "a/b.jsonl", {}, "src"),
        ("@path", "a/b.jsonl", {}, "a/b.jsonl"),
        ("@path:([^/]+)_[0-9]+_[0-9]+", "x/book_one_1827_0040_017.tif", {}, "book_one_1827"),
        ("@path:^(q)", "x/y", {}, None),
        ("@domain", "", {"url": "https://img.news.example.co.uk/a"}, "example.co.uk"),
        ("@domain", "", {"document_url": "http://127.0.0.1/x"}, "127.0.0.1"),
        ("@domain", "", {"url": "no address"}, None),
        ("@domain", "", {}, None),
        ("site", "", {"site": "s"}, "s"),
        ("site", "", {"site": "  "}, None),
        ("site", "", {"site": None}, None),
        ("site", "", {}, None),
        ("page.site", "", {"page": {"site": 7}}, "7"),
        ("page.site", "", {"page.site": "dots"}, "dots"),
        ("page.site", "", {"page": "x"}, None),
        ("price", "", {"price": decimal.Decimal("1.50")}, '"1.50"'),
        ("blob", "", {"blob": b"x"}, '"eA=="'),
    ],
)
def test_group_by(field, path, metadata, expected):
    assert group_key(field, source="src")(path, metadata) == expected


@pytest.mark.parametrize("field", ["@page", "@path:(", "@path:no-group"])
def test_an_impossible_group_by_is_refused(field):
    with pytest.raises(ConfigError):
        group_key(field, source="src")


# ---------------------------------------------------------------- layout
def test_boxes_are_kept_clipped_or_dropped_and_counted():
    def item(*polygon: float) -> LayoutItem:
        return LayoutItem(level="line", text="t", polygon=polygon)

    changes: Counter[str] = Counter()
    got = clipped(
        [item(1, 2, 90, 50), item(-5, -1, 10, 10), item(50, 20, 50, 40), item(101, 5, 120, 9), item(), item(90, 50, 110, 70)],
        100, 60, changes,
    )  # fmt: skip
    assert [i.polygon for i in got] == [(1, 2, 90, 50), (0, 0, 10, 10), (), (), (), (90, 50, 100, 60)]
    assert changes == {"box_clipped": 2, "box_dropped": 2, "box_dropped:outside": 1, "box_dropped:no_area": 1}
    assert all(i.text == "t" for i in got)


# ---------------------------------------------------------------- address maps and data
def map_file(tmp_path, *rows: object):
    path = tmp_path / "store" / "map.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(jsonl(rows) + b"\n")
    return str(path)


def test_an_address_leads_to_a_file_of_the_map_and_never_anywhere_else(tmp_path):
    load_maps.cache_clear()
    path = map_file(
        tmp_path, {"url": "https://x/1", "file": "1.png"}, {"url": "https://x/2", "file": None, "reason": "gone"},
        {"url": "https://x/3", "file": "../secret.png"}, {"url": "https://x/1", "file": "other.png"},
    )  # fmt: skip
    (tmp_path / "store" / "1.png").write_bytes(picture())
    (tmp_path / "secret.png").write_bytes(b"secret")
    roots = Roots(input_root=str(tmp_path / "in"), maps=(str(tmp_path / "store"),))
    reader = Reader(roots, (path,), 1 << 20)
    assert reader.image(ImageRef(path="https://x/1"), "") == picture()
    for url, reason in [
        ("https://x/2", "asset_missing"),
        ("https://x/3", "path_outside"),
        ("file:///etc/x", "path_outside"),
    ]:
        with pytest.raises(Bad) as bad:
            reader.image(ImageRef(path=url), "")
        assert bad.value.reason == reason
    noted = [(f.name, f.size) for f in reader.files.values()]
    assert noted == [("@map0/1.png", len(picture())), ("@missing///https://x/2", -1), ("@missing///../secret.png", -1)]


def test_a_broken_line_of_a_map_is_named(tmp_path):
    load_maps.cache_clear()
    with pytest.raises(SourceError, match=r"map\.jsonl:2"):
        load_maps((map_file(tmp_path, {"url": "https://x/1", "file": "1.png"}, {"address": "x"}),))


@pytest.mark.parametrize("text", ["data:,", "data:image/png;base64,", "data:text/html,<p>", "data:image/png;base64,@@"])
def test_a_data_address_without_a_picture_is_refused_with_its_first_signs_only(text):
    with pytest.raises(Bad) as bad:
        data_uri(text + "@" * 5000)
    assert bad.value.reason == "bad_data_uri"
    assert len(bad.value.detail) < 200


# ---------------------------------------------------------------- names, messages, units
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/home/me/cat.png", "cat.png"), ("C:\\photos\\cat.png", "cat.png"), ("https://x/a/cat.png?w=2#top", "cat.png"),
        ("cat\n.png", "cat.png"), ("folder/", "folder"), ("", None),
    ],
)  # fmt: skip
def test_only_the_base_name_is_kept(text, name):
    assert base_name(text) == name


def test_details_are_short_and_show_control_characters_escaped():
    assert plain("a\tb\x1b\ud800") == "a\\tb\\x1b\\ud800"
    assert len(sentence("ä" * 5000).encode()) <= 200
    assert all(code == code.lower() and REASONS[code] for code in REASONS)


def test_units_are_as_full_as_both_bounds_allow():
    def piece(size: int, files: int = 0) -> Slice:
        file = InputFile(name="x", path="/x", size=size)
        return Slice(container="jsonl", file=file, size=size, files=(file,) * files)

    sizes = [4, 4, 4, 20, 1, 1]
    units = list(gather(map(piece, sizes), max_bytes=10))
    assert [[p.size for p in unit.slices] for unit in units] == [[4, 4], [4], [20], [1, 1]]
    assert [unit.index for unit in units] == [0, 1, 2, 3]
    units = list(gather([piece(0, 3), piece(0, 3), piece(0, 3)], max_bytes=10, max_files=6))
    assert [len(unit.slices) for unit in units] == [2, 1]
