"""verify names everything that differs, and nothing where nothing does."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from shardkit.errors import IntegrityError, SourceError
from shardkit.prepare.audit.verify import VerifyConfig, VerifyResult, run
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.run import run as dedup
from shardkit.prepare.split.config import SplitConfig, parse_ratios
from shardkit.prepare.split.run import run as split
from shardkit.records import Example, Exclusion, Tally
from shardkit.records.manifest import Manifest
from shardkit.store import Dataset, Output, Sealed
from tests.prepare.audit.planting import rewrite
from tests.prepare.builders import example, png, write

ROWS = [
    example(f"t {k}", *(png(k + n, note="gone" if k % 2 else None) for n in range(k % 3)), group=f"g{k}")
    for k in range(24)
]


def verify(path: Path, **options) -> VerifyResult:
    return run(VerifyConfig(dataset=path, **options))


@pytest.fixture(scope="module")
def road(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("road")
    write(path / "arrow", [*ROWS, ROWS[0]], unit_rows=10)
    write(path / "tar", ROWS, shards="tar", shard_size=900)
    dedup(DedupConfig(inputs=(path / "arrow", path / "tar"), output=path / "clean"))
    split(SplitConfig(input=path / "clean", output=path / "split", ratios=parse_ratios("train=0.5,test=0.5")))
    return path


@pytest.mark.parametrize("name", ["arrow", "tar", "clean", "split"])
@pytest.mark.parametrize("deep", [False, True])
def test_whole_datasets_pass(road: Path, name: str, deep: bool):
    result = verify(road / name, deep=deep)
    assert result.problems == ()
    assert result.error is None
    assert result.examples == Dataset.open(road / name).manifest.counts["kept"]
    assert verify(road / name, deep=deep, workers=2) == result


@pytest.fixture
def copied(road: Path, tmp_path: Path) -> Path:
    shutil.copytree(road, tmp_path / "road")
    return tmp_path / "road"


def listed(dataset: Path) -> list[Path]:
    return sorted(p for p in dataset.rglob("*") if p.is_file() and p.name not in ("manifest.json", ".lock"))


@pytest.mark.parametrize("name", ["arrow", "tar", "split"])
def test_every_file_that_changes_is_named(copied: Path, name: str):
    found = Counter()
    for file in listed(copied / name):
        data = file.read_bytes()
        for what, changed in {
            "flipped": data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 0xFF]) + data[len(data) // 2 + 1 :],
            "short": data[:-1],
            "long": data + b"\0",
            "empty": b"",
        }.items():
            file.write_bytes(changed)
            result = verify(copied / name)
            here = [p for p in result.problems if p.startswith(f"{file.relative_to(copied / name)}: ")]
            assert here, (file, what, result.problems)
            if what != "flipped":
                assert f"the file has {len(changed)} bytes, the manifest says {len(data)}" in here[0]
            found[what] += 1
        file.unlink()
        assert f"{file.relative_to(copied / name)}: the file is missing" in verify(copied / name).problems
        file.write_bytes(data)
    assert verify(copied / name).problems == ()
    assert found["flipped"] >= 5


def test_two_shards_in_each_others_place_are_named(copied: Path):
    one, two = (shard.path for shard in Dataset.open(copied / "arrow").shards[:2])
    spare = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(spare)
    error = verify(copied / "arrow").error
    assert isinstance(error, IntegrityError)
    assert one.name in error.what
    assert two.name in error.what


def test_a_view_answers_for_the_shards_of_its_inputs(copied: Path):
    shard = Dataset.open(copied / "tar").shards[0].path
    with shard.open("r+b") as file:
        file.write(b"?")
    (problem,) = verify(copied / "clean").problems
    assert str(shard) in problem
    shutil.move(copied / "arrow", copied / "elsewhere")
    with pytest.raises(IntegrityError, match="is not at"):
        verify(copied / "clean")
    assert len(verify(copied / "clean", bases=(copied / "elsewhere",)).problems) == 1


def test_a_changed_manifest_is_damage(copied: Path):
    file = copied / "arrow" / "manifest.json"
    file.write_bytes(file.read_bytes().replace(b'"made":"by hand"', b'"made":"by foot"'))
    with pytest.raises(IntegrityError, match="it was changed after the commit"):
        verify(copied / "arrow")


def test_stray_files_are_told_and_are_no_damage(copied: Path):
    (copied / "arrow" / "shards" / "all" / "part-9.arrow").write_bytes(b"x")
    (copied / "arrow" / ".cache").mkdir()
    (copied / "arrow" / ".cache" / "plan-1.parquet").write_bytes(b"x")
    result = verify(copied / "arrow")
    assert result.stray == ("shards/all/part-9.arrow",)
    assert result.error is None


def test_no_dataset_is_said(tmp_path: Path):
    with pytest.raises(SourceError, match="no dataset is here"):
        verify(tmp_path)


def restated(path: Path, **changes) -> None:
    """Write other values into the manifest, with an id that fits."""
    body = orjson.loads((path / "manifest.json").read_bytes())
    for name, value in changes.items():
        body[name] = {**body[name], **value}
    (path / "manifest.json").write_bytes(Manifest.from_json(body).to_json())


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"read": 99}, "read 99 is not kept 25 + excluded 0"),
        ({"read": 26, "excluded": 1}, "the reasons do not add up to 1 excluded rows"),
        (
            {"read": 26, "excluded": 1, "excluded_by_reason": {"made_up": 1}},
            "it has {}, the manifest counts {'made_up': 1}",
        ),
        ({"read": 26, "kept": 26}, "it has 25 rows, 26 were kept"),
    ],
)
def test_counts_must_add_up(copied: Path, counts: dict, says: str):
    restated(copied / "arrow", counts=counts)
    assert any(says in problem for problem in verify(copied / "arrow").problems)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e: replace(e, metadata='{"n":77}'), "the content gives the example id"),
        (lambda e: replace(e, images=(replace(e.images[0], pixel_id="0" * 32), *e.images[1:])), "pixel id is"),
        (lambda e: replace(e, images=(replace(e.images[0], stored_xxh3="0" * 32), *e.images[1:])), "stored digest is"),
        (lambda e: replace(e, images=(replace(e.images[0], data=png(77)), *e.images[1:])), "pixel id is"),
        (lambda e: replace(e, images=(replace(e.images[0], data=b"?"), *e.images[1:])), "the image does not decode"),
        (lambda e: replace(e, images=(replace(e.images[0], asset_id="0" * 64), *e.images[1:])), "1 images have no row"),
    ],
)
def test_deep_compares_every_row_with_its_bytes(tmp_path: Path, change, says: str):
    rows = [example("t", png(1), png(2), n=n) for n in range(3)]
    write_lying(tmp_path / "a", rows, change)
    assert verify(tmp_path / "a").error is None, "every digest of a file fits"
    problems = verify(tmp_path / "a", deep=True).problems
    assert any(says in problem for problem in problems), problems


def write_lying(path: Path, rows: list[Example], change) -> None:
    """Commit rows of which the second says something else than its bytes, under provenance of the true ones."""
    honest = write(path.with_name("honest"), rows)
    with (
        Output(path, stage="ingest", recipe={}) as output,
        output.unit(0, "u", shards="arrow", shard_size=10**6) as unit,
    ):
        for number, row in enumerate(rows):
            unit.add(change(row) if number == 1 else row, input="x", position=str(number))
        unit.append("provenance", honest.table("provenance").to_pylist())
        unit.finish()
        output.commit(Sealed(tally=Tally(read=len(rows), kept=len(rows))))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"asset_id": None, "frame": None}, "2 images have no row"),
        ({"source": None}, "source is null for 6 images"),
        ({"decoder": None}, "decoder is null for 6 images"),
        ({"preprocessing": "none"}, "provenance knows of nothing that was removed"),
    ],
)
def test_deep_asks_for_the_provenance_of_every_image(tmp_path: Path, change: dict, says: str):
    rows = [example("t", png(1, note="x"), png(2, note="x"), n=n) for n in range(3)]
    honest = write(tmp_path / "honest", rows)
    assert verify(tmp_path / "honest", deep=True).error is None
    with (
        Output(tmp_path / "a", stage="ingest", recipe={}) as output,
        output.unit(0, "u", shards="arrow", shard_size=10**6) as unit,
    ):
        for number, row in enumerate(rows):
            unit.add(row, input="x", position=str(number))
        unit.append("provenance", [{**row, **change} for row in honest.table("provenance").to_pylist()])
        unit.finish()
        output.commit(Sealed(tally=Tally(read=3, kept=3)))
    assert verify(tmp_path / "a").error is None
    assert any(says in problem for problem in verify(tmp_path / "a", deep=True).problems)


def test_a_rewritten_shard_is_found_by_its_blocks(copied: Path):
    rewrite(copied / "arrow", 0, lambda rows: rows[:-1], new_id=True)
    problems = verify(copied / "arrow").problems
    assert any("the blocks of shards/all/" in problem for problem in problems)
    assert any("it selects 10 rows of" in problem for problem in problems)


def test_exclusions_are_counted_by_reason(tmp_path: Path):
    left = [Exclusion(input="x", position=str(k), reason="empty_text", detail="d") for k in range(3)]
    with Output(tmp_path / "a", stage="ingest", recipe={}) as output:
        output.commit(Sealed(tally=Tally(read=3, excluded=Counter(empty_text=3)), exclusions=left))
    assert verify(tmp_path / "a", deep=True).error is None
