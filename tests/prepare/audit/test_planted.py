"""Each kind of leak, planted in shards whose digests fit the manifest, beside tables as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import ConfigError, IntegrityError, LeakError, SourceError
from shardkit.prepare.audit.config import AuditConfig, AuditResult
from shardkit.prepare.audit.run import run
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.audit.careless import NEAR, RECORD, write_split
from tests.prepare.audit.planting import named, rewrite
from tests.prepare.builders import example, png
from tests.prepare.dedup.pictures import page, photo

FABLE = (
    "a crow sat on a high branch with a piece of cheese in its beak and a fox that walked below looked up and said "
    "what a fine bird you are surely your voice must be as lovely as your feathers are black"
)
BILL = "bill 77 of the harbour tax for casks and crates"
CHILD = example("made from the lost one", site="s90")
LOST = example("the lost one", site="s90")
TRAIN = [
    example("a shore", photo(1), site="s1"),
    example("a hill", png(7), site="s2"),
    example(BILL, page("77"), site="s3"),
    example(None, page("12"), site="s4"),
    example(FABLE, site="s5"),
    example("over the bridge", photo(2), photo(3), site="s6"),
    example("said twice", site="s7"),
    example("said once", site="s7"),
    CHILD,
]
TEST = [
    example("a house", photo(11), site="t1"),
    example("another bill 31", page("31"), site="t2"),
    example(None, png(8), site="t3"),
    example("something short", site="t4"),
]


def audit(path: Path, **options) -> AuditResult:
    return run(AuditConfig(dataset=path, **options))


@pytest.fixture(scope="module", params=["arrow", "tar"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planted") / "s"
    write_split(
        path,
        {"train": TRAIN, "test": TEST},
        recipe={**RECORD, "group_by": "site"},
        parents={CHILD.example_id: LOST.example_id},
        shards=request.param,
        shard_size=20_000,
    )
    return path


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "s")
    return tmp_path / "s"


def plant(path: Path, *planted: Example) -> list[str]:
    """Put examples at the end of the last shard, which is one of the test split; where they are."""
    shard = Dataset.open(path).shards[-1]
    assert shard.split == "test"
    rewrite(path, shard.index, lambda rows: [*rows, *planted])
    return [f"{shard.name}:{shard.num_rows + place}" for place in range(len(planted))]


def test_nothing_is_found_where_nothing_leaks(whole: Path):
    result = audit(whole)
    assert result.error is None
    assert set(result.leaks) == {
        "asset", "pixel", "text", "group", "parent", "near_picture", "near_page", "near_text",
    }  # fmt: skip
    assert not any(result.leaks.values())
    assert result.left_out == {}
    assert result.notes == ()
    assert result.examples == 13


KINDS: dict[str, tuple[Example, set[str]]] = {
    "asset": (example("seen again", png(7), site="t9"), {"asset", "pixel"}),
    "pixel": (example("packed anew", png(7, level=0), site="t9"), {"pixel"}),
    "text": (example(" Said  TWICE\n", site="t9"), {"text"}),
    "near_picture": (example("half the size", photo(1, quality=60), site="t9"), {"near_picture"}),
    "near_picture among several": (
        example("one of three", png(9), photo(3, quality=60), photo(12), site="t9"),
        {"near_picture"},
    ),
    "near_page": (example(BILL + ".", page("77", noise=3), site="t9"), {"near_page"}),
    "near_page without a text": (example(None, page("12", noise=3), site="t9"), {"near_page"}),
    "near_text": (example(f"{FABLE} indeed", site="t9"), {"near_text"}),
    "near_text beside a picture": (example(f"{FABLE} indeed", photo(13), site="t9"), {"near_text"}),
    "group": (example("of a site in training", site="s5"), {"group"}),
    "parent": (LOST, {"group", "parent"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_named_with_its_rows(copied: Path, kind: str):
    planted, found = KINDS[kind]
    (where,) = plant(copied, planted)
    result = audit(copied)
    assert isinstance(result.error, LeakError)
    assert result.error.exit_code == 6
    assert {name for name, count in result.leaks.items() if count} == found
    assert {item["kind"] for item in result.evidence} == found
    for item in result.evidence:
        assert item["sides"]["test"] == {"examples": 1, "rows": [where]}
        assert item["sides"]["train"]["examples"] == 1


HARMLESS = {
    "a page of one form with another number": example("bill 78 of the harbour tax", page("78"), site="t9"),
    "a page beside another text": example("nothing is like it", page("77", noise=3), site="t9"),
    "another picture": example("a sea", photo(20), site="t9"),
    "a short text that shares most words": example("said twice over", site="t9"),
    "a text that shares a sentence": example(f"{FABLE[:60]} {' '.join(f'word{k}' for k in range(60))}", site="t9"),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_only_resembles_is_no_leak(copied: Path, what: str):
    plant(copied, HARMLESS[what])
    result = audit(copied)
    assert not any(result.leaks.values()), result.evidence
    assert isinstance(result.error, IntegrityError)  # the id of the manifest does not fit any more
    assert result.error.exit_code == 5


def vectors(path: Path, rows: dict[str, list[float]], *, of: str = "example_id") -> Path:
    table = {of: list(rows), "embedding": pa.array(list(rows.values()), pa.list_(pa.float32(), 4))}
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.parametrize("of", ["example_id", "asset_id"])
def test_neighbours_by_their_vectors_are_found_where_vectors_are_given(copied: Path, tmp_path: Path, of: str):
    planted, shown = example("a coast", photo(21), site="t9"), TRAIN[0]
    (where,) = plant(copied, planted)
    assert not any(audit(copied).leaks.values())
    key = {"example_id": lambda one: one.example_id, "asset_id": lambda one: one.images[0].asset_id}[of]
    near = {key(planted): [1, 0, 0.1, 0], key(shown): [1, 0, 0, 0], key(TRAIN[1]): [0, 1, 0, 0]}
    result = audit(copied, embeddings=(vectors(tmp_path / "v.parquet", near, of=of),))
    assert {name for name, count in result.leaks.items() if count} == {"embedding"}
    (item,) = result.evidence
    assert item["value"] == "vectors: cosine 0.9950"
    assert item["sides"]["test"]["rows"] == [where]
    apart = {**near, key(planted): [0, 0, 1, 0]}
    assert not any(audit(copied, embeddings=(vectors(tmp_path / "w.parquet", apart, of=of),)).leaks.values())


def test_neighbours_are_found_by_vectors_in_a_field_of_the_rows(tmp_path: Path):
    def row(name: str, *vector: float) -> Example:
        return example(name, clip=list(vector), site=name)

    train, test = [row("one", 1, 0, 0), row("other", 0, 1, 0)], [row("third", 0, 0, 1), example("without", site="w")]
    write_split(tmp_path / "apart", {"train": train, "test": test})
    assert audit(tmp_path / "apart", embedding_field="clip").leaks["embedding"] == 0
    write_split(tmp_path / "near", {"train": train, "test": [*test, row("fourth", 1, 0.05, 0)]})
    result = audit(tmp_path / "near", embedding_field="clip", workers=2)
    assert {name for name, count in result.leaks.items() if count} == {"embedding"}
    with pytest.raises(ConfigError, match="no example has a vector in a metadata field 'nothing'"):
        audit(tmp_path / "near", embedding_field="nothing")
    write_split(tmp_path / "widths", {"train": train, "test": [row("fourth", 1, 0)]})
    with pytest.raises(SourceError, match="have 3 numbers, that of"):
        audit(tmp_path / "widths", embedding_field="clip")


def test_the_recorded_threshold_of_vectors_is_used_and_what_cannot_be_looked_at_is_said(tmp_path: Path):
    near = {**NEAR, "semantic": {"version": 1, "threshold": 0.999}}
    write_split(tmp_path / "s", {"train": TRAIN[:1], "test": TEST[:1]}, recipe={**RECORD, "near": near})
    result = audit(tmp_path / "s")
    assert list(result.left_out) == ["semantic"]
    assert "--embeddings" in result.left_out["semantic"]
    assert "embedding" not in result.leaks
    file = vectors(tmp_path / "v.parquet", {TRAIN[0].example_id: [1, 0, 0.1, 0], TEST[0].example_id: [1, 0, 0, 0]})
    assert audit(tmp_path / "s", embeddings=(file,)).leaks["embedding"] == 0
    assert audit(tmp_path / "s", embeddings=(file,)).left_out == {}


# ---------------------------------------------------------------------- which levels
def test_levels_that_are_named_leave_the_others_out_and_equality_stays(copied: Path):
    plant(copied, KINDS["near_text"][0], KINDS["near_picture"][0], KINDS["text"][0])
    everything = audit(copied)
    assert {k for k, n in everything.leaks.items() if n} == {"text", "near_text", "near_picture"}
    some = audit(copied, levels=("perceptual",))
    assert {k for k, n in some.leaks.items() if n} == {"text", "near_picture"}
    assert some.left_out == {"text": "not named with --level"}
    equal = audit(copied, levels=("exact", "pixel"))
    assert list(equal.leaks) == ["asset", "pixel", "text", "group", "parent"]
    assert set(equal.left_out) == {"perceptual", "text"}


def test_a_level_that_is_none_and_vectors_that_are_missing_are_refused(whole: Path):
    with pytest.raises(ConfigError, match="there is no level 'fuzzy'"):
        audit(whole, levels=("fuzzy",))
    with pytest.raises(ConfigError, match="none are given"):
        audit(whole, levels=("semantic",))


@pytest.mark.parametrize(
    ("recipe", "kinds", "says"),
    [
        ({"group_by": None}, {"near_text", "near_picture"}, "of a version that recorded no near matchers"),
        ({"group_by": None, "edges": "exact", "near": {}}, set(), "--edges exact"),
    ],
)
def test_a_split_without_a_record_is_audited_by_the_defaults(tmp_path: Path, recipe: dict, kinds: set, says: str):
    test = [KINDS["near_text"][0], KINDS["near_picture"][0]]
    write_split(tmp_path / "s", {"train": TRAIN, "test": test}, recipe=recipe)
    result = audit(tmp_path / "s")
    assert {k for k, n in result.leaks.items() if n} == kinds
    assert says in " ".join([*result.notes, *result.left_out.values()])
    asked = audit(tmp_path / "s", levels=("text", "perceptual"))
    assert {k for k, n in asked.leaks.items() if n} == {"near_text", "near_picture"}


def test_thresholds_and_presets_are_those_that_were_recorded(tmp_path: Path):
    near = {**NEAR, "text": {**NEAR["text"], "threshold": 0.99}}
    test = [KINDS["near_text"][0]]
    write_split(tmp_path / "s", {"train": TRAIN, "test": test}, recipe={**RECORD, "near": near})
    assert audit(tmp_path / "s").leaks["near_text"] == 0
    garbled = " ".join(word + "x" if number % 12 == 0 else word for number, word in enumerate(FABLE.split()))
    for preset, count in (("web", 0), ("ocr", 1)):
        near = {"text": {"version": 1, "preset": preset, "threshold": {"web": 0.75, "ocr": 0.6}[preset]}}
        write_split(tmp_path / preset, {"train": TRAIN, "test": [example(garbled)]}, recipe={**RECORD, "near": near})
        result = audit(tmp_path / preset)
        assert result.leaks["near_text"] == count
        assert result.rules["near"]["text"]["preset"] == preset


def test_another_key_can_be_asked_for(tmp_path: Path):
    write_split(tmp_path / "s", {"train": [example("a", book="b1")], "test": [example("b", book="b1")]})
    assert audit(tmp_path / "s").error is None
    result = audit(tmp_path / "s", group_by="book")
    assert result.leaks["group"] == 1
    assert result.evidence[0]["value"] == "b1"
    with pytest.raises(ConfigError, match="no example has the key 'page'"):
        audit(tmp_path / "s", group_by="page")


# ---------------------------------------------------------------------- what does not fit
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda one: replace(one, segments=(replace(one.segments[-1], text="other words"),)),
            "content gives the example id",
        ),
        (lambda one: replace(one, metadata='{"site":"t99"}'), "content gives the example id"),
        (lambda one: replace(one, example_id="no id"), "content gives the example id"),
    ],
)
def test_a_row_whose_content_gives_another_id_is_damage(copied: Path, change: Callable[[Example], Example], says: str):
    plant(copied, change(example("something new", site="t9")))
    result = audit(copied)
    assert not any(result.leaks.values())
    assert isinstance(result.error, IntegrityError)
    assert any(says in fault for fault in result.faults)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"stored_xxh3": "0" * 32}, "stored digest is"),
        ({"pixel_id": "0" * 32}, "pixel id is"),
        ({"asset_id": "0" * 64}, "the asset id is not that of the bytes"),
        ({"asset_id": "nothing"}, "is no asset id"),
        ({"asset_id": None}, "is no asset id"),
        ({"pixel_id": None}, "pixel id is"),
        ({"stored_xxh3": None}, "stored digest is"),
        ({"data": b"no picture"}, "the image does not decode"),
    ],
)
def test_columns_that_do_not_fit_their_bytes_are_damage(
    copied: Path, column: dict, says: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("shardkit.store.columns.payload", lambda _: 0)  # no writer of ours takes a null for an id
    planted = example("something new", photo(30), site="t9")
    plant(copied, named(replace(planted, images=(replace(planted.images[0], **column),))))
    result = audit(copied)
    assert not any(result.leaks.values())
    assert isinstance(result.error, IntegrityError)
    assert any(says in fault for fault in result.faults)


def test_a_near_picture_is_found_though_its_columns_deny_it(copied: Path):
    shown, other = example("half the size", photo(1, quality=60), site="t9"), example("x", photo(30)).images[0]
    plant(copied, replace(shown, images=(replace(other, data=shown.images[0].data),)))
    result = audit(copied)
    assert {k for k, n in result.leaks.items() if n} == {"near_picture"}
    assert result.faults


def test_a_tar_whose_members_say_something_else_than_its_index_is_damage(tmp_path: Path):
    write_split(tmp_path / "s", {"train": TRAIN, "test": TEST}, shards="tar")
    dataset = Dataset.open(tmp_path / "s")
    shard = dataset.shards[-1]
    data = shard.path.read_bytes()
    assert data.count(b"something short") == 1
    shard.path.write_bytes(data.replace(b"something short", b"SOMETHING SHORT"))
    body = orjson.loads((tmp_path / "s" / "manifest.json").read_bytes())
    from shardkit.records.manifest import Manifest
    from shardkit.store.files import digest_file

    body["shards"][-1]["xxh3"] = digest_file(shard.path)[1]
    (tmp_path / "s" / "manifest.json").write_bytes(Manifest.from_json(body).to_json())
    result = audit(tmp_path / "s")
    assert not any(result.leaks.values())
    assert [fault.split(": ")[1] for fault in result.faults] == [
        f"00000003-{TEST[3].example_id}.json in the tar says something else than the index"
    ]


def test_a_table_that_does_not_fit_is_damage(copied: Path):
    table = copied / "tables" / "examples.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    with pytest.raises(IntegrityError, match="digest is xxh3:"):
        audit(copied)


def test_the_order_of_rows_in_shards_makes_no_difference(tmp_path: Path):
    rows = [example(f"{FABLE} {k}", photo(k % 9, quality=60 + k % 3), n=k) for k in range(30)]
    found = []
    for name, order in (("a", np.arange(30)), ("b", np.arange(30)[::-1])):
        some = [rows[k] for k in order]
        parts = {
            "train": [one for one in some if "1" in one.metadata],
            "test": [one for one in some if "1" not in one.metadata],
        }
        write_split(tmp_path / name, parts)
        result = audit(tmp_path / name)
        assert result.leaks["near_text"] > 0
        found.append(result.leaks)
    assert found[0] == found[1]


def test_workers_make_no_difference(copied: Path):
    plant(copied, *(planted for planted, _ in KINDS.values()))
    result = audit(copied)
    assert {name for name, count in result.leaks.items() if count} == set(result.leaks)
    assert audit(copied, workers=2) == result
