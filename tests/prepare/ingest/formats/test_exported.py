"""`_shardkit` of exported rows: every value is looked at, and what contradicts its row is left out with the place named."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardkit.prepare.export import ExportConfig
from shardkit.prepare.export import run as export
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.prepare.ingest.formats.exported import stated
from shardkit.prepare.ingest.reasons import Bad
from shardkit.store import Dataset
from tests.prepare.export.test_export import rich
from tests.prepare.ingest.builders import picture

ROW = {
    "text": "<image>a cat",
    "images": ["1.png"],
    "image_sizes": [[8, 12]],
    "_shardkit": {
        "version": 1,
        "source": "pets",
        "group": "g",
        "segments": [{"kind": "image", "image": 0}, {"kind": "text", "text": "a cat"}],
        "relations": [{"kind": "caption", "images": [0], "segments": [1], "scope": "image", "annotator": "me", "confidence": 0.5}],
        "images": [{"name": "cat.png", "size": [8, 12], "origins": [{"licence": "MIT", "origin": "https://x.org/c", "source": "other"}]}],
        "layout": [[{"level": "word", "text": "cat", "polygon": [1, 1, 5, 5], "order": 0}]],
        "metadata": {"k": [1, None]},
    },
}  # fmt: skip


def ingested(tmp_path: Path, *rows: object, **options) -> tuple[dict, list]:
    """Exclusions by reason with their details, and the examples."""
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "1.png").write_bytes(picture())
    (tmp_path / "in" / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    run(IngestConfig(format="rows", paths=(tmp_path / "in",), output=tmp_path / "out", **options))
    dataset = Dataset.open(tmp_path / "out")
    return {r["reason"]: r["detail"] for r in map(json.loads, dataset.exclusions())}, [
        e for _, _, e in dataset.examples()
    ]


def changed(path: str, value: object) -> dict:
    """ROW with another value at a dotted path below `_shardkit`; None takes it away."""
    row = copy.deepcopy(ROW)
    at = row["_shardkit"]
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in above:
        at = at[part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return row


def test_an_exported_row(tmp_path: Path):
    excluded, (made,) = ingested(tmp_path, ROW)
    assert excluded == {}
    assert (made.source, made.group, made.metadata) == ("pets", "g", '{"k":[1,null]}')
    assert made.relations[0].confidence == 0.5
    assert (made.images[0].path, made.images[0].layout[0].polygon) == ("cat.png", (1.0, 1.0, 5.0, 5.0))
    (row,) = Dataset.open(tmp_path / "out").table("provenance").to_pylist()
    assert (row["licence"], row["origin"], row["source"], row["annotator"]) == ("MIT", "https://x.org/c", "pets", "me")


def test_options_of_the_run_win(tmp_path: Path):
    _, (made,) = ingested(tmp_path, ROW, source="mine", licence="CC0-1.0", group_by="@source")
    assert (made.source, made.group) == ("mine", "mine")
    assert Dataset.open(tmp_path / "out").table("provenance")["licence"].to_pylist() == ["CC0-1.0"]


def test_fields_beside_it_become_metadata(tmp_path: Path):
    excluded, (made,) = ingested(tmp_path, {**ROW, "rating": 4}, {**ROW, "k": [2]})
    assert json.loads(made.metadata) == {"k": [1, None], "rating": 4}
    assert excluded == {"own_object": "_shardkit.metadata.k and the row's k differ"}


WRONG = [
    ("version", 2, "_shardkit.version is 2; this shardkit reads 1"),
    ("source", None, "_shardkit.source is no text"),
    ("source", " ", "_shardkit.source is blank"),
    ("group", 3, "_shardkit.group is no text"),
    ("segments", {"kind": "text"}, "_shardkit.segments is of type dict, no list"),
    ("segments.0.image", 7, "_shardkit.segments[0].image is 7; there are 1 images"),
    ("segments.0.image", -1, "_shardkit.segments[0].image is -1"),
    ("segments.0.image", True, "_shardkit.segments[0].image is True"),
    ("segments.0.kind", "video", "_shardkit.segments[0].kind is 'video', neither text nor image"),
    ("segments.1.text", "a dog", "_shardkit.segments are another text than the row's"),
    ("segments.1.role", "root", "_shardkit.segments[1].role is 'root', none of system, user, assistant, tool"),
    ("segments.1.supervised", "yes", "_shardkit.segments[1].supervised is neither true nor false"),
    ("relations.0.kind", "love", "_shardkit.relations[0].kind is 'love', none of"),
    ("relations.0.kind", None, "_shardkit.relations[0].kind is missing"),
    ("relations.0.images", [0, 0], "_shardkit.relations[0].images names one twice"),
    ("relations.0.segments", [9], "_shardkit.relations[0].segments names one that is not there; there are 2"),
    ("relations.0.confidence", "high", "_shardkit.relations[0].confidence is no number"),
    ("images.0.size", [8], "_shardkit.images[0].size is no [height, width]"),
    ("images.0.name", 3, "_shardkit.images[0].name is no text"),
    ("images.0.origins", [["MIT"]], "_shardkit.images[0].origins[0] is of type list, no object"),
    ("layout", [], "_shardkit.layout has 0 entries, there are 1 images"),
    ("layout.0.0.level", "page", "_shardkit.layout[0][0].level is 'page', none of region, line, word"),
    ("layout.0.0.polygon", [1, 2, 3], "_shardkit.layout[0][0].polygon has 3 numbers, no points"),
    ("layout.0.0.polygon", [1, 2, 1e301, 3], "_shardkit.layout[0][0].polygon is no number"),
    ("layout.0.0.parent", 4, "_shardkit.layout[0][0].parent is 4; there are 1 items"),
    ("metadata", ["k"], "_shardkit.metadata is of type list, no object"),
]


def test_what_is_not_of_the_form(tmp_path: Path):
    told, made = ingested(tmp_path, ROW, *(changed(path, value) for path, value, _ in WRONG))
    assert len(made) == 1
    lines = [json.loads(line) for line in Dataset.open(tmp_path / "out").exclusions()]
    assert set(told) == {"own_object"}
    for line, (_, _, says) in zip(lines, WRONG, strict=True):
        assert line["detail"].startswith(says)


CONTRADICTING = [
    ({**ROW, "_shardkit": 3}, "own_object", "_shardkit is of type int, no object"),
    ({**ROW, "_shardkit": "{"}, "own_object", "_shardkit is no JSON"),
    ({**ROW, "_shardkit": []}, "own_object", "_shardkit is of type list, no object"),
    ({**ROW, "text": "a cat"}, "own_object", "_shardkit.segments are another text"),
    ({**ROW, "images": [], "image_sizes": []}, "own_object", "_shardkit.segments show 1 images, the row names 0"),
    ({**ROW, "images": ["../1.png"]}, "path_outside", "../1.png"),
    ({**changed("images.0.size", [9, 9]), "image_sizes": [[9, 9]]}, "image_sizes_wrong", "image_sizes says 9 x 9"),
]


def test_rows_that_contradict_it(tmp_path: Path):
    _, made = ingested(tmp_path, ROW, *(row for row, _, _ in CONTRADICTING))
    assert len(made) == 1
    lines = [json.loads(line) for line in Dataset.open(tmp_path / "out").exclusions()]
    for line, (_, reason, says) in zip(lines, CONTRADICTING, strict=True):
        assert line["reason"] == reason
        assert says in line["detail"]


def test_without_it_the_row_is_read_as_it_stands(tmp_path: Path):
    row = {name: value for name, value in ROW.items() if name != "_shardkit"}
    _, made = ingested(tmp_path, row, {**row, "_shardkit": None})
    assert {e.source for e in made} == {"in"}
    assert made[0] == made[1]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    from tests.prepare.builders import write

    root = tmp_path_factory.mktemp("fuzz")
    write(root / "d", rich())
    export(ExportConfig(dataset=root / "d", output=root / "out", format="parquet"))
    return [
        json.loads(own)
        for file in (root / "out").glob("*.parquet")
        for own in pq.read_table(file)["_shardkit"].to_pylist()
    ]


def _places(value: object, at: tuple = ()) -> list[tuple]:
    """Paths of everything inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, one in inner for path in ((*at, key), *_places(one, (*at, key)))]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=4,
)  # fmt: skip


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_anything_anywhere_is_taken_or_told(exported: list[dict], data: st.DataObject):
    own = copy.deepcopy(data.draw(st.sampled_from(exported)))
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(own)
        if not places:
            break
        *above, last = data.draw(st.sampled_from(places))
        at = own
        for part in above:
            at = at[part]
        at[last] = data.draw(ANYTHING)
    try:
        found = stated(own)
    except Bad:
        return  # told, with a reason of the table
    assert all(s.image is None or s.image < len(found.images) for s in found.segments)


def test_parquet_with_another_type_there(tmp_path: Path):
    pq.write_table(pa.table({"text": ["a"], "_shardkit": [7]}), tmp_path / "rows.parquet")
    run(IngestConfig(format="rows", paths=(tmp_path / "rows.parquet",), output=tmp_path / "out"))
    assert [json.loads(line)["reason"] for line in Dataset.open(tmp_path / "out").exclusions()] == ["own_object"]
