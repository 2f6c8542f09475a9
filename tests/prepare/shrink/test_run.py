"""shrink as a whole: smaller pictures, everything that counts in pixels scaled along, lineage and splits inherited."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from shardkit.engine import local
from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.media.decode import decode_rgb
from shardkit.media.load import load
from shardkit.media.shrink import shrink as shrink_file
from shardkit.prepare.audit import run as audit
from shardkit.prepare.audit import verify
from shardkit.prepare.lineage.forget.config import ForgetConfig
from shardkit.prepare.lineage.forget.run import run as forget
from shardkit.prepare.result import StageResult
from shardkit.prepare.shrink import derive as derive_module
from shardkit.prepare.shrink import run as shrink_run
from shardkit.prepare.shrink.config import ShrinkConfig
from shardkit.prepare.shrink.derive import derive
from shardkit.prepare.shrink.run import run
from shardkit.records import Example, LayoutItem, example_id
from shardkit.store import Dataset
from tests.prepare.builders import example, png, texts, write
from tests.prepare.split.builders import files, places, split

SMALL = png(1, side=20)


def photo(number: int, size: tuple[int, int] = (80, 60), kind: str = "JPEG") -> bytes:
    """Noise that nothing else looks like."""
    cells = np.random.default_rng(number).integers(0, 256, (size[1] // 4, size[0] // 4, 3), dtype=np.uint8)
    out = io.BytesIO()
    Picture.fromarray(cells).resize(size).save(out, kind)
    return out.getvalue()


def shrink(source: Path, out: Path | None, max_side: int = 40, **options) -> StageResult:
    return run(ShrinkConfig(input=source, output=out, max_side=max_side, dry_run=out is None, **options))


def assert_whole(path: Path) -> None:
    found = verify.run(verify.VerifyConfig(dataset=path, deep=True))
    assert (found.problems, found.stray) == ((), ())


def by_text(path: Path) -> dict[str, Example]:
    return {one.text: one for _, _, one in Dataset.open(path).examples()}


def laid_out(text: str, data: bytes, *items: LayoutItem) -> Example:
    made = example(text, data)
    made = replace(made, images=(replace(made.images[0], layout=items),))
    return replace(made, example_id=example_id(made))


def test_large_pictures_are_derived_and_small_ones_stay_byte_for_byte(tmp_path: Path):
    rows = [example("large", photo(1)), example("small", SMALL), example("both", photo(2), SMALL), example("none")]
    write(tmp_path / "a", rows, licences={0: "CC0"}, looks=True)
    result = shrink(tmp_path / "a", tmp_path / "b")
    before, after = by_text(tmp_path / "a"), by_text(tmp_path / "b")
    assert result.counts == {"read": 4, "kept": 4, "excluded": 0, "excluded_by_reason": {}}
    assert {name: result.report[name] for name in ("images", "shrunk", "by_media_type")} == {
        "images": 4, "shrunk": 2, "by_media_type": {"image/jpeg to image/jpeg": 2},
    }  # fmt: skip
    assert result.report["bytes_before"] > result.report["bytes_after"] > 0
    assert after["small"] == before["small"]
    assert after["none"] == before["none"]
    assert after["both"].images[1] == before["both"].images[1]
    made = after["large"].images[0]
    assert (made.width, made.height, made.media_type, made.frame) == (40, 30, "image/jpeg", 0)
    media = load(made.data)
    assert (made.asset_id, made.stored_xxh3, made.pixel_id) == (media.asset_id, media.stored_xxh3, media.pixel_id)
    assert decode_rgb(made.data).size == (40, 30)
    assert_whole(tmp_path / "b")


def test_the_old_asset_is_recorded(tmp_path: Path):
    write(tmp_path / "a", [example("large", photo(1), SMALL)], licences={0: "CC0"}, looks=True)
    shrink(tmp_path / "a", tmp_path / "b")
    old, new = by_text(tmp_path / "a")["large"], by_text(tmp_path / "b")["large"]
    dataset = Dataset.open(tmp_path / "b")
    assert new.example_id != old.example_id
    assert dataset.table("examples", ["example_id", "parent_id", "input", "position"]).to_pylist() == [
        {"example_id": new.example_id, "parent_id": old.example_id, "input": "rows.jsonl", "position": "1"}
    ]
    assert dataset.table("derived").to_pylist() == [
        {
            "example_id": new.example_id, "image": 0, "asset_id": new.images[0].asset_id,
            "pixel_id": new.images[0].pixel_id, "width": 40, "height": 30, "from_asset_id": old.images[0].asset_id,
            "from_frame": 0, "from_pixel_id": old.images[0].pixel_id, "from_width": 80, "from_height": 60,
        }
    ]  # fmt: skip
    changed, stayed = dataset.table("provenance").to_pylist()
    assert (changed["asset_id"], changed["digest"]) == (new.images[0].asset_id, f"sha256:{new.images[0].asset_id}")
    assert changed["preprocessing"] == f"shrunk,derived_from:{old.images[0].asset_id}#0"
    assert (changed["licence"], changed["input"], changed["source"]) == ("CC0", "rows.jsonl", "test")
    assert (stayed["asset_id"], stayed["preprocessing"]) == (old.images[1].asset_id, "none")
    assert changed["example_id"] == stayed["example_id"] == new.example_id
    assets = {row["asset_id"]: row for row in dataset.table("assets").to_pylist()}
    assert set(assets) == {image.asset_id for image in new.images}
    assert assets[changed["asset_id"]]["phash"] == load(new.images[0].data).looks.phash
    assert dataset.manifest.format_versions["encoders"].startswith("pillow-lanczos/1 ")


def test_layouts_are_scaled_along_and_groups_kept(tmp_path: Path):
    items = (
        LayoutItem(level="line", text="a", polygon=(0.0, 0.0, 80.0, 60.0), order=0),
        LayoutItem(level="word", text="b", polygon=(8.0, 6.0, 16.0, 6.0, 16.0, 12.0), parent=0, confidence=0.5),
        LayoutItem(level="word", text="c"),
    )
    row = laid_out("page", photo(1), *items)
    after, derived = derive(replace(row, group="book 1"), max_side=20, quality=90)
    assert [item.polygon for item in after.images[0].layout] == [(0, 0, 20, 15), (2, 1.5, 4, 1.5, 4, 3), ()]
    assert [replace(item, polygon=()) for item in after.images[0].layout] == [
        replace(item, polygon=()) for item in items
    ]
    assert (after.group, len(derived), after.example_id) == ("book 1", 1, example_id(after))
    default = replace(row, group=row.images[0].asset_id)
    assert derive(default, max_side=20, quality=90)[0].group == after.images[0].asset_id
    assert derive(row, max_side=80, quality=90) == (row, ())


def test_odd_sizes_keep_every_box_inside():
    for width, height in ((81, 53), (33, 97), (80, 3)):
        whole = LayoutItem(level="region", polygon=(0.0, 0.0, float(width), float(height)))
        after, _ = derive(laid_out("page", photo(1, (width + 3, height + 3)), whole), max_side=31, quality=90)
        image = after.images[0]
        assert max(image.width, image.height) == 31
        assert image.layout[0].polygon[2] <= image.width
        assert image.layout[0].polygon[3] <= image.height


def test_splits_and_what_ties_them_are_inherited(tmp_path: Path):
    shared = photo(500)
    rows = [example(f"row {k}", photo(k), group=f"group {k // 2}", source="s") for k in range(40)]
    rows += [example(f"plate {k}", shared, group=f"plate {k}", source="s") for k in range(25)]
    write(tmp_path / "a", rows, looks=True)
    split(tmp_path / "a", tmp_path / "s", "train=0.6,test=0.4")
    shrink(tmp_path / "s", tmp_path / "b")
    assert places(tmp_path / "b") == places(tmp_path / "s")
    old, new = Dataset.open(tmp_path / "s"), Dataset.open(tmp_path / "b")
    assert new.splits == old.splits
    assert new.table("groups")["example_id"].to_pylist() == new.table("examples")["example_id"].to_pylist()
    for name in ("declared", "component"):
        assert new.table("groups")[name].to_pylist() == old.table("groups")[name].to_pylist()
    assert new.table("ledger").equals(old.table("ledger"))
    kinds = Counter(new.table("boilerplate")["kind"].to_pylist())
    assert kinds == Counter(old.table("boilerplate")["kind"].to_pylist())
    assert kinds["asset"] == 1
    plate = by_text(tmp_path / "b")["plate 0"].images[0]
    values = new.table("boilerplate")["value"].to_pylist()
    assert {plate.asset_id, plate.pixel_id} <= set(values)
    found = audit.run(audit.AuditConfig(dataset=tmp_path / "b"))
    assert found.error is None
    assert found.permitted["asset"] == 1
    assert_whole(tmp_path / "b")


def test_what_was_shrunk_can_be_split(tmp_path: Path):
    write(tmp_path / "a", [example(f"row {k}", photo(k // 2)) for k in range(30)], looks=True)
    shrink(tmp_path / "a", tmp_path / "b")
    split(tmp_path / "b", tmp_path / "s", "train=0.5,test=0.5")
    assert audit.run(audit.AuditConfig(dataset=tmp_path / "s")).error is None
    split(tmp_path / "a", tmp_path / "sa", "train=0.5,test=0.5")
    split(tmp_path / "b", tmp_path / "like", "train=0.5,test=0.5", like=tmp_path / "sa")
    assert places(tmp_path / "like") == places(tmp_path / "sa")


def test_shards_units_and_workers_change_nothing(tmp_path: Path):
    rows = [example(f"row {k}", photo(k)) for k in range(10)]
    write(tmp_path / "a", rows, shard_size=9000, looks=True)
    write(tmp_path / "t", rows, shards="tar", looks=True)
    one = shrink(tmp_path / "a", tmp_path / "one", workers=1)
    two = shrink(tmp_path / "a", tmp_path / "two", workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(Dataset.open(tmp_path / "one").shards) > 1
    assert one.dataset_id == two.dataset_id
    shrink(tmp_path / "t", tmp_path / "tar", shards="tar")
    assert [e.example_id for _, _, e in Dataset.open(tmp_path / "tar").examples()] == [
        e.example_id for _, _, e in Dataset.open(tmp_path / "one").examples()
    ]
    assert_whole(tmp_path / "tar")


def test_a_killed_run_goes_on_after_its_last_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "a", [example(f"row {k}", photo(k)) for k in range(12)], shard_size=3000, looks=True)
    shrink(tmp_path / "a", tmp_path / "whole")
    num_units = len(Dataset.open(tmp_path / "a").shards)
    assert num_units > 3
    done = []

    def killed(function, items, **_options):
        for number, item in enumerate(items):
            if number == 2:
                raise KeyboardInterrupt
            yield function(item)

    monkeypatch.setattr(shrink_run, "map_ordered", killed)
    with pytest.raises(KeyboardInterrupt):
        shrink(tmp_path / "a", tmp_path / "b")

    def counted(function, items, **options):
        for result in local.map_ordered(function, items, **options):
            done.append(result.unit)
            yield result

    monkeypatch.setattr(shrink_run, "map_ordered", counted)
    shrink(tmp_path / "a", tmp_path / "b")
    assert 0 not in done
    assert len(set(done)) < num_units
    assert files(tmp_path / "b") == files(tmp_path / "whole")


def test_dry_run_rerun_and_other_settings(tmp_path: Path):
    write(tmp_path / "a", [example(f"row {k}", photo(k)) for k in range(3)], looks=True)
    dry = shrink(tmp_path / "a", None)
    first = shrink(tmp_path / "a", tmp_path / "b")
    assert (dry.counts, dry.report, dry.dataset_id) == (first.counts, first.report, None)
    assert shrink(tmp_path / "a", tmp_path / "b").unchanged
    with pytest.raises(OutputError, match="quality was 90, now 50"):
        shrink(tmp_path / "a", tmp_path / "b", quality=50)
    assert (
        shrink(tmp_path / "a", tmp_path / "b", quality=50, overwrite=True).report["bytes_after"]
        < (first.report["bytes_after"])
    )
    with pytest.raises(OutputError, match="lie in each other"):
        shrink(tmp_path / "a", tmp_path / "a" / "b")
    again = shrink(tmp_path / "b", tmp_path / "c")
    assert again.report["shrunk"] == 0
    assert texts(Dataset.open(tmp_path / "c")) == ["row 0", "row 1", "row 2"]
    assert shrink(tmp_path / "b", tmp_path / "d", max_side=10).report["shrunk"] == 3
    assert_whole(tmp_path / "d")


def test_other_formats_change_their_name(tmp_path: Path):
    made = example("bmp", photo(1, kind="BMP"))
    made = replace(made, images=(replace(made.images[0], path="scan.1.bmp"),))
    made = replace(made, example_id=example_id(made))
    write(tmp_path / "a", [made], looks=True)
    shrink(tmp_path / "a", tmp_path / "b")
    image = by_text(tmp_path / "b")["bmp"].images[0]
    assert (image.path, image.media_type) == ("scan.1.png", "image/png")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_side": 0}, "--max-side is under one pixel"),
        ({"quality": 100}, "--quality 100 is not from 1 to 95"),
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, options: dict, told: str):
    with pytest.raises(ConfigError) as caught:
        ShrinkConfig(**{"input": tmp_path, "output": tmp_path, "max_side": 9, **options})
    assert told in caught.value.what


def test_a_picture_that_does_not_decode_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path / "a", [example("fine", SMALL), example("broken", photo(1))])

    def broken(data: bytes, **options: int) -> None:
        return shrink_file(data[:200], **options)

    monkeypatch.setattr(derive_module, "shrink", broken)
    with pytest.raises(
        SourceError, match=r"a picture cannot be decoded: the JPEG data ends before .* \(truncated\)"
    ) as caught:
        shrink(tmp_path / "a", tmp_path / "b")
    assert caught.value.where.endswith(".arrow:1")


def test_what_was_made_from_a_forgotten_original_goes(tmp_path: Path):
    write(tmp_path / "a", [example(f"row {k}", photo(k)) for k in range(4)], looks=True)
    original = by_text(tmp_path / "a")["row 2"].images[0].asset_id
    shrink(tmp_path / "a", tmp_path / "b", max_side=60)
    shrink(tmp_path / "b", tmp_path / "c", max_side=30)
    rows = Dataset.open(tmp_path / "c").table("provenance", ["preprocessing"])["preprocessing"].to_pylist()
    first = by_text(tmp_path / "b")["row 2"].images[0].asset_id
    assert f"shrunk,derived_from:{first}#0,shrunk,derived_from:{original}#0" in rows
    (tmp_path / "a").rename(tmp_path / "gone")  # lineage does not need the originals
    forgotten = forget(ForgetConfig(input=tmp_path / "c", output=tmp_path / "d", assets=(original[:12],)))
    assert forgotten.counts["excluded_by_reason"] == {"forgotten_asset": 1}
    assert texts(Dataset.open(tmp_path / "d")) == ["row 0", "row 1", "row 3"]
