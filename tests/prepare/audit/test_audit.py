"""What stands on two sides is found in the shards, whatever the tables say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shardkit.errors import IntegrityError, LeakError, SourceError
from shardkit.prepare.audit.run import AuditConfig, AuditResult, run
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.audit.planting import first_of, named, rewrite
from tests.prepare.builders import example, image, png, write

EQUAL = ("asset", "pixel", "text", "group", "parent")
NO_LEAK = dict.fromkeys((*EQUAL, "near_picture", "near_page", "near_text"), 0)
LOGO = png(999)


def audit(path: Path, **options) -> AuditResult:
    return run(AuditConfig(dataset=path, **options))


def rows() -> list[Example]:
    """Thirty sites of two pages, each page with its picture; a logo and a notice on every site."""
    pages = [example(f"site {s} page {p}", png(10 * s + p), site=f"s{s}", n=p) for s in range(30) for p in range(2)]
    logos = [example(f"welcome to {s}", LOGO, site=f"s{s}") for s in range(30)]
    return [*pages, *logos, *(example("All rights reserved", site=f"s{s}", n=9) for s in range(30))]


@pytest.fixture(scope="module", params=["arrow", "tar"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole")
    write(path / "a", rows())
    ratios = parse_ratios("train=0.6,val=0.2,test=0.2")
    split(
        SplitConfig(
            input=path / "a", output=path / "s", ratios=ratios, group_by="site", shards=request.param, unit_size=3000
        )
    )
    return path / "s"


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "s")
    return tmp_path / "s"


def test_a_split_of_ours_leaks_nothing_and_boilerplate_is_permitted(whole: Path):
    result = audit(whole)
    assert result.error is None
    assert result.examples == 120
    assert result.leaks == NO_LEAK
    assert result.permitted == {**NO_LEAK, "asset": 1, "pixel": 1, "text": 1}
    assert audit(whole, workers=2) == result


def other_pixels(victim: Example, kept: Example) -> Example:
    return named(replace(kept, images=victim.images))


def packed_anew(victim: Example, kept: Example) -> Example:
    number = next(n for n in range(400) if png(n) == victim.images[0].data)
    return named(replace(kept, images=(image(png(number, level=0)),)))


def same_text(victim: Example, kept: Example) -> Example:
    text = victim.segments[-1].text
    return named(replace(kept, segments=(*kept.segments[:-1], replace(kept.segments[-1], text=f" {text.upper()}\n"))))


def same_group(victim: Example, kept: Example) -> Example:
    return named(replace(kept, metadata=victim.metadata, group=victim.group))


def same_group_column_only(victim: Example, kept: Example) -> Example:
    return replace(kept, group=victim.group)


def same_site_in_metadata_only(victim: Example, kept: Example) -> Example:
    return named(replace(kept, metadata=victim.metadata))


PLANTED: dict[str, tuple[Callable[[Example, Example], Example], set[str]]] = {
    "asset": (other_pixels, {"asset", "pixel"}),
    "pixel": (packed_anew, {"pixel"}),
    "text": (same_text, {"text"}),
    "group": (same_group, {"group"}),
    "group in its column": (same_group_column_only, {"group"}),
    "group in the metadata": (same_site_in_metadata_only, {"group"}),
}


def plant(path: Path, change: Callable[[Example, Example], Example], *, new_id: bool = False) -> tuple[Example, str]:
    """Put something of a training page into a page of the test split; returns the page and where it was put."""
    dataset = Dataset.open(path)
    victim = next(e for _, _, e in dataset.examples("train") if e.text.startswith("site"))
    shard, row = next((s, r) for s, r, e in dataset.examples("test") if e.text.startswith("site"))
    rewrite(path, shard, lambda rows: [change(victim, e) if n == row else e for n, e in enumerate(rows)], new_id=new_id)
    return victim, f"{dataset.shards[shard].name}:{row}"


@pytest.mark.parametrize("new_id", [False, True])
@pytest.mark.parametrize("kind", PLANTED)
def test_each_kind_of_leak_is_found_with_its_evidence(copied: Path, kind: str, new_id: bool):
    change, found = PLANTED[kind]
    victim, where = plant(copied, change, new_id=new_id)
    result = audit(copied)
    assert isinstance(result.error, LeakError)
    assert {name for name, count in result.leaks.items() if count} == found
    for item in result.evidence:
        assert set(item["sides"]) == {"train", "test"}
        assert item["sides"]["test"] == {"examples": 1, "rows": [where]}
        assert item["sides"]["train"]["examples"] in (1, 4)
    values = {item["kind"]: item["value"] for item in result.evidence}
    expected = {
        "asset": victim.images[0].asset_id,
        "pixel": victim.images[0].pixel_id,
        "text": victim.text,
        "group": victim.group,
    }
    assert values == {name: expected[name] for name in found}
    assert where in result.error.what


def test_a_row_that_is_in_no_table_is_found(copied: Path):
    shard, _ = first_of(copied, "test")
    _, victim = first_of(copied, "train")
    rewrite(copied, shard, lambda rows: [*rows, victim])
    assert isinstance(audit(copied).error, LeakError)


def test_a_leak_is_found_though_the_columns_deny_it(copied: Path):
    def hidden(victim: Example, kept: Example) -> Example:
        (shown,) = kept.images
        return replace(kept, images=(replace(shown, data=victim.images[0].data),))

    plant(copied, hidden)
    result = audit(copied)
    assert isinstance(result.error, LeakError)
    assert result.leaks["pixel"] == 1
    assert [fault.split(": ")[1].split(" is")[0] for fault in result.faults] == [
        "stored digest",
        "pixel id",
        "the asset id",
    ]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"stored_xxh3": "0" * 32}, "stored digest is"),
        ({"pixel_id": "0" * 32}, "pixel id is"),
        ({"asset_id": "0" * 64}, "the asset id is not that of the bytes"),
        ({"data": b"no picture"}, "the image does not decode"),
    ],
)
def test_columns_that_do_not_fit_their_bytes_are_damage(copied: Path, column: dict, says: str):
    plant(copied, lambda _victim, kept: replace(kept, images=(replace(kept.images[0], **column),)))
    result = audit(copied)
    assert result.leaks == NO_LEAK
    assert isinstance(result.error, IntegrityError)
    assert any(says in fault for fault in result.faults)


def test_a_shard_whose_digest_does_not_fit_is_damage(copied: Path):
    shard = Dataset.open(copied).shards[0].path
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(IntegrityError, match="digest is xxh3:"):
        audit(copied)


def test_a_manifest_whose_id_does_not_fit_is_damage(copied: Path):
    rewrite(copied, 0, lambda rows: rows[:-1])
    result = audit(copied)
    assert result.leaks == NO_LEAK
    assert isinstance(result.error, IntegrityError)
    assert "it was changed after the commit" in result.error.what


def test_a_careless_split_is_caught_and_ours_is_not(tmp_path: Path):
    pages = [example(f"book {b} page {p % 5}", png(b), group=f"b{b}", n=p) for b in range(20) for p in range(8)]
    write(tmp_path / "a", pages)
    ratios = parse_ratios("train=0.5,test=0.5")
    split(SplitConfig(input=tmp_path / "a", output=tmp_path / "s", ratios=ratios))
    assert audit(tmp_path / "s").error is None
    halves = {0: [e for n, e in enumerate(pages) if n % 2], 1: [e for n, e in enumerate(pages) if not n % 2]}
    dataset = Dataset.open(tmp_path / "s")
    assert [shard.split for shard in dataset.shards] == ["train", "test"]
    for shard in (0, 1):
        rewrite(tmp_path / "s", shard, lambda _rows, shard=shard: halves[shard], new_id=True)
    result = audit(tmp_path / "s")
    assert result.leaks == {**NO_LEAK, "asset": 20, "pixel": 20, "text": 60, "group": 20}


def test_a_parent_and_its_child_on_two_sides_are_found(tmp_path: Path):
    from shardkit.records import Tally
    from shardkit.store import Output, Sealed

    parent, child = example("parent"), example("child")
    with Output(tmp_path / "s", stage="split", recipe={"group_by": None}) as output:
        for place, (name, row) in enumerate((("train", parent), ("test", child))):
            with output.unit(0, name, shards="arrow", shard_size=1000, split=name) as unit:
                unit.add(row, input="x", position="1", parent_id=parent.example_id if place else None)
                unit.finish()
        output.commit(Sealed(tally=Tally(read=2, kept=2), splits=("train", "test")))
    result = audit(tmp_path / "s")
    assert result.leaks == {**NO_LEAK, "parent": 1}
    assert result.evidence[0]["value"] == parent.example_id


def test_the_path_of_a_raw_row_is_its_group_where_the_split_says_so(tmp_path: Path):
    lines = [example(f"line {k}") for k in range(60)]
    write(tmp_path / "a", lines, inputs=[f"book{k % 12}_{k:03d}.png" for k in range(60)])
    ratios = parse_ratios("train=0.5,test=0.5")
    split(SplitConfig(input=tmp_path / "a", output=tmp_path / "s", ratios=ratios, group_by="@path:([a-z0-9]+)_"))
    assert audit(tmp_path / "s").error is None
    shard, taken = first_of(tmp_path / "s", "train")
    there, _ = first_of(tmp_path / "s", "test")
    rewrite(tmp_path / "s", shard, lambda rows: rows[1:])
    rewrite_unchecked(tmp_path / "s", there, taken)
    assert audit(tmp_path / "s").leaks["group"] >= 1


def rewrite_unchecked(path: Path, shard: int, added: Example) -> None:
    """As `rewrite`, where the manifest's id does not fit already."""
    import orjson

    from shardkit.records.manifest import Manifest

    body = orjson.loads((path / "manifest.json").read_bytes())
    (path / "manifest.json").write_bytes(Manifest.from_json(body).to_json())
    rewrite(path, shard, lambda rows: [*rows, added])


def test_a_view_of_a_split_is_audited_by_the_rows_it_selects(tmp_path: Path):
    pages = [example(f"t {k}", png(k), group=f"g{k // 2}") for k in range(40)]
    write(tmp_path / "a", pages)
    split(SplitConfig(input=tmp_path / "a", output=tmp_path / "s", ratios=parse_ratios("train=0.5,test=0.5")))
    dedup(DedupConfig(inputs=(tmp_path / "s",), output=tmp_path / "c"))
    result = audit(tmp_path / "c")
    assert result.error is None
    assert result.examples == 40


def test_what_was_never_split_has_nothing_to_audit(tmp_path: Path):
    write(tmp_path / "a", [example("one")])
    result = audit(tmp_path / "a")
    assert result.error is None
    assert result.to_json()["audited"] is False
    with pytest.raises(SourceError, match="no dataset is here"):
        audit(tmp_path / "nothing")


def test_an_empty_split_passes(tmp_path: Path):
    write(tmp_path / "a", [])
    split(SplitConfig(input=tmp_path / "a", output=tmp_path / "s", ratios=parse_ratios("train=0.5,test=0.5")))
    result = audit(tmp_path / "s")
    assert result.error is None
    assert result.leaks == NO_LEAK
